//! A request that the client may send more than once.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde::Serialize;

/// A request of the HTTP client to a gateway that can be sent again, because its body is not a stream.
#[derive(Clone)]
pub(super) struct RepeatableRequest {
    pub(super) method: Method,
    pub(super) url: Url,
    /// In addition to those of every request.
    pub(super) headers: HeaderMap,
    /// A body in JSON.
    pub(super) body: Option<Bytes>,
    /// The `wait` parameter: the server may wait this long before it responds.
    pub(super) wait: Duration,
    pub(super) response: ResponseKind,
}

/// The kind of response that the HTTP client expects of a gateway; it decides the timeout for the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseKind {
    /// Small: the deadline of the request applies to the whole body.
    Json,
    /// May be large and the connection slow: the idle timeout applies.
    Bytes,
}

impl RepeatableRequest {
    pub(super) fn with_json(self, body: &impl Serialize) -> RepeatableRequest {
        // Serializing the types of this crate cannot fail.
        let body = serde_json::to_vec(body).unwrap_or_default();
        RepeatableRequest {
            body: Some(body.into()),
            ..self
        }
    }

    pub(super) fn with_url(self, url: Url) -> RepeatableRequest {
        RepeatableRequest { url, ..self }
    }

    /// Adds a query parameter, if it has a value.
    pub(super) fn with_parameter(mut self, name: &str, value: Option<&str>) -> RepeatableRequest {
        if let Some(value) = value {
            self.url.query_pairs_mut().append_pair(name, value);
        }
        self
    }

    pub(super) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> RepeatableRequest {
        self.headers.insert(name, value);
        self
    }

    pub(super) fn with_wait(self, wait: Option<Duration>) -> RepeatableRequest {
        RepeatableRequest {
            wait: wait.unwrap_or_default(),
            ..self
        }
    }
}
