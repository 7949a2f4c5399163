//! Errors of requests. `problem_response` turns them into HTTP responses.

use std::any::Any;

use api::ParseError;
use axum::body::Body;
use axum::http::{Method, Response};
use axum::response::IntoResponse;
use model::{InvalidField, ProblemName, TaskId, TaskStatus, UserName};
use rpc::CallError;
use thiserror::Error;

use crate::min_rate::MinTransferRate;
use crate::quota_pool::QuotaExceeded;

/// Why the gateway could not do what an HTTP request asks for; it becomes the error response.
#[derive(Debug, Error)]
pub(crate) enum RequestError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Invalid(#[from] InvalidField),
    #[error("{0}")]
    Malformed(String),
    #[error("the request body is incomplete: {0}; send it again")]
    BodyInterrupted(String),
    #[error("the request body is too large: the limit is {limit} bytes{}", and_actual_size(*actual))]
    BodyTooLarge { limit: u64, actual: Option<u64> },
    #[error("the Content-Type '{actual}' is not supported; send {expected}")]
    UnsupportedMediaType { expected: &'static str, actual: String },
    #[error("{0} does not exist; /api/docs lists all routes")]
    RouteNotFound(String),
    #[error("{method} is not allowed for {path}; the Allow header lists the allowed methods")]
    MethodNotAllowed { method: Method, path: String },
    #[error("{field}: task {id} already exists with different content; {remedy} or send the same task")]
    Conflict {
        field: String,
        id: TaskId,
        remedy: &'static str,
    },
    #[error("the {step} step of task {id} has no outcome{}", why_no_outcome(*status))]
    NoOutcome {
        id: TaskId,
        step: &'static str,
        status: TaskStatus,
    },
    #[error("task {id} has no kept file '{path}'{}", why_no_file(*status))]
    NoFile {
        id: TaskId,
        path: String,
        status: TaskStatus,
    },
    #[error("problem {0} does not exist; `conclave problem list` lists those that do")]
    NoProblem(ProblemName),
    #[error("the range is outside of the content, which has {size} bytes")]
    RangeNotSatisfiable { size: u64 },
    #[error("task {id} cannot be cancelled: it is already done with status {status}")]
    AlreadyDone { id: TaskId, status: TaskStatus },
    #[error("a token is required; send it as `Authorization: Bearer TOKEN`")]
    MissingToken,
    #[error("the token is not valid on this server; ask its operator for a token")]
    UnknownToken,
    #[error("user '{0}' may not drain or resume executors; only the users named in gateway.operators may")]
    NotOperator(UserName),
    #[error("cross-site requests are refused; use the pages of this server")]
    CrossSite,
    #[error(
        "the host name '{0}' is not trusted, as any web site could point it at this server (DNS rebinding); use the \
         server's IP address or localhost, or ask its operator to set up tokens, which allow any host name"
    )]
    UntrustedHost(String),
    #[error(transparent)]
    QuotaExceeded(#[from] QuotaExceeded),
    /// The request has taken effect, but the response cannot be sent.
    #[error("task {id} was {done}, but the response cannot be sent: {exceeded}; then get the task by its id")]
    ResponseUnavailable {
        id: TaskId,
        done: &'static str,
        exceeded: QuotaExceeded,
    },
    #[error("the request body arrives too slowly: send at least {} bytes in {:?}", rate.bytes_per_window(), rate.window)]
    BodyTooSlow { rate: MinTransferRate },
    #[error("internal error; the server's log has the details")]
    Panicked,
}

fn and_actual_size(actual: Option<u64>) -> String {
    actual.map_or_else(String::new, |actual| format!(", the actual size is {actual}"))
}

fn why_no_outcome(status: TaskStatus) -> &'static str {
    if status.is_done() {
        ": the task has no such step, or it ended before it"
    } else {
        " yet; get it when the task is done, or add tasks with ?wait="
    }
}

fn why_no_file(status: TaskStatus) -> &'static str {
    if status.is_done() {
        "; `result.files` of the task lists them"
    } else {
        " yet; files are kept when the task is done"
    }
}

impl RequestError {
    /// The same error, with the field below `parent`.
    pub(crate) fn within(self, parent: &str) -> RequestError {
        match self {
            RequestError::Invalid(invalid) => invalid.within(parent).into(),
            other => other,
        }
    }

    /// The error of a request that has already taken effect, which the error must say.
    pub(crate) fn after_effect(self, id: TaskId, done: &'static str) -> RequestError {
        match self {
            RequestError::QuotaExceeded(exceeded) => RequestError::ResponseUnavailable { id, done, exceeded },
            other => other,
        }
    }
}

impl From<ParseError> for RequestError {
    fn from(error: ParseError) -> RequestError {
        match error {
            ParseError::Invalid(invalid) => RequestError::Invalid(invalid),
            ParseError::Empty | ParseError::Malformed { .. } => RequestError::Malformed(error.to_string()),
        }
    }
}

/// The response after a panic, which the panic hook has already logged.
pub(crate) fn panicked(_: Box<dyn Any + Send>) -> Response<Body> {
    RequestError::Panicked.into_response()
}
