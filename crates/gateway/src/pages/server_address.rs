//! The address of this server in commands that a page offers to copy.

use axum::http::{HeaderMap, Uri, header};

use super::run::quote_word;
use crate::caller::Caller;
use crate::sign_in;

/// The server as its clients reach it, for commands that can be copied into a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerAddress {
    /// Without a path.
    pub(super) url: String,
    pub(super) needs_token: bool,
}

/// The header with the token, as an argument of curl. The shell reads the token from the file.
pub(super) const CURL_TOKEN: &str = " \\\n  -H \"Authorization: Bearer $(cat \"$CONCLAVE_TOKEN_FILE\")\"";

impl ServerAddress {
    /// The address as the caller used it.
    pub(super) fn of(caller: &Caller, headers: &HeaderMap, uri: &Uri) -> ServerAddress {
        ServerAddress {
            url: url(headers, uri),
            needs_token: caller.user().is_some(),
        }
    }

    /// The argument of curl with the token, if one is needed.
    pub(super) fn curl_token(&self) -> &'static str {
        if self.needs_token { CURL_TOKEN } else { "" }
    }

    /// The flags of `conclave` for this server.
    pub(super) fn flags(&self) -> String {
        let token = match self.needs_token {
            true => " --token-file \"$CONCLAVE_TOKEN_FILE\"",
            false => "",
        };
        format!(" --server {}{token}", quote_word(&self.url))
    }
}

/// The address of this server as the browser used it. A host name with special characters is replaced, because it could
/// be code for a shell or a page.
pub(super) fn url(headers: &HeaderMap, uri: &Uri) -> String {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .or_else(|| uri.authority().map(|authority| authority.as_str()));
    let plain = |host: &&str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
        !host.is_empty() && host.chars().all(fits)
    };
    let scheme = if sign_in::uses_tls(headers) {
        "https"
    } else {
        "http"
    };
    format!("{scheme}://{}", host.filter(plain).unwrap_or("127.0.0.1:7000"))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn commands_have_the_address_of_the_server() {
        let check = |host: &'static str, proto: Option<&'static str>, expected: &str| {
            let mut headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            if let Some(proto) = proto {
                headers.insert("x-forwarded-proto", HeaderValue::from_static(proto));
            }
            assert_eq!(url(&headers, &Uri::from_static("/api/docs")), expected, "{host}");
        };
        check("10.1.2.3:7000", None, "http://10.1.2.3:7000");
        check("[::1]:8", None, "http://[::1]:8");
        check("tasks.example", Some("https"), "https://tasks.example");
        check("a';reboot;'", None, "http://127.0.0.1:7000");
        check("<script>", Some("javascript"), "http://127.0.0.1:7000");
    }

    #[test]
    fn the_flags_name_the_token_only_where_one_is_needed() {
        let check = |url: &str, needs_token: bool, expected: &str| {
            let server = ServerAddress {
                url: url.into(),
                needs_token,
            };
            assert_eq!(server.flags(), expected);
        };
        check("http://a:7001", false, " --server http://a:7001");
        check("http://[::1]:8", false, " --server 'http://[::1]:8'");
        check(
            "https://a",
            true,
            " --server https://a --token-file \"$CONCLAVE_TOKEN_FILE\"",
        );
    }
}
