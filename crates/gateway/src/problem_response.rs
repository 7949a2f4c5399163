//! Turns errors into HTTP responses with problem details (RFC 9457).

use api::Problem;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::InvalidField;
use rpc::CallError;

use crate::http_metrics;
use crate::quota_pool::{LimitedResource, QuotaLimit};
use crate::request_error::RequestError;
use crate::sign_in;

/// A kind of error response of the gateway (RFC 9457): its HTTP status, its name in the documentation, its title.
pub(crate) struct ProblemKind {
    pub(crate) status: StatusCode,
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
}

/// Every kind, in the order in which the documentation lists them.
pub(crate) const PROBLEM_KINDS: [&ProblemKind; 21] = [
    &MALFORMED,
    &NO_TOKEN,
    &CROSS_SITE,
    &NOT_OPERATOR,
    &NOT_OWNER,
    &NOT_FOUND,
    &NO_METHOD,
    &TOO_SLOW,
    &CONFLICT,
    &DONE,
    &NOT_DONE,
    &TOO_LARGE,
    &MEDIA_TYPE,
    &RANGE,
    &INVALID,
    &TOO_MANY,
    &INTERNAL,
    &BUSY,
    &UNAVAILABLE,
    &FULL,
    &NEWER_FORM,
];

const MALFORMED: ProblemKind = kind(StatusCode::BAD_REQUEST, "malformed", "Malformed request");
const NO_TOKEN: ProblemKind = kind(StatusCode::UNAUTHORIZED, "token", "Token required");
const CROSS_SITE: ProblemKind = kind(StatusCode::FORBIDDEN, "cross-site", "Cross-site request");
pub(crate) const NOT_OPERATOR: ProblemKind =
    kind(StatusCode::FORBIDDEN, "not-operator", "For operators only");
