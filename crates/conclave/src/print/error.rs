//! Prints errors together with the flag that helps.

use api::HttpClientError;

use super::print_message;
use crate::args::TaskLookupError;

/// Prints an error with its causes and, where one is known, a hint.
pub(crate) fn print_error(error: &anyhow::Error) {
    let cause = error.chain().find_map(|cause| match cause.downcast_ref() {
        Some(TaskLookupError::Request(error)) => Some(error),
        _ => cause.downcast_ref(),
    });
    match cause.and_then(hint) {
        Some(hint) => print_message(format_args!("{error:#}; {hint}")),
        None => print_message(format_args!("{error:#}")),
    }
}

fn hint(error: &HttpClientError) -> Option<&'static str> {
    const TOKEN: &str = "give the file with your token by --token-file FILE or CONCLAVE_TOKEN_FILE, and check that it is the right one";
    match error.last() {
        HttpClientError::Problem(problem) => match problem.status {
            401 => Some(TOKEN),
            // The server itself answers 403 only to cross-site requests; any other 403 comes from a proxy.
            403 if !problem.kind.ends_with("#cross-site") => Some(TOKEN),
            _ => None,
        },
        HttpClientError::Certificate { .. } => Some(
            "if a private CA has signed it, give the CA's certificate by --ca-file FILE or CONCLAVE_CA_FILE",
        ),
        HttpClientError::Setup(_) | HttpClientError::CaCertificates(_) => {
            Some("--ca-file takes a file of certificates in PEM format")
        }
        HttpClientError::Timeout { .. } | HttpClientError::IncompleteResponse { .. } => {
            Some("give the server more time with a longer --timeout")
        }
        HttpClientError::Redirect { .. } => Some("give that URL with --server"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use api::Problem;

    use super::*;

    #[test]
    fn a_refused_token_gives_a_hint_to_the_flag() {
        let check = |status: u16, kind: &str, expected: bool| {
            let problem = Problem {
                kind: kind.into(),
                title: String::new(),
                status,
                detail: String::new(),
                field: None,
                limit: None,
                actual: None,
            };
            let hint = hint(&HttpClientError::Problem(Box::new(problem)));
            assert_eq!(
                hint.is_some_and(|hint| hint.contains("--token-file")),
                expected,
                "{status} {kind}"
            );
        };
        check(401, "/api/docs#token", true);
        check(403, "about:blank", true);
        check(403, "/api/docs#cross-site", false);
        check(404, "/api/docs#not-found", false);
    }
}
