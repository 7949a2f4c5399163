//! One call as it is sent, as often as it has to be.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, Url};
use serde::Serialize;

/// A call that can be made more than once.
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) url: Url,
    /// JSON.
    pub(super) body: Option<Bytes>,
    /// How long the server was asked to wait before it answers.
    pub(super) wait: Duration,
    pub(super) answer: Answer,
}

/// What bounds the time that an answer's body may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The call's deadline: it is small, and a server that trickles it is not working.
    Json,
    /// Its progress: it may be large, and the connection slow.
    Bytes,
}

impl Call {
    pub(super) fn sending(self, body: &impl Serialize) -> Call {
        // The types of this crate are text, numbers and lists: there is nothing in them that could not be written.
        let body = serde_json::to_vec(body).unwrap_or_default();
        Call {
            body: Some(body.into()),
            ..self
        }
    }

    pub(super) fn waiting(self, wait: Option<Duration>) -> Call {
        Call {
            wait: wait.unwrap_or_default(),
            ..self
        }
    }
}
