//! Why a request was not done.

use std::any::Any;

use api::ParseError;
use axum::body::Body;
use axum::http::{Method, Response};
use axum::response::IntoResponse;
use model::{Invalid, Status, TaskId};
use rpc::CallError;
use thiserror::Error;

use crate::pace::LeastRate;
use crate::pool::Exhausted;

#[derive(Debug, Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("{0}")]
    Malformed(String),
    #[error("the body could not be read to its end: {0}; send it again")]
    Broken(String),
    #[error("the body is too large: the limit is {limit} bytes{}", said(*actual))]
    TooLarge { limit: u64, actual: Option<u64> },
    #[error("the body is of type '{actual}'; send {expected}")]
    MediaType { expected: &'static str, actual: String },
    #[error("there is nothing at {0}; /api/docs lists what there is")]
    NoRoute(String),
    #[error("{method} is not possible on {path}; the Allow header lists what is")]
    NoMethod { method: Method, path: String },
    #[error("{field}: task {id} exists already with other content; {remedy} or send the same task")]
    Conflict {
        field: String,
        id: TaskId,
        remedy: &'static str,
    },
    #[error("the {step} step of task {id} has no outcome{}", yet(*status))]
    NoOutcome {
        id: TaskId,
        step: &'static str,
        status: Status,
    },
    #[error("task {id} cannot be cancelled: it is done, with status {status}")]
    Done { id: TaskId, status: Status },
    #[error("a token is needed; send it as `Authorization: Bearer TOKEN`")]
    NoToken,
    #[error(
        "this server does not know the token that was sent; its operator has a list of those that it knows"
    )]
    UnknownToken,
    #[error("requests from other web sites are refused; open this server's own page")]
    CrossSite,
    #[error(
        "'{0}' is a name that any web site could point at this server; call it by its IP address or as \
         localhost, or have its operator set tokens, with which any name will do"
    )]
    ForeignName(String),
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    #[error("task {id} was {done}, but its answer cannot be sent: {exhausted}; then get the task by its id")]
    DoneWithoutAnswer {
        id: TaskId,
        done: &'static str,
        exhausted: Exhausted,
    },
    #[error("the body comes too slowly: send at least {} bytes in {:?}", rate.bytes_in_a_window(), rate.window)]
    TooSlow { rate: LeastRate },
    #[error("the server failed; it has logged why")]
    Panicked,
}

fn said(actual: Option<u64>) -> String {
    actual.map_or_else(String::new, |actual| format!(", this one has {actual}"))
}

fn yet(status: Status) -> &'static str {
    if status.done() {
        ": the task has no such step, or it did not get that far"
    } else {
        " yet; ask again when the task is done, or add with ?wait="
    }
}

impl Refusal {
    /// For a request that has already done what it was to do, which a refusal must not deny.
    pub(crate) fn of_answer(self, id: TaskId, done: &'static str) -> Refusal {
        match self {
            Refusal::Exhausted(exhausted) => Refusal::DoneWithoutAnswer { id, done, exhausted },
            other => other,
        }
    }
}

impl From<ParseError> for Refusal {
    fn from(error: ParseError) -> Refusal {
        match error {
            ParseError::Invalid(invalid) => Refusal::Invalid(invalid),
            ParseError::Empty | ParseError::Malformed { .. } => Refusal::Malformed(error.to_string()),
        }
    }
}

/// The panic itself was printed by the hook when it happened.
pub(crate) fn panicked(_: Box<dyn Any + Send>) -> Response<Body> {
    Refusal::Panicked.into_response()
}
