//! Why a call by HTTP was not done.

use std::error::Error;
use std::io;
use std::time::Duration;

use reqwest::StatusCode;
use rustls::CertificateError;
use thiserror::Error;

use crate::Problem;

#[derive(Debug, Error)]
pub enum ClientError {
    /// The server has refused the call and says why.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    #[error("cannot reach {server}: {cause}; is the server running, and is the address right?")]
    Connect { server: String, cause: String },
    /// It is not known whether the call was done.
    #[error("the connection to {server} broke: {cause}; try again")]
    Broken { server: String, cause: String },
    /// It is not known whether the call was done.
    #[error("{server} did not answer within {:.1} s", .silence.as_secs_f32())]
    Silent { server: String, silence: Duration },
    /// It is not known whether the call was done.
    #[error("{server} began to answer, and had not finished after {:.1} s", .spent.as_secs_f32())]
    Unfinished { server: String, spent: Duration },
    #[error("{last} (tried {attempts} times in {:.1} s)", .spent.as_secs_f32())]
    Repeated {
        last: Box<ClientError>,
        attempts: u32,
        spent: Duration,
        /// Whether one of the attempts may have been done, although the last one was not.
        in_doubt: bool,
    },
    #[error("the certificate of {server} was refused: {problem}")]
    Certificate { server: String, problem: String },
    #[error("the TLS connection to {server} failed: {problem}; does the server speak https:// at this port?")]
    Tls { server: String, problem: String },
    #[error("{server} redirects to {target}")]
    Redirect { server: String, target: String },
    #[error("the file of trusted certificates cannot be used: {0}")]
    Authorities(String),
    #[error("{server} gave an answer that is not Conclave's: {problem}")]
    Answer { server: String, problem: String },
    #[error("'{server}' is not a server's address: {problem}; write it like http://127.0.0.1:7000")]
    Server { server: String, problem: String },
    #[error("the token holds characters that cannot be sent; tokens are plain ASCII")]
    Token,
    #[error("the HTTP client cannot be set up")]
    Setup(#[source] reqwest::Error),
}

impl ClientError {
    /// What the server said, if it was the server that refused.
    pub fn problem(&self) -> Option<&Problem> {
        match self.last() {
            ClientError::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// The failure of the last attempt.
    pub fn last(&self) -> &ClientError {
        match self {
            ClientError::Repeated { last, .. } => last.last(),
            error => error,
        }
    }

    /// Whether the same call, made again, may go better. An add must have an id to be repeated.
    pub fn is_transient(&self) -> bool {
        match self {
            ClientError::Problem(problem) => matches!(problem.status, 429 | 502 | 503 | 504),
            ClientError::Connect { .. } | ClientError::Broken { .. } => true,
            ClientError::Silent { .. } | ClientError::Unfinished { .. } => true,
            ClientError::Repeated { last, .. } => last.is_transient(),
            ClientError::Certificate { .. }
            | ClientError::Tls { .. }
            | ClientError::Redirect { .. }
            | ClientError::Authorities(_)
            | ClientError::Answer { .. }
            | ClientError::Server { .. }
            | ClientError::Token
            | ClientError::Setup(_) => false,
        }
    }

    /// Whether the server has refused the call for what it asks. An earlier attempt at the same call was then refused as
    /// well. A refused token, a slow body or a reached limit say nothing about earlier attempts.
    pub(super) fn is_verdict(&self) -> bool {
        match self {
            ClientError::Problem(problem) => {
                (400..500).contains(&problem.status) && !matches!(problem.status, 401 | 403 | 408 | 429)
            }
            _ => false,
        }
    }

    /// Whether the server may have done what was asked, in spite of this error.
    pub fn may_have_been_done(&self) -> bool {
        match self {
            // A gateway that lost its judicator does not know either.
            ClientError::Problem(problem) => problem.status >= 500,
            ClientError::Broken { .. } | ClientError::Answer { .. } => true,
            ClientError::Silent { .. } | ClientError::Unfinished { .. } => true,
            ClientError::Repeated { last, in_doubt, .. } => *in_doubt || last.may_have_been_done(),
            ClientError::Connect { .. }
            | ClientError::Certificate { .. }
            | ClientError::Tls { .. }
            | ClientError::Redirect { .. }
            | ClientError::Authorities(_)
            | ClientError::Server { .. }
            | ClientError::Token
            | ClientError::Setup(_) => false,
        }
    }

    pub(super) fn broken(server: String, error: reqwest::Error) -> ClientError {
        let cause = innermost(&error);
        match tls_error(&error) {
            Some(rustls::Error::InvalidCertificate(problem)) => {
                return ClientError::Certificate {
                    server,
                    problem: certificate_problem(problem),
                };
            }
            Some(problem) => {
                return ClientError::Tls {
                    server,
                    problem: problem.to_string(),
                };
            }
            None => {}
        }
        if error.is_redirect() {
            ClientError::Redirect {
                server,
                target: cause,
            }
        } else if error.is_connect() {
            ClientError::Connect { server, cause }
        } else {
            ClientError::Broken { server, cause }
        }
    }

    pub(super) fn refused(server: &str, status: StatusCode, body: &[u8]) -> ClientError {
        match serde_json::from_slice(body) {
            Ok(problem) => ClientError::Problem(Box::new(problem)),
            // An answer to HEAD has no body, and one from a proxy is not ours.
            Err(_) => ClientError::Problem(Box::new(bare(server, status))),
        }
    }
}

fn bare(server: &str, status: StatusCode) -> Problem {
    Problem {
        kind: "about:blank".into(),
        title: status.canonical_reason().unwrap_or("Refused").into(),
        status: status.as_u16(),
        detail: format!("{server} answered {status} and says no more"),
        field: None,
        limit: None,
        actual: None,
    }
}

/// reqwest tells the cause last: "error sending request" says nothing to a person.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        cause = error.to_string();
        next = error.source();
    }
    cause
}

/// rustls has words for some problems and only a name for others.
fn certificate_problem(problem: &CertificateError) -> String {
    match problem {
        CertificateError::UnknownIssuer => "no authority that is trusted here has signed it".into(),
        CertificateError::Expired => "it has expired".into(),
        CertificateError::NotValidYet => "it is not valid yet".into(),
        CertificateError::NotValidForName => "it is not made for this host name".into(),
        other => other.to_string(),
    }
}

fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // An `io::Error` does not count what it wraps as its source.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