const NOT_OWNER: ProblemKind = kind(StatusCode::FORBIDDEN, "not-owner", "For the owner only");
const NOT_FOUND: ProblemKind = kind(StatusCode::NOT_FOUND, "not-found", "Not found");
const NO_METHOD: ProblemKind = kind(StatusCode::METHOD_NOT_ALLOWED, "method", "Method not allowed");
const TOO_SLOW: ProblemKind = kind(StatusCode::REQUEST_TIMEOUT, "too-slow", "Request body too slow");
const CONFLICT: ProblemKind = kind(StatusCode::CONFLICT, "conflict", "Conflict with an existing task");
const DONE: ProblemKind = kind(StatusCode::CONFLICT, "done", "Task already done");
const NOT_DONE: ProblemKind = kind(StatusCode::CONFLICT, "not-done", "Task not done");
const TOO_LARGE: ProblemKind = kind(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "Too large");
const MEDIA_TYPE: ProblemKind = kind(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "media-type",
    "Unsupported media type",
);
const RANGE: ProblemKind = kind(
    StatusCode::RANGE_NOT_SATISFIABLE,
    "range",
    "Range not satisfiable",
);
const INVALID: ProblemKind = kind(
    StatusCode::UNPROCESSABLE_ENTITY,
    "invalid",
    "Invalid task or parameter",
);
const TOO_MANY: ProblemKind = kind(
    StatusCode::TOO_MANY_REQUESTS,
    "too-many",
    "Too many requests of this caller",
);
const INTERNAL: ProblemKind = kind(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error");
const BUSY: ProblemKind = kind(StatusCode::SERVICE_UNAVAILABLE, "busy", "Busy");
const UNAVAILABLE: ProblemKind = kind(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Unavailable");
const FULL: ProblemKind = kind(StatusCode::SERVICE_UNAVAILABLE, "full", "The store is full");

const NEWER_FORM: ProblemKind = kind(
    StatusCode::SERVICE_UNAVAILABLE,
    "newer-form",
    "Task of a newer version of Conclave",
);

const fn kind(status: StatusCode, name: &'static str, title: &'static str) -> ProblemKind {
    ProblemKind { status, name, title }
}

/// In seconds: long enough for a failover of the judicator, short enough for a person.
const RETRY_AFTER: u64 = 2;

impl RequestError {
    fn kind(&self) -> &'static ProblemKind {
        match self {
            RequestError::Call(error) => match error {
                CallError::Invalid(_) | CallError::WrongHash { .. } => &INVALID,
                CallError::NoTask(_)
                | CallError::NoGroup(_)
                | CallError::NoExecutor(_)
                | CallError::NoBlob(_)
                | CallError::DamagedBlob(_) => &NOT_FOUND,
                CallError::Conflict(_) => &CONFLICT,
                CallError::NotOwner(_) => &NOT_OWNER,
                CallError::NotDone(_) => &NOT_DONE,
                CallError::NewerForm(_) => &NEWER_FORM,
                CallError::TooLarge { .. } => &TOO_LARGE,
                CallError::Busy(_) => &BUSY,
                CallError::Unavailable(_) => &UNAVAILABLE,
                CallError::Full(_) => &FULL,
                CallError::Internal(_) | CallError::Unreadable(_) => &INTERNAL,
            },
            RequestError::Invalid(_) => &INVALID,
            RequestError::Malformed(_) | RequestError::BodyInterrupted(_) => &MALFORMED,
            RequestError::BodyTooLarge { .. } => &TOO_LARGE,
            RequestError::UnsupportedMediaType { .. } => &MEDIA_TYPE,
            RequestError::RouteNotFound(_)
            | RequestError::NoOutcome { .. }
            | RequestError::NoFile { .. }
            | RequestError::NoProblem(_) => &NOT_FOUND,
            RequestError::RangeNotSatisfiable { .. } => &RANGE,
            RequestError::MethodNotAllowed { .. } => &NO_METHOD,
            RequestError::Conflict { .. } => &CONFLICT,
            RequestError::AlreadyDone { .. } => &DONE,
            RequestError::MissingToken | RequestError::UnknownToken => &NO_TOKEN,
            RequestError::NotOperator(_) => &NOT_OPERATOR,
            RequestError::CrossSite | RequestError::UntrustedHost(_) => &CROSS_SITE,
            RequestError::QuotaExceeded(exceeded) => match exceeded.limit_kind {
                QuotaLimit::CallerShare => &TOO_MANY,
                QuotaLimit::Total => &BUSY,
            },
            // Not 429, which means that the request had no effect.
            RequestError::ResponseUnavailable { .. } => &BUSY,
            RequestError::BodyTooSlow { .. } => &TOO_SLOW,
            RequestError::Panicked => &INTERNAL,
        }
    }

    pub(crate) fn problem(&self) -> Problem {
        let ProblemKind { status, name, title } = self.kind();
        let ProblemDetails { field, limit, actual } = self.details();
        Problem {
            kind: format!("/api/docs#{name}"),
            title: (*title).to_string(),
            status: status.as_u16(),
            detail: self.to_string(),
            field,
            limit,
            actual,
        }
    }

    fn details(&self) -> ProblemDetails {
        match self {
            RequestError::Invalid(invalid) | RequestError::Call(CallError::Invalid(invalid)) => {
                let InvalidField {
                    field,
                    problem: _,
                    limit,
                    actual,
                } = invalid.clone();
                ProblemDetails {
                    field: Some(field),
                    limit,
                    actual,
                }
            }
            RequestError::Call(CallError::WrongHash { named: _, actual }) => ProblemDetails {
                field: Some("sha256".into()),
                limit: None,
                actual: Some(actual.to_string()),
            },
            RequestError::Call(CallError::TooLarge { limit, actual }) => limit_details(limit, Some(actual)),
            RequestError::BodyTooLarge { limit, actual } => limit_details(limit, actual.as_ref()),
            RequestError::QuotaExceeded(exceeded) | RequestError::ResponseUnavailable { exceeded, .. } => {
                limit_details(&exceeded.limit, None)
            }
            RequestError::BodyTooSlow { rate } => limit_details(&rate.bytes_per_window(), None),
            RequestError::UnsupportedMediaType { expected, actual } => ProblemDetails {
                field: Some("Content-Type".into()),
                limit: Some((*expected).to_string()),
                actual: Some(actual.clone()),
            },
            RequestError::Conflict { field, .. } => ProblemDetails {
                field: Some(field.clone()),
                ..ProblemDetails::default()
            },
            RequestError::UntrustedHost(name) => ProblemDetails {
                field: Some("Host".into()),
                limit: None,
                actual: Some(name.clone()),
            },
            _ => ProblemDetails::default(),
        }
    }
}

/// The optional members of the gateway's error responses: the wrong field, the limit, and the actual value.
#[derive(Default)]
struct ProblemDetails {
    field: Option<String>,
    limit: Option<String>,
    actual: Option<String>,
}

fn limit_details<T: ToString>(limit: &T, actual: Option<&T>) -> ProblemDetails {
    ProblemDetails {
        field: None,
        limit: Some(limit.to_string()),
        actual: actual.map(ToString::to_string),
    }
}

impl IntoResponse for RequestError {
    fn into_response(self) -> Response {
        let status = self.kind().status;
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(error = %self, "request failed");
        }
        if let RequestError::QuotaExceeded(exceeded) | RequestError::ResponseUnavailable { exceeded, .. } =
            self
        {
            http_metrics::count_quota_exceeded(exceeded);
        }
        let content_range = match self {
            RequestError::RangeNotSatisfiable { size } => {
                HeaderValue::try_from(format!("bytes */{size}")).ok()
            }
            _ => None,
        };
        let retry_after = match &self {
            RequestError::QuotaExceeded(exceeded) if exceeded.resource == LimitedResource::SignIns => {
                sign_in::GUESS_PAUSE.as_secs()
            }
            _ => RETRY_AFTER,
        };
        let problem = self.problem();
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(Problem::MEDIA_TYPE),
        );
        if let Some(content_range) = content_range {
            headers.insert(header::CONTENT_RANGE, content_range);
        }
        match status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(retry_after));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        // `pages::problem` renders it as HTML.
        response.extensions_mut().insert(problem);
        response
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::{BlobHash, TaskId, TaskStatus};

    use super::*;
    use crate::min_rate::MinTransferRate;
    use crate::quota_pool::QuotaExceeded;

    #[test]
    fn errors_have_their_status_and_details() {
        let check = |error: RequestError, status: u16, field: Option<&str>, detail: &str| {
            let problem = error.problem();
            assert_eq!(problem.status, status, "{problem:?}");
            assert_eq!(problem.field.as_deref(), field, "{problem:?}");
            assert!(problem.detail.contains(detail), "{problem:?}");
            let response = error.into_response();
            assert_eq!(response.status().as_u16(), status);
            let has_retry_after = response.headers().contains_key(header::RETRY_AFTER);
            assert_eq!(has_retry_after, matches!(status, 429 | 503));
        };
        let id = TaskId(uuid::Uuid::now_v7());
        let hash = BlobHash([1; 32]);
        check(CallError::NoTask(id).into(), 404, None, "does not exist");
        let group = model::GroupKey {
            user: model::UserName::new("ada").unwrap(),
            group: model::GroupName::new("sweep").unwrap(),
        };
        check(
            CallError::NoGroup(group).into(),
            404,
            None,
            "user ada has no task in the group sweep",
        );
        let executor = model::ExecutorName::new("worker-1").unwrap();
        check(
            CallError::NoExecutor(executor).into(),
            404,
            None,
            "executor worker-1 does not exist",
        );
        let ada = model::UserName::new("ada").unwrap();
        check(RequestError::NotOperator(ada), 403, None, "gateway.operators");
        let problem = model::ProblemName::new("hello").unwrap();
        let owned = model::ProblemRef {
            name: problem.clone(),
            owner: model::UserName::new("bob").unwrap(),
        };
        check(CallError::NotOwner(owned).into(), 403, None, "belongs to bob");
        check(
            RequestError::NoProblem(problem),
            404,
            None,
            "hello does not exist",
        );
        check(CallError::NotDone(id).into(), 409, None, "wait until it is done");
        let newer = CallError::NewerForm(model::TaskForm(9));
        check(newer.into(), 503, None, "upgrade Conclave");
        check(
            RequestError::RangeNotSatisfiable { size: 7 },
            416,
            None,
            "7 bytes",
        );
        let status = TaskStatus::Running;
        let path = "a.csv".to_string();
        check(
            RequestError::NoFile { id, path, status },
            404,
            None,
            "when the task is done",
        );
        check(CallError::NoBlob(hash).into(), 404, None, "put it first");
        check(CallError::DamagedBlob(hash).into(), 404, None, "put it again");
        check(CallError::Conflict(id).into(), 409, None, "other content");
        check(CallError::Busy("x".into()).into(), 503, None, "try again");
        check(
            CallError::Unavailable("x".into()).into(),
            503,
            None,
            "unavailable",
        );
        check(CallError::Full("x".into()).into(), 503, None, "full");
        check(CallError::Internal("x".into()).into(), 500, None, "internal");
        check(
            CallError::TooLarge { limit: 1, actual: 2 }.into(),
            413,
            None,
            "limit is 1",
        );
        check(
            CallError::WrongHash {
                named: hash,
                actual: BlobHash([2; 32]),
            }
            .into(),
            422,
            Some("sha256"),
            "SHA-256",
        );
        check(
            InvalidField::over_limit("execute.args", "is long", 1, 2).into(),
            422,
            Some("execute.args"),
            "limit 1, actual 2",
        );
        check(RequestError::Malformed("line 1".into()), 400, None, "line 1");
        let status = TaskStatus::Success;
        check(RequestError::AlreadyDone { id, status }, 409, None, "success");
        check(
            RequestError::UntrustedHost("evil.example".into()),
            403,
            Some("Host"),
            "IP address",
        );
        check(RequestError::MissingToken, 401, None, "Authorization");
        check(RequestError::UnknownToken, 401, None, "not valid");
        let exceeded = |resource, limit_kind| {
            RequestError::QuotaExceeded(QuotaExceeded {
                resource,
                limit_kind,
                limit: 7,
            })
        };
        for resource in LimitedResource::ALL {
            check(
                exceeded(resource, QuotaLimit::CallerShare),
                429,
                None,
                "limit 7 for one caller",
            );
            check(exceeded(resource, QuotaLimit::Total), 503, None, "limit 7)");
        }
        let exceeded = QuotaExceeded {
            resource: LimitedResource::Bytes,
            limit_kind: QuotaLimit::CallerShare,
            limit: 7,
        };
        check(
            RequestError::QuotaExceeded(exceeded).after_effect(id, "added"),
            503,
            None,
            "was added",
        );
        let rate = MinTransferRate {
            bytes_per_second: 10,
            window: Duration::from_secs(3),
        };
        check(RequestError::BodyTooSlow { rate }, 408, None, "30 bytes in 3s");
    }
}
