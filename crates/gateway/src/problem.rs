//! The one place that turns refusals into HTTP.

use api::Problem;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::Invalid;
use rpc::CallError;

use crate::measure;
use crate::pool::Bound;
use crate::refusal::Refusal;

/// A kind of problem: its status, its name in the documentation, and its title.
pub(crate) struct Kind {
    pub(crate) status: StatusCode,
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
}

/// Every kind, in the order in which the documentation lists them.
pub(crate) const KINDS: [&Kind; 16] = [
    &MALFORMED,
    &NO_TOKEN,
    &CROSS_SITE,
    &NOT_FOUND,
    &NO_METHOD,
    &TOO_SLOW,
    &CONFLICT,
    &DONE,
    &TOO_LARGE,
    &MEDIA_TYPE,
    &INVALID,
    &TOO_MANY,
    &INTERNAL,
    &BUSY,
    &UNAVAILABLE,
    &FULL,
];

const MALFORMED: Kind = kind(StatusCode::BAD_REQUEST, "malformed", "Malformed request");
const NO_TOKEN: Kind = kind(StatusCode::UNAUTHORIZED, "token", "Token needed");
const CROSS_SITE: Kind = kind(StatusCode::FORBIDDEN, "cross-site", "Request from another site");
const NOT_FOUND: Kind = kind(StatusCode::NOT_FOUND, "not-found", "Not found");
const NO_METHOD: Kind = kind(StatusCode::METHOD_NOT_ALLOWED, "method", "Method not allowed");
const TOO_SLOW: Kind = kind(
    StatusCode::REQUEST_TIMEOUT,
    "too-slow",
    "The body comes too slowly",
);
const CONFLICT: Kind = kind(StatusCode::CONFLICT, "conflict", "Another task has this id");
const DONE: Kind = kind(StatusCode::CONFLICT, "done", "The task is done already");
const TOO_LARGE: Kind = kind(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "Too large");
const MEDIA_TYPE: Kind = kind(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "media-type",
    "Unsupported media type",
);
const INVALID: Kind = kind(
    StatusCode::UNPROCESSABLE_ENTITY,
    "invalid",
    "Invalid task or parameter",
);
const TOO_MANY: Kind = kind(
    StatusCode::TOO_MANY_REQUESTS,
    "too-many",
    "This caller has too much under way",
);
const INTERNAL: Kind = kind(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error");
const BUSY: Kind = kind(StatusCode::SERVICE_UNAVAILABLE, "busy", "Busy");
const UNAVAILABLE: Kind = kind(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Unavailable");
const FULL: Kind = kind(StatusCode::SERVICE_UNAVAILABLE, "full", "The store is full");

const fn kind(status: StatusCode, name: &'static str, title: &'static str) -> Kind {
    Kind { status, name, title }
}

/// Seconds that a client is asked to stay away: long enough for a judicator to fail over, short for a person.
const RETRY_AFTER: &str = "2";

impl Refusal {
    fn kind(&self) -> &'static Kind {
        match self {
            Refusal::Call(error) => match error {
                CallError::Invalid(_) | CallError::WrongHash { .. } => &INVALID,
                CallError::NoTask(_) | CallError::NoBlob(_) | CallError::DamagedBlob(_) => &NOT_FOUND,
                CallError::Conflict(_) => &CONFLICT,
                CallError::TooLarge { .. } => &TOO_LARGE,
                CallError::Busy(_) => &BUSY,
                CallError::Unavailable(_) => &UNAVAILABLE,
                CallError::Full(_) => &FULL,
                CallError::Internal(_) | CallError::Unreadable(_) => &INTERNAL,
            },
            Refusal::Invalid(_) => &INVALID,
            Refusal::Malformed(_) | Refusal::Broken(_) => &MALFORMED,
            Refusal::TooLarge { .. } => &TOO_LARGE,
            Refusal::MediaType { .. } => &MEDIA_TYPE,
            Refusal::NoRoute(_) | Refusal::NoOutcome { .. } => &NOT_FOUND,
            Refusal::NoMethod { .. } => &NO_METHOD,
            Refusal::Conflict { .. } => &CONFLICT,
            Refusal::Done { .. } => &DONE,
            Refusal::NoToken | Refusal::UnknownToken => &NO_TOKEN,
            Refusal::CrossSite | Refusal::ForeignName(_) => &CROSS_SITE,
            Refusal::Exhausted(exhausted) => match exhausted.bound {
                Bound::Share => &TOO_MANY,
                Bound::Total => &BUSY,
            },
            // Never 429, which says that nothing was done.
            Refusal::DoneWithoutAnswer { .. } => &BUSY,
            Refusal::TooSlow { .. } => &TOO_SLOW,
            Refusal::Panicked => &INTERNAL,
        }
    }

    pub(crate) fn problem(&self) -> Problem {
        let Kind { status, name, title } = self.kind();
        let Blame { field, limit, actual } = self.blame();
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

    fn blame(&self) -> Blame {
        match self {
            Refusal::Invalid(invalid) | Refusal::Call(CallError::Invalid(invalid)) => {
                let Invalid {
                    field,
                    problem: _,
                    limit,
                    actual,
                } = invalid.clone();
                Blame {
                    field: Some(field),
                    limit,
                    actual,
                }
            }
            Refusal::Call(CallError::WrongHash { named: _, actual }) => Blame {
                field: Some("sha256".into()),
                limit: None,
                actual: Some(actual.to_string()),
            },
            Refusal::Call(CallError::TooLarge { limit, actual }) => bounds(limit, Some(actual)),
            Refusal::TooLarge { limit, actual } => bounds(limit, actual.as_ref()),
            Refusal::Exhausted(exhausted) | Refusal::DoneWithoutAnswer { exhausted, .. } => {
                bounds(&exhausted.limit, None)
            }
            Refusal::TooSlow { rate } => bounds(&rate.bytes_in_a_window(), None),
            Refusal::MediaType { expected, actual } => Blame {
                field: Some("Content-Type".into()),
                limit: Some((*expected).to_string()),
                actual: Some(actual.clone()),
            },
            Refusal::Conflict { field, .. } => Blame {
                field: Some(field.clone()),
                ..Blame::default()
            },
            Refusal::ForeignName(name) => Blame {
                field: Some("Host".into()),
                limit: None,
                actual: Some(name.clone()),
            },
            _ => Blame::default(),
        }
    }
}

/// The members of a problem that not every problem has.
#[derive(Default)]
struct Blame {
    field: Option<String>,
    limit: Option<String>,
    actual: Option<String>,
}

fn bounds<T: ToString>(limit: &T, actual: Option<&T>) -> Blame {
    Blame {
        field: None,
        limit: Some(limit.to_string()),
        actual: actual.map(ToString::to_string),
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.kind().status;
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(error = %self, "a request failed");
        }
        if let Refusal::Exhausted(exhausted) | Refusal::DoneWithoutAnswer { exhausted, .. } = self {
            measure::exhausted(exhausted);
        }
        let problem = self.problem();
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(Problem::MEDIA_TYPE),
        );
        match status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        // The pages show the same problem to a person.
        response.extensions_mut().insert(problem);
        response
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::{BlobHash, Status, TaskId};

    use super::*;
    use crate::pace::LeastRate;
    use crate::pool::{Exhausted, Resource};

    #[test]
    fn refusals_have_their_status() {
        let check = |refusal: Refusal, status: u16, field: Option<&str>, detail: &str| {
            let problem = refusal.problem();
            assert_eq!(problem.status, status, "{problem:?}");
            assert_eq!(problem.field.as_deref(), field, "{problem:?}");
            assert!(problem.detail.contains(detail), "{problem:?}");
            let response = refusal.into_response();
            assert_eq!(response.status().as_u16(), status);
            let again = response.headers().contains_key(header::RETRY_AFTER);
            assert_eq!(again, matches!(status, 429 | 503));
        };
        let id = TaskId::generate();
        let hash = BlobHash([1; 32]);
        check(CallError::NoTask(id).into(), 404, None, "does not exist");
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
            Invalid::beyond("execute.args", "is long", 1, 2).into(),
            422,
            Some("execute.args"),
            "limit 1, actual 2",
        );
        check(Refusal::Malformed("line 1".into()), 400, None, "line 1");
        let status = Status::Success;
        check(Refusal::Done { id, status }, 409, None, "success");
        check(
            Refusal::ForeignName("evil.example".into()),
            403,
            Some("Host"),
            "IP address",
        );
        check(Refusal::NoToken, 401, None, "Authorization");
        check(Refusal::UnknownToken, 401, None, "does not know");
        let exhausted = |resource, bound| {
            Refusal::Exhausted(Exhausted {
                resource,
                bound,
                limit: 7,
            })
        };
        for resource in Resource::ALL {
            check(
                exhausted(resource, Bound::Share),
                429,
                None,
                "limit 7 for one caller",
            );
            check(exhausted(resource, Bound::Total), 503, None, "limit 7)");
        }
        let exhausted = Exhausted {
            resource: Resource::Bytes,
            bound: Bound::Share,
            limit: 7,
        };
        check(
            Refusal::Exhausted(exhausted).of_answer(id, "added"),
            503,
            None,
            "was added",
        );
        let rate = LeastRate {
            bytes_per_second: 10,
            window: Duration::from_secs(3),
        };
        check(Refusal::TooSlow { rate }, 408, None, "30 bytes in 3s");
    }
}
