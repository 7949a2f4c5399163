//! Why a call by HTTP was not done.

use std::error::Error as _;

use reqwest::{Response, StatusCode};
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
        match self {
            ClientError::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// Whether the same call, made again, may go better. An add must have an id to be repeated.
    pub fn is_transient(&self) -> bool {
        match self {
            ClientError::Problem(problem) => matches!(problem.status, 429 | 503),
            ClientError::Connect { .. } | ClientError::Broken { .. } => true,
            ClientError::Answer { .. }
            | ClientError::Server { .. }
            | ClientError::Token
            | ClientError::Setup(_) => false,
        }
    }

    pub(super) fn broken(server: String, error: reqwest::Error) -> ClientError {
        let cause = innermost(&error);
        if error.is_connect() {
            ClientError::Connect { server, cause }
        } else {
            ClientError::Broken { server, cause }
        }
    }

    pub(super) async fn refused(server: String, response: Response) -> ClientError {
        let status = response.status();
        let body = match response.bytes().await {
            Ok(body) => body,
            Err(error) => return ClientError::broken(server, error),
        };
        match serde_json::from_slice(&body) {
            Ok(problem) => ClientError::Problem(Box::new(problem)),
            // An answer to HEAD has no body, and one from a proxy is not ours.
            Err(_) => ClientError::Problem(Box::new(bare(&server, status))),
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
