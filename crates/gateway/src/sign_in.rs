//! Signing in with a browser: a cookie takes the place of the `Authorization` header.
//!
//! The cookie contains the token and the time until which it is valid, so that every gateway can check it and none keeps
//! a list of who is signed in. A token that is removed from the file of tokens ends its sign-ins.

mod cookie;
mod guesses;
mod next_path;

use std::time::{Duration, SystemTime};

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{UnixTime, UserName};

use crate::Tokens;
use crate::request_error::RequestError;

pub(crate) use cookie::{CookieName, SignInCookie};
pub(crate) use guesses::{GUESS_PAUSE, guess_pool, user_of_guess};
pub(crate) use next_path::NextPath;

/// The user whose token the request has: in its `Authorization` header, or in the cookie of its sign-in.
///
/// Browsers go on sending a password that they have once been asked for, so an invalid header does not hide the cookie.
pub(crate) fn authenticated_user(tokens: &Tokens, headers: &HeaderMap) -> Result<UserName, RequestError> {
    let in_header = token_from_authorization(headers);
    let in_cookie = accepts_cookie(headers)
        .then(|| SignInCookie::token_from(headers, now()))
        .flatten();
    let presented = [in_header, in_cookie];
    let mut presented = presented.iter().flatten().peekable();
    if presented.peek().is_none() {
        return Err(RequestError::MissingToken);
    }
    presented
        .find_map(|token| tokens.user(token))
        .ok_or(RequestError::UnknownToken)
}

/// How long the sign-in of the request still lasts, if it has one.
pub(crate) fn time_left(headers: &HeaderMap) -> Option<Duration> {
    let now = now();
    let expiry = SignInCookie::expiry_from(headers, now).filter(|_| accepts_cookie(headers));
    expiry.map(|expiry| expiry.since(now))
}

/// The token of a `Bearer` header, or the password of a `Basic` header.
fn token_from_authorization(headers: &HeaderMap) -> Option<String> {
    let (scheme, value) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        Some(value.trim().to_string())
    } else if scheme.eq_ignore_ascii_case("basic") {
        let decoded = String::from_utf8(STANDARD.decode(value.trim()).ok()?).ok()?;
        decoded.split_once(':').map(|(_, password)| password.to_string())
    } else {
        None
    }
}

/// Whether the cookie of the request may count: no other site has made the browser send it.
///
/// `SameSite=Strict` keeps browsers from sending it with the requests of other sites. But for browsers, servers on other
/// ports of this host and on other names of its domain are the same site; only links lead from there to here.
fn accepts_cookie(headers: &HeaderMap) -> bool {
    let is = |name: &str, expected: &str| {
        let value = headers.get(name).map(|value| value.as_bytes());
        value == Some(expected.as_bytes())
    };
    match headers.get("sec-fetch-site").map(|value| value.as_bytes()) {
        // Browsers leave the header out if the page was loaded without TLS from another machine.
        None | Some(b"same-origin" | b"none") => true,
        Some(b"same-site") => is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document"),
        Some(_) => false,
    }
}

/// Whether the browser uses TLS. Conclave itself does not; a proxy in front of it sets the header.
pub(crate) fn uses_tls(headers: &HeaderMap) -> bool {
    let proto = headers
        .get("x-forwarded-proto")
        .and_then(|value| value.to_str().ok());
    // Each proxy of several adds its own.
    proto
        .and_then(|list| list.split(',').next())
        .is_some_and(|first| first.trim().eq_ignore_ascii_case("https"))
}

