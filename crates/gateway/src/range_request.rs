//! Range requests (RFC 9110, section 14): a client asks for one part of a content.

use std::ops::Range;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::BlobHash;
use rpc::ByteStream;

use crate::request_error::RequestError;

/// A content that the gateway sends to a client as a whole or in part: its size, and the hash that identifies it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangedContent {
    pub(crate) size: u64,
    pub(crate) hash: BlobHash,
}

/// The part of a content that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestedRange {
    Whole,
    /// Not empty, and within the content.
    Part(Range<u64>),
}

impl RangedContent {
    pub(crate) fn requested_range(
        &self,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<RequestedRange, RequestError> {
        // Ranges are defined for GET only.
        let text = headers.get(header::RANGE).filter(|_| *method == Method::GET);
        let Some(range) = text.and_then(|text| parse_range(text.to_str().ok()?)) else {
            return Ok(RequestedRange::Whole);
        };
        if !self.is_current(headers.get(header::IF_RANGE)) {
            return Ok(RequestedRange::Whole);
        }
        match range.within(self.size) {
            Some(range) => Ok(RequestedRange::Part(range)),
            None => Err(RequestError::RangeNotSatisfiable { size: self.size }),
        }
    }

    /// The response with this range of the content. `bytes` must be exactly the bytes of the range.
    pub(crate) fn respond(&self, range: &RequestedRange, bytes: ByteStream) -> Response {
        let (status, length) = match range {
            RequestedRange::Whole => (StatusCode::OK, self.size),
            RequestedRange::Part(range) => (StatusCode::PARTIAL_CONTENT, range.end - range.start),
        };
        let headers = [
            (header::ACCEPT_RANGES, "bytes".to_string()),
            (header::CONTENT_LENGTH, length.to_string()),
            (header::ETAG, self.etag()),
        ];
        let mut response = (status, headers, Body::from_stream(bytes)).into_response();
        if let RequestedRange::Part(Range { start, end }) = range
            && let Ok(value) = HeaderValue::try_from(format!("bytes {start}-{}/{}", end - 1, self.size))
        {
            response.headers_mut().insert(header::CONTENT_RANGE, value);
        }
        response
    }

    fn etag(&self) -> String {
        format!("\"{}\"", self.hash)
    }

    /// Whether the condition of an `If-Range` header holds. A date never does, as a content has none.
    fn is_current(&self, if_range: Option<&HeaderValue>) -> bool {
        if_range.is_none_or(|condition| condition.as_bytes() == self.etag().as_bytes())
    }
}

impl RequestedRange {
    /// The bytes to send.
    pub(crate) fn bytes(&self, size: u64) -> Range<u64> {
        match self {
            RequestedRange::Whole => 0..size,
            RequestedRange::Part(range) => range.clone(),
        }
    }
}

/// The value of a `Range` header with one range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteRange {
    /// The first and the last byte; without a last byte, to the end.
    From { first: u64, last: Option<u64> },
    /// This many bytes at the end.
    Last(u64),
}

impl ByteRange {
    /// `None` if the range contains no byte of the content.
    fn within(self, size: u64) -> Option<Range<u64>> {
        let range = match self {
            ByteRange::From { first, last } => {
                first..last.map_or(size, |last| last.saturating_add(1).min(size))
            }
            ByteRange::Last(count) => size.saturating_sub(count)..size,
        };
        (range.start < range.end).then_some(range)
    }
}

