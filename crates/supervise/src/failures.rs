//! Which component has failed.

use std::fmt;

use thiserror::Error;
use tokio::sync::watch;

use crate::Component;

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{component} {how}")]
pub struct ComponentFailed {
    pub component: Component,
    pub how: How,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    Panicked(String),
    /// It ended although nobody had stopped it.
    Returned,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Panicked(message) => write!(f, "panicked: {message}"),
            How::Returned => f.write_str("ended by itself"),
        }
    }
}

/// The first failure of a component whose process has to end.
#[derive(Clone, Debug)]
pub struct Failures(pub(crate) watch::Receiver<Option<ComponentFailed>>);

impl Failures {
    /// The one that has been seen so far.
    pub fn seen(&self) -> Option<ComponentFailed> {
        self.0.borrow().clone()
    }

    /// Waits for one. Never returns if there is none for as long as the supervisor exists.
    pub async fn wait(&mut self) -> ComponentFailed {
        let failed = match self.0.wait_for(Option::is_some).await {
            Ok(failed) => failed.clone(),
            Err(_) => None,
        };
        match failed {
            Some(failed) => failed,
            None => std::future::pending().await,
        }
    }
}
