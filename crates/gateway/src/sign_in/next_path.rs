//! The page that is opened after a sign-in.

use axum::http::{HeaderMap, Uri, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// A longer path is not opened after a sign-in: it would not fit into the address of the sign-in page.
const MAX_LENGTH: usize = 8 << 10;

/// A path of this server, with its query, to which a browser is sent after a sign-in. It cannot lead to another site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NextPath(String);

impl NextPath {
    /// The path in a link that anyone may have written; `/` if it could lead elsewhere.
    pub(crate) fn from_untrusted(text: &str) -> NextPath {
        if is_path_of_this_server(text) && !is_sign_in(text) {
            NextPath(text.to_string())
        } else {
            NextPath("/".into())
        }
    }

    /// The path and query of a request.
    pub(crate) fn of_request(uri: &Uri) -> NextPath {
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        NextPath::from_untrusted(path)
    }

    /// The page of this server that made the browser send the request.
    pub(crate) fn of_sending_page(headers: &HeaderMap) -> NextPath {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let same_host = text(header::REFERER)
            .and_then(|referer| referer.parse::<Uri>().ok())
            .filter(|referer| {
                let authority = referer.authority().map(|authority| authority.as_str());
                authority.is_some() && authority == text(header::HOST)
            });
        same_host.map_or_else(|| NextPath("/".into()), |referer| NextPath::of_request(&referer))
    }

    /// The address of the sign-in page that opens this page afterwards.
    pub(crate) fn sign_in_address(&self) -> String {
        format!("/sign-in?next={}", utf8_percent_encode(&self.0, NON_ALPHANUMERIC))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Browsers read `\` as `/`, and ignore tabs and line breaks. `//host` is an address of another server.
fn is_path_of_this_server(text: &str) -> bool {
    text.starts_with('/')
        && !text.starts_with("//")
        && text.len() <= MAX_LENGTH
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

fn is_sign_in(path: &str) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    matches!(path, "/sign-in" | "/sign-out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_this_server_are_opened() {
        let check = |text: &str, expected: &str| {
            assert_eq!(NextPath::from_untrusted(text).as_str(), expected, "{text:?}");
        };
        for fine in [
            "/",
            "/tasks/1?a=b&c=%2F%5C",
            "/?text=https://x.example",
            "/a//b",
            "/@x",
            "/%09/x",
        ] {
            check(fine, fine);
        }
        for evil in [
            "",
            "evil",
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "\\/evil.example",
            "/\t/evil.example",
            "\t//evil.example",
            "/\n/evil.example",
            "/\r\nSet-Cookie: a=b",
            " //evil.example",
            "/a\\b",
            "/ü",
            "/\u{2028}",
            "https://evil.example",
            "https:",
            "https:/evil.example",
            "javascript:alert(1)",
            "data:text/html,x",
            "/sign-in",
            "/sign-in?next=%2Fsign-in",
            "/sign-out",
        ] {
            check(evil, "/");
        }
        check(&format!("/{}", "x".repeat(MAX_LENGTH)), "/");
    }

    #[test]
    fn the_page_that_sent_a_form_is_on_this_host() {
        let check = |referer: Option<&str>, expected: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "a:7000".parse().unwrap());
            if let Some(referer) = referer {
                headers.insert(header::REFERER, referer.parse().unwrap());
            }
            let next = NextPath::of_sending_page(&headers);
            assert_eq!(next.as_str(), expected, "{referer:?}");
        };
        check(None, "/");
        check(Some("http://a:7000/tasks/1?x=y"), "/tasks/1?x=y");
        check(Some("https://a:7000/groups"), "/groups");
        check(Some("http://evil.example/tasks/1"), "/");
        check(Some("http://a:7000@evil.example/tasks/1"), "/");
        check(Some("http://a:7000//evil.example"), "/");
        check(Some("http://a:7000"), "/");
        check(Some("/tasks/1"), "/");
        check(Some("about:blank"), "/");
    }

    #[test]
    fn the_address_of_the_sign_in_page_contains_the_path_as_one_parameter() {
        let check = |path: &str, expected: &str| {
            let next = NextPath::from_untrusted(path);
            assert_eq!(next.sign_in_address(), expected);
        };
        check("/", "/sign-in?next=%2F");
        check("/?a=b&c=d e", "/sign-in?next=%2F");
        check("/?a=b&c=d", "/sign-in?next=%2F%3Fa%3Db%26c%3Dd");
    }
}
