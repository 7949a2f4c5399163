//! Errors as a person reads them: what happened, and which flag helps.

use api::ClientError;

use super::complain;
use crate::args::FindError;

pub(crate) fn complain_about(error: &anyhow::Error) {
    let cause = error.chain().find_map(|cause| match cause.downcast_ref() {
        Some(FindError::Call(error)) => Some(error),
        _ => cause.downcast_ref(),
    });
    match cause.and_then(advice) {
        Some(advice) => complain(format_args!("{error:#}; {advice}")),
        None => complain(format_args!("{error:#}")),
    }
}

fn advice(error: &ClientError) -> Option<&'static str> {
    const TOKEN: &str = "name the file with your token by --token-file FILE or CONCLAVE_TOKEN_FILE, and check that it is the right one";
    match error.last() {
        ClientError::Problem(problem) => match problem.status {
            401 => Some(TOKEN),
            // The server's own 403 is about web pages of other sites; any other is a proxy's.
            403 if !problem.kind.ends_with("#cross-site") => Some(TOKEN),
            _ => None,
        },
        ClientError::Certificate { .. } => Some(
            "if a private authority has signed it, name that authority's certificate by --ca-file FILE or CONCLAVE_CA_FILE",
        ),
        ClientError::Setup(_) | ClientError::Authorities(_) => {
            Some("--ca-file FILE names a file of certificates in PEM form")
        }
        ClientError::Silent { .. } | ClientError::Unfinished { .. } => {
            Some("a longer --timeout gives it more time")
        }
        ClientError::Redirect { .. } => Some("give that address as --server"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use api::Problem;

    use super::*;

    #[test]
    fn a_refused_token_names_the_flag() {
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
            let advice = advice(&ClientError::Problem(Box::new(problem)));
            assert_eq!(
                advice.is_some_and(|advice| advice.contains("--token-file")),
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
