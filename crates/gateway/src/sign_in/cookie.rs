//! The cookie that keeps a browser signed in.

use std::time::Duration;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use model::UnixTime;
use sha2::{Digest, Sha256};

use super::uses_tls;

const NAME: &str = "conclave";
/// With TLS, the prefix makes browsers refuse a cookie of such a name that another host of the domain has set.
const TLS_PREFIX: &str = "__Host-";

/// Browsers ignore larger cookies.
const MAX_COOKIE_BYTES: usize = 4096;

/// The MAC authenticates this and the expiry in seconds since 1970.
const EXPIRY_CONTEXT: &str = "conclave sign-in until ";

/// The cookie of a browser that is signed in: `TOKEN.EXPIRY.MAC`, with token and MAC in base64url.
///
/// The MAC authenticates the expiry and its key is made of the token, so that every gateway can check it without a secret of its
/// own. To forge a later expiry takes the token, which signs in anyway.
pub(crate) struct SignInCookie {
    value: String,
    lifetime: Duration,
}

/// The name of the cookie where a browser reaches this server. It has the port, because browsers send the cookies of a host
/// to all its ports: a server on another one would sign the user out of this.
pub(crate) struct CookieName {
    name: String,
    tls: bool,
}

impl CookieName {
    /// For the browser that has sent a request with these headers.
    pub(crate) fn of(headers: &HeaderMap) -> CookieName {
        let tls = uses_tls(headers);
        let host = headers
            .get(header::HOST)
            .and_then(|host| Authority::try_from(host.as_bytes()).ok());
        let port = host.and_then(|host| host.port_u16());
        let prefix = if tls { TLS_PREFIX } else { "" };
        let port = port.map_or_else(String::new, |port| format!("-{port}"));
        CookieName {
            name: format!("{prefix}{NAME}{port}"),
            tls,
        }
    }
}

impl SignInCookie {
    pub(crate) fn new(token: &str, lifetime: Duration, now: UnixTime) -> SignInCookie {
        // Browsers ignore fractions of a second and remove a cookie at once whose age is 0.
        let lifetime = Duration::from_secs(lifetime.as_secs().max(1));
        let expiry = now.plus(lifetime).0 / 1_000_000;
        let mac = expiry_mac(token, expiry).finalize().into_bytes();
        let (token, mac) = (URL_SAFE_NO_PAD.encode(token), URL_SAFE_NO_PAD.encode(mac));
        SignInCookie {
            value: format!("{token}.{expiry}.{mac}"),
            lifetime,
        }
    }

    /// The value of `Set-Cookie`, if browsers would keep such a large cookie.
    pub(crate) fn set_header(&self, name: &CookieName) -> Option<HeaderValue> {
        let SignInCookie { value, lifetime } = self;
        if name.name.len() + value.len() > MAX_COOKIE_BYTES {
            return None;
        }
        HeaderValue::try_from(set_cookie(name, value, *lifetime)).ok()
    }

    /// The value of `Set-Cookie` that makes the browser forget the cookie.
    pub(crate) fn removal_header(name: &CookieName) -> Option<HeaderValue> {
        HeaderValue::try_from(set_cookie(name, "", Duration::ZERO)).ok()
    }

    /// The token in the cookie of a request, if the sign-in has not expired.
    pub(crate) fn token_from(headers: &HeaderMap, now: UnixTime) -> Option<String> {
        SignInCookie::valid_from(headers, now).map(|(token, _)| token)
    }

    /// When the sign-in of a request expires, if it has not.
    pub(crate) fn expiry_from(headers: &HeaderMap, now: UnixTime) -> Option<UnixTime> {
        SignInCookie::valid_from(headers, now).map(|(_, expiry)| expiry)
    }

    fn valid_from(headers: &HeaderMap, now: UnixTime) -> Option<(String, UnixTime)> {
        let CookieName { name, .. } = CookieName::of(headers);
        let cookies = headers.get_all(header::COOKIE).into_iter();
        cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(found, _)| *found == name)
            .find_map(|(_, value)| valid_parts(value, now))
    }
}

fn set_cookie(name: &CookieName, value: &str, lifetime: Duration) -> String {
    let CookieName { name, tls } = name;
    let secure = if *tls { "; Secure" } else { "" };
    format!(
        "{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}",
        lifetime.as_secs()
    )
}

/// The token and the expiry.
fn valid_parts(value: &str, now: UnixTime) -> Option<(String, UnixTime)> {
    let mut parts = value.splitn(3, '.');
    let (token, expiry, mac) = (parts.next()?, parts.next()?, parts.next()?);
    let token = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let expiry: i64 = expiry.parse().ok()?;
    let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
    // In the same time for each MAC, right or wrong.
    expiry_mac(&token, expiry).verify_slice(&mac).ok()?;
    let expiry = UnixTime(expiry.saturating_mul(1_000_000));
    (now < expiry).then_some((token, expiry))
}

