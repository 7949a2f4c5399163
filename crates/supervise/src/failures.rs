//! The failure of a component, and how a process waits for one.

use std::fmt;

use thiserror::Error;
use tokio::sync::watch;

use crate::Component;

/// The failure of a long-lived task or thread of a process: which component failed, and how.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{component} {kind}")]
pub struct ComponentFailure {
    pub component: Component,
    pub kind: FailureKind,
}

/// How a long-lived task or thread of a process failed: it panicked, or returned although it was not stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureKind {
    Panicked(String),
    /// It returned although it was not stopped.
    Returned,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureKind::Panicked(message) => write!(f, "panicked: {message}"),
            FailureKind::Returned => f.write_str("returned unexpectedly"),
        }
    }
}

/// A receiver for the first failure of a component (a long-lived task or thread) that must end the process.
#[derive(Clone, Debug)]
pub struct FailureWatch(pub(crate) watch::Receiver<Option<ComponentFailure>>);

impl FailureWatch {
    /// The failure, if there has been one.
    pub fn current(&self) -> Option<ComponentFailure> {
        self.0.borrow().clone()
    }

    /// Waits for a failure. Never returns if the supervisor is dropped without one.
    pub async fn wait(&mut self) -> ComponentFailure {
        let failure = match self.0.wait_for(Option::is_some).await {
            Ok(failure) => failure.clone(),
            Err(_) => None,
        };
        match failure {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }
}
