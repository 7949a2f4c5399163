//! Stops work on a root from another thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

/// Stops a build, import or verification of a root when a signal arrives. The work ends with an error and removes its files.
#[derive(Clone, Debug, Default)]
pub struct InterruptFlag(Arc<AtomicBool>);

/// The error of work on a root that an [`InterruptFlag`] has stopped.
#[derive(Clone, Copy, Debug, Error)]
#[error("interrupted")]
pub(crate) struct InterruptedWork;

impl InterruptFlag {
    pub fn interrupt(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_interrupted(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn check(&self) -> io::Result<()> {
        match self.is_interrupted() {
            true => Err(io::Error::other(InterruptedWork)),
            false => Ok(()),
        }
    }
}