pub(crate) fn now() -> UnixTime {
    SystemTime::now().into()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const ADA: &str = "ada-has-a-long-token";
    const BOB: &str = "bob-has-another-token";

    fn tokens() -> Tokens {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, format!("{ADA} ada\n{BOB} bob\n")).unwrap();
        Tokens::load(&path).unwrap()
    }

    fn cookie(token: &str) -> String {
        let cookie = SignInCookie::new(token, Duration::from_secs(60), now());
        let set = cookie.set_header(&CookieName::of(&HeaderMap::new())).unwrap();
        set.to_str().unwrap().split(';').next().unwrap().to_string()
    }

    #[test]
    fn tokens_are_read_from_bearer_and_basic_headers() {
        let check = |value: &str, expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            assert_eq!(token_from_authorization(&headers).as_deref(), expected, "{value}");
        };
        check("Bearer abc", Some("abc"));
        check("bearer  abc", Some("abc"));
        check("Basic eDphYmM=", Some("abc"));
        check("Basic !", None);
        check("Digest abc", None);
        check("abc", None);
        assert_eq!(token_from_authorization(&HeaderMap::new()), None);
    }

    #[test]
    fn a_header_or_a_cookie_names_the_user() {
        let tokens = tokens();
        let check = |authorization: Option<&str>, cookie: Option<String>, expected: Result<&str, &str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = authorization {
                headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            }
            if let Some(cookie) = &cookie {
                headers.insert(header::COOKIE, cookie.parse().unwrap());
            }
            let found = authenticated_user(&tokens, &headers);
            let found = found.as_ref().map(UserName::as_str).map_err(ToString::to_string);
            let case = format!("{authorization:?} {cookie:?}");
            match expected {
                Ok(user) => assert_eq!(found, Ok(user), "{case}"),
                Err(words) => assert!(found.unwrap_err().contains(words), "{case}"),
            }
        };
        let bearer = |token: &str| format!("Bearer {token}");
        check(None, None, Err("a token is required"));
        check(Some(&bearer(ADA)), None, Ok("ada"));
        check(None, Some(cookie(BOB)), Ok("bob"));
        check(Some(&bearer(ADA)), Some(cookie(BOB)), Ok("ada"));
        check(Some(&bearer("old-token-of-ours")), Some(cookie(BOB)), Ok("bob"));
        check(Some(&bearer("old-token-of-ours")), None, Err("not valid"));
        check(None, Some(cookie("removed-token-of-ours")), Err("not valid"));
        check(None, Some("conclave=x".into()), Err("a token is required"));
        check(Some("Digest x"), None, Err("a token is required"));
    }

    #[test]
    fn a_cookie_does_not_count_in_a_request_of_another_site() {
        let tokens = tokens();
        let check = |fetch: &[(&'static str, &str)], expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, cookie(ADA).parse().unwrap());
            for (name, value) in fetch {
                headers.insert(*name, value.parse().unwrap());
            }
            assert_eq!(
                authenticated_user(&tokens, &headers).is_ok(),
                expected,
                "{fetch:?}"
            );
        };
        let site = |value| ("sec-fetch-site", value);
        check(&[], true);
        check(&[site("same-origin"), ("sec-fetch-mode", "cors")], true);
        check(&[site("none"), ("sec-fetch-mode", "navigate")], true);
        check(&[site("cross-site"), ("sec-fetch-mode", "navigate")], false);
        check(&[site("cross-site")], false);
        let (link, page) = (("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"));
        check(&[site("same-site"), link, page], true);
        check(&[site("same-site"), link, ("sec-fetch-dest", "iframe")], false);
        check(&[site("same-site"), ("sec-fetch-mode", "cors")], false);
        check(
            &[
                site("same-site"),
                ("sec-fetch-mode", "no-cors"),
                ("sec-fetch-dest", "image"),
            ],
            false,
        );
        check(&[site("?")], false);
    }

    #[test]
    fn the_first_proxy_says_whether_the_browser_uses_tls() {
        let check = |value: Option<&'static str>, expected: bool| {
            let value = value.map(|value| ("x-forwarded-proto", value));
            let headers = value.into_iter().map(|(name, value)| {
                (
                    header::HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            });
            assert_eq!(uses_tls(&headers.collect()), expected, "{value:?}");
        };
        check(None, false);
        check(Some("http"), false);
        check(Some("https"), true);
        check(Some("HTTPS , http"), true);
        check(Some("http, https"), false);
    }
}