fn expiry_mac(token: &str, expiry: i64) -> Hmac<Sha256> {
    let mut key = hmac::digest::Key::<Hmac<Sha256>>::default();
    key.iter_mut()
        .zip(Sha256::digest(token))
        .for_each(|(byte, hashed)| *byte = hashed);
    Hmac::new(&key).chain_update(format!("{EXPIRY_CONTEXT}{expiry}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime(1_800_000_000_000_000);
    const HOUR: Duration = Duration::from_secs(3600);

    fn name(tls: bool) -> CookieName {
        CookieName::of(&sent("", tls))
    }

    fn set(token: &str, lifetime: Duration, tls: bool) -> String {
        let header = SignInCookie::new(token, lifetime, NOW).set_header(&name(tls));
        header.unwrap().to_str().unwrap().to_string()
    }

    fn sent(cookie: &str, tls: bool) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let cookie = format!("theme=dark; {cookie}; other=\"x\"");
        headers.insert(header::COOKIE, cookie.parse().unwrap());
        if tls {
            headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
        }
        headers
    }

    fn pair(set: &str) -> &str {
        set.split(';').next().unwrap()
    }

    #[test]
    fn the_cookie_is_for_this_site_and_not_for_scripts() {
        let plain = set("0123456789abcdef", HOUR, false);
        assert!(
            plain.starts_with("conclave=MDEyMzQ1Njc4OWFiY2RlZg.1800003600."),
            "{plain}"
        );
        assert!(
            plain.ends_with("; Path=/; HttpOnly; SameSite=Strict; Max-Age=3600"),
            "{plain}"
        );
        let tls = set("0123456789abcdef", HOUR, true);
        assert!(tls.starts_with("__Host-conclave="), "{tls}");
        assert!(tls.ends_with("; Max-Age=3600; Secure"), "{tls}");
        let removal = SignInCookie::removal_header(&name(true)).unwrap();
        assert_eq!(
            removal,
            "__Host-conclave=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0; Secure"
        );
        assert!(set("x", Duration::from_millis(3), false).ends_with("Max-Age=1"));
    }

    #[test]
    fn servers_on_two_ports_of_a_host_have_cookies_of_their_own() {
        let check = |host: &'static str, tls: bool, expected: &str| {
            let mut headers = sent("", tls);
            headers.insert(header::HOST, HeaderValue::from_static(host));
            assert_eq!(CookieName::of(&headers).name, expected, "{host}");
        };
        check("localhost:7000", false, "conclave-7000");
        check("localhost:7001", false, "conclave-7001");
        check("[::1]:7001", false, "conclave-7001");
        check("tasks.example", false, "conclave");
        check("tasks.example", true, "__Host-conclave");
        check("tasks.example:7443", true, "__Host-conclave-7443");
        check("a b:x", false, "conclave");
    }

    #[test]
    fn every_token_fits_but_those_that_browsers_would_not_keep() {
        for token in ["0123456789abcdef", "a;b=c, \"d\" ü\u{1f980}.", "+/==", ""] {
            let headers = sent(pair(&set(token, HOUR, false)), false);
            assert_eq!(SignInCookie::token_from(&headers, NOW).as_deref(), Some(token));
        }
        let long = "x".repeat(2900);
        assert!(
            SignInCookie::new(&long, HOUR, NOW)
                .set_header(&name(true))
                .is_some()
        );
        let too_long = "x".repeat(3100);
        assert!(
            SignInCookie::new(&too_long, HOUR, NOW)
                .set_header(&name(true))
                .is_none()
        );
    }

    #[test]
    fn a_sign_in_expires_also_if_the_browser_keeps_the_cookie() {
        let headers = sent(pair(&set("0123456789abcdef", HOUR, false)), false);
        let valid = |after: Duration| SignInCookie::token_from(&headers, NOW.plus(after)).is_some();
        assert_eq!(SignInCookie::expiry_from(&headers, NOW), Some(NOW.plus(HOUR)));
        assert_eq!(SignInCookie::expiry_from(&headers, NOW.plus(HOUR)), None);
        assert!(valid(Duration::ZERO));
        assert!(valid(HOUR - Duration::from_millis(1)));
        assert!(!valid(HOUR));
        assert!(!valid(HOUR * 24));
    }

    #[test]
    fn a_changed_cookie_is_invalid() {
        let cookie = set("0123456789abcdef", HOUR, false);
        let check = |from: &str, to: &str, valid: bool| {
            let changed = pair(&cookie).replacen(from, to, 1);
            assert!(from.is_empty() || changed != pair(&cookie), "{from}");
            let found = SignInCookie::token_from(&sent(&changed, false), NOW);
            assert_eq!(found.is_some(), valid, "{changed}");
        };
        check("", "", true);
        check(".1800003600.", ".1800003601.", false);
        check(".1800003600.", ".9999999999.", false);
        check(".1800003600.", ".99999999999999999999.", false);
        check(".1800003600.", "..", false);
        check(".1800003600.", ".", false);
        check("MDEy", "MDEz", false);
        check("MDEy", "!", false);
        check("MDEy", "_w", false);
        check("conclave=", "conclav=", false);
        check("conclave=", "__Host-conclave=", false);
        // The other name counts only with TLS.
        let tls = set("0123456789abcdef", HOUR, true);
        assert!(SignInCookie::token_from(&sent(pair(&tls), true), NOW).is_some());
        assert!(SignInCookie::token_from(&sent(pair(&tls), false), NOW).is_none());
        assert!(SignInCookie::token_from(&sent(pair(&cookie), true), NOW).is_none());
    }

    #[test]
    fn the_valid_one_of_several_cookies_counts() {
        let valid = set("0123456789abcdef", HOUR, false);
        let both = format!("conclave=old; {}", pair(&valid));
        assert!(SignInCookie::token_from(&sent(&both, false), NOW).is_some());
    }
}
