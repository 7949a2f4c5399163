//! Which kinds of responses a client accepts, by the headers `Accept` and `Accept-Encoding`.

use axum::http::HeaderMap;
use axum::http::header::HeaderName;

/// Whether a header names this value as acceptable. Wildcards do not count.
pub(crate) fn accepts(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).into_iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|accepted| {
            let mut parts = accepted.split(';').map(str::trim);
            let is_wanted = parts
                .next()
                .is_some_and(|value| value.eq_ignore_ascii_case(wanted));
            // `q=0` means not acceptable.
            is_wanted && !parts.any(|part| part.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0)))
        })
}