/// `None` for several ranges, other units and wrong syntax: a server may ignore these and send the whole content.
fn parse_range(text: &str) -> Option<ByteRange> {
    let (unit, range) = text.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        // A number beyond u64 is beyond every content, too.
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let range = match (first, last) {
        ("", last) => ByteRange::Last(number(last)?),
        (first, "") => ByteRange::From {
            first: number(first)?,
            last: None,
        },
        (first, last) => ByteRange::From {
            first: number(first)?,
            last: Some(number(last)?),
        },
    };
    let is_reversed = matches!(range, ByteRange::From { first, last: Some(last) } if last < first);
    (unit.trim().eq_ignore_ascii_case("bytes") && !is_reversed).then_some(range)
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    const CONTENT: RangedContent = RangedContent {
        size: 10,
        hash: BlobHash([7; 32]),
    };

    fn requested(content: &RangedContent, pairs: &[(&str, &str)]) -> Result<RequestedRange, u16> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name: header::HeaderName = name.parse().unwrap();
            headers.insert(name, value.parse().unwrap());
        }
        content
            .requested_range(&Method::GET, &headers)
            .map_err(|error| error.problem().status)
    }

    #[test]
    fn ranges_are_parsed() {
        let check = |range: &str, expected: Result<Option<Range<u64>>, u16>| {
            let expected = expected.map(|part| part.map_or(RequestedRange::Whole, RequestedRange::Part));
            assert_eq!(requested(&CONTENT, &[("range", range)]), expected, "{range}");
        };
        check("bytes=0-0", Ok(Some(0..1)));
        check("bytes=0-", Ok(Some(0..10)));
        check("bytes=3-5", Ok(Some(3..6)));
        check("Bytes = 3-5", Ok(Some(3..6)));
        check("bytes=3-99", Ok(Some(3..10)));
        check("bytes=9-99999999999999999999999", Ok(Some(9..10)));
        check("bytes=-3", Ok(Some(7..10)));
        check("bytes=-99", Ok(Some(0..10)));
        check("bytes=10-", Err(416));
        check("bytes=99999999999999999999999-", Err(416));
        check("bytes=-0", Err(416));
        // These are ignored.
        check("bytes=0-1,3-4", Ok(None));
        check("bytes=5-3", Ok(None));
        check("lines=1-2", Ok(None));
        check("bytes=a-b", Ok(None));
        check("bytes=-", Ok(None));
        check("bytes=+1-2", Ok(None));
        check("0-1", Ok(None));
        assert_eq!(requested(&CONTENT, &[]), Ok(RequestedRange::Whole));
        let empty = RangedContent { size: 0, ..CONTENT };
        assert_eq!(requested(&empty, &[("range", "bytes=0-")]), Err(416));
        assert_eq!(requested(&empty, &[("range", "bytes=-1")]), Err(416));
    }

    #[test]
    fn a_range_of_another_content_is_ignored() {
        let check = |condition: &str, expected: RequestedRange| {
            let pairs = [("range", "bytes=1-2"), ("if-range", condition)];
            assert_eq!(requested(&CONTENT, &pairs), Ok(expected), "{condition}");
        };
        check(&CONTENT.etag(), RequestedRange::Part(1..3));
        check(&format!("W/{}", CONTENT.etag()), RequestedRange::Whole);
        check("\"other\"", RequestedRange::Whole);
        check("Sat, 31 Jan 2026 12:00:00 GMT", RequestedRange::Whole);
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, HeaderValue::from_static("bytes=1-2"));
        let of_head = CONTENT.requested_range(&Method::HEAD, &headers).unwrap();
        assert_eq!(of_head, RequestedRange::Whole);
    }

    #[test]
    fn a_part_names_its_place() {
        let nothing = || futures::stream::empty().boxed();
        let part = CONTENT.respond(&RequestedRange::Part(3..6), nothing());
        assert_eq!(part.status(), 206);
        assert_eq!(part.headers()["content-range"], "bytes 3-5/10");
        assert_eq!(part.headers()["content-length"], "3");
        let whole = CONTENT.respond(&RequestedRange::Whole, nothing());
        assert_eq!(whole.status(), 200);
        assert_eq!(whole.headers()["content-length"], "10");
        assert!(!whole.headers().contains_key("content-range"));
        assert_eq!(whole.headers()["etag"], CONTENT.etag());
    }
}
