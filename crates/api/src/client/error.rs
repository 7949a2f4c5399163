//! Errors of the HTTP client.

use std::error::Error;
use std::io;
use std::time::Duration;

use reqwest::StatusCode;
use rustls::CertificateError;
use thiserror::Error;

use crate::Problem;

/// Why a request of the HTTP client to a gateway failed.
#[derive(Debug, Error)]
pub enum HttpClientError {
    /// The server refused the request.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    #[error("cannot reach {server}: {cause}; is the server running, and is the address right?")]
    Connect { server: String, cause: String },
    /// The request may have taken effect.
    #[error("connection to {server} lost: {cause}; try again")]
    ConnectionLost { server: String, cause: String },
    /// The request may have taken effect.
    #[error("{server} did not respond within {:.1} s", .idle_timeout.as_secs_f32())]
    Timeout { server: String, idle_timeout: Duration },
    /// The request may have taken effect.
    #[error("the response of {server} was incomplete after {:.1} s", .spent.as_secs_f32())]
    IncompleteResponse { server: String, spent: Duration },
    #[error("{last} (tried {attempts} times in {:.1} s)", .spent.as_secs_f32())]
    RetriesExhausted {
        last: Box<HttpClientError>,
        attempts: u32,
        spent: Duration,
        /// Whether an attempt before the last one may have taken effect.
        outcome_unknown: bool,
    },
    #[error("the certificate of {server} is not trusted: {problem}")]
    Certificate { server: String, problem: String },
    #[error("TLS connection to {server} failed: {problem}; does the server use https:// on this port?")]
    Tls { server: String, problem: String },
    #[error("{server} redirects to {target}")]
    Redirect { server: String, target: String },
    #[error("cannot use the file of trusted certificates: {0}")]
    CaCertificates(String),
    #[error("unexpected response from {server}: {problem}; is it a Conclave server?")]
    UnexpectedResponse { server: String, problem: String },
    #[error("'{server}' is not a server address: {problem}; write it like http://127.0.0.1:7000")]
    InvalidAddress { server: String, problem: String },
    #[error("the token contains characters that cannot be sent; use ASCII only")]
    InvalidToken,
    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),
}

impl HttpClientError {
    /// The server's description of the problem, if the server refused the request.
    pub fn problem(&self) -> Option<&Problem> {
        match self.last() {
            HttpClientError::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// The error of the last attempt.
    pub fn last(&self) -> &HttpClientError {
        match self {
            HttpClientError::RetriesExhausted { last, .. } => last.last(),
            error => error,
        }
    }

    /// Whether the same request may succeed later. Only a task with an id can be added again safely.
    pub fn is_transient(&self) -> bool {
        match self {
            HttpClientError::Problem(problem) => matches!(problem.status, 429 | 502 | 503 | 504),
            HttpClientError::Connect { .. } | HttpClientError::ConnectionLost { .. } => true,
            HttpClientError::Timeout { .. } | HttpClientError::IncompleteResponse { .. } => true,
            HttpClientError::RetriesExhausted { last, .. } => last.is_transient(),
            HttpClientError::Certificate { .. }
            | HttpClientError::Tls { .. }
            | HttpClientError::Redirect { .. }
            | HttpClientError::CaCertificates(_)
            | HttpClientError::UnexpectedResponse { .. }
            | HttpClientError::InvalidAddress { .. }
            | HttpClientError::InvalidToken
            | HttpClientError::Setup(_) => false,
        }
    }

    /// Whether the server refused the request because of its content, so that earlier attempts at it were refused as
    /// well. A refused token, a slow body or a rate limit says nothing about earlier attempts.
    pub(super) fn is_final_refusal(&self) -> bool {
        match self {
            HttpClientError::Problem(problem) => {
                (400..500).contains(&problem.status) && !matches!(problem.status, 401 | 403 | 408 | 429)
            }
            _ => false,
        }
    }

    /// Whether the request may have taken effect in spite of this error.
    pub fn may_have_taken_effect(&self) -> bool {
        match self {
            // A gateway that lost its judicator does not know whether the call took effect.
            HttpClientError::Problem(problem) => problem.status >= 500,
            HttpClientError::ConnectionLost { .. } | HttpClientError::UnexpectedResponse { .. } => true,
            HttpClientError::Timeout { .. } | HttpClientError::IncompleteResponse { .. } => true,
            HttpClientError::RetriesExhausted {
                last,
                outcome_unknown,
                ..
            } => *outcome_unknown || last.may_have_taken_effect(),
            HttpClientError::Connect { .. }
            | HttpClientError::Certificate { .. }
            | HttpClientError::Tls { .. }
            | HttpClientError::Redirect { .. }
            | HttpClientError::CaCertificates(_)
            | HttpClientError::InvalidAddress { .. }
            | HttpClientError::InvalidToken
            | HttpClientError::Setup(_) => false,
        }
    }

    pub(super) fn from_reqwest(server: String, error: reqwest::Error) -> HttpClientError {
        let cause = root_cause(&error);
        match tls_error(&error) {
            Some(rustls::Error::InvalidCertificate(problem)) => {
                return HttpClientError::Certificate {
                    server,
                    problem: certificate_problem(problem),
                };
            }
            Some(problem) => {
                return HttpClientError::Tls {
                    server,
                    problem: problem.to_string(),
                };
            }
            None => {}
        }
        if error.is_redirect() {
            HttpClientError::Redirect {
                server,
                target: cause,
            }
        } else if error.is_connect() {
            HttpClientError::Connect { server, cause }
        } else {
            HttpClientError::ConnectionLost { server, cause }
        }
    }

    pub(super) fn from_response(server: &str, status: StatusCode, body: &[u8]) -> HttpClientError {
        match serde_json::from_slice(body) {
            Ok(problem) => HttpClientError::Problem(Box::new(problem)),
            // The response to HEAD has no body, and a proxy sends its own.
            Err(_) => HttpClientError::Problem(Box::new(problem_from_status(server, status))),
        }
    }
}

fn problem_from_status(server: &str, status: StatusCode) -> Problem {
    Problem {
        kind: "about:blank".into(),
        title: status.canonical_reason().unwrap_or("Refused").into(),
        status: status.as_u16(),
        detail: format!("{server} responded with {status} without details"),
        field: None,
        limit: None,
        actual: None,
    }
}

/// The innermost source of the error: the message of reqwest itself is only "error sending request".
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        cause = error.to_string();
        next = error.source();
    }
    cause
}

/// Messages for the errors that rustls shows only by the name of their variant.
fn certificate_problem(problem: &CertificateError) -> String {
    match problem {
        CertificateError::UnknownIssuer => "it is not signed by a trusted certificate authority".into(),
        CertificateError::Expired => "it has expired".into(),
        CertificateError::NotValidYet => "it is not valid yet".into(),
        CertificateError::NotValidForName => "it is not valid for this host name".into(),
        other => other.to_string(),
    }
}

fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // `io::Error::source` skips the error that it wraps.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
