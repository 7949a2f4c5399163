//! The `Content-Disposition` header of downloads (RFC 6266).

use axum::http::HeaderValue;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What RFC 8187 allows unencoded in `filename*`, besides letters and digits.
const NOT_ATTR_CHAR: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Makes browsers save the content under the last part of this path.
pub(crate) fn attachment(path: &str) -> HeaderValue {
    let name = path.rsplit('/').next().unwrap_or(path);
    // For programs that do not know `filename*`. Some of them decode percent signs in `filename`.
    let plain = |c: char| match c {
        '"' | '\\' | '%' => '_',
        ' '..='~' => c,
        _ => '_',
    };
    let fallback: String = name.chars().map(plain).collect();
    let encoded = utf8_percent_encode(name, NOT_ATTR_CHAR);
    let text = format!("attachment; filename=\"{fallback}\"; filename*=UTF-8''{encoded}");
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        let check = |path: &str, expected: &str| {
            assert_eq!(attachment(path), format!("attachment; {expected}"), "{path}");
        };
        check("a.csv", "filename=\"a.csv\"; filename*=UTF-8''a.csv");
        check("out/a.csv", "filename=\"a.csv\"; filename*=UTF-8''a.csv");
        check("a b", "filename=\"a b\"; filename*=UTF-8''a%20b");
        check("ü.txt", "filename=\"_.txt\"; filename*=UTF-8''%C3%BC.txt");
        check(
            "a\"; x=\"b",
            "filename=\"a_; x=_b\"; filename*=UTF-8''a%22%3B%20x%3D%22b",
        );
        check(
            "a\\b%41'(c)*",
            "filename=\"a_b_41'(c)*\"; filename*=UTF-8''a%5Cb%2541%27%28c%29%2A",
        );
        check("a\r\nb", "filename=\"a__b\"; filename*=UTF-8''a%0D%0Ab");
    }
}
