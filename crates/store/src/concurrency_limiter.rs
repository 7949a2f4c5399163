//! Bounds how many operations run at the same time and how many callers wait for their turn.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::StoreError;

/// A bound on a store's concurrent reads: `max_running` may run, `max_waiting` may wait, others are refused. It refuses
/// them at once, so that the queue stays short.
pub(crate) struct ConcurrencyLimiter {
    /// Names the operations in the error message.
    what: &'static str,
    running_or_waiting: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

/// The right to run one operation under a [`ConcurrencyLimiter`]; dropping it admits the next caller.
pub(crate) struct ConcurrencyPermit {
    _running: OwnedSemaphorePermit,
    _running_or_waiting: OwnedSemaphorePermit,
}

impl ConcurrencyLimiter {
    /// `what` completes the message "too many ... are waiting".
    pub(crate) fn new(what: &'static str, max_running: usize, max_waiting: usize) -> ConcurrencyLimiter {
        ConcurrencyLimiter {
            what,
            running_or_waiting: Arc::new(Semaphore::new(max_running + max_waiting)),
            running: Arc::new(Semaphore::new(max_running)),
        }
    }

    pub(crate) async fn acquire(&self) -> Result<ConcurrencyPermit, StoreError> {
        let running_or_waiting = self
            .running_or_waiting
            .clone()
            .try_acquire_owned()
            .map_err(|_| StoreError::Busy { what: self.what })?;
        let running = self.running.clone().acquire_owned().await;
        Ok(ConcurrencyPermit {
            _running: running.map_err(|_| StoreError::Closed)?,
            _running_or_waiting: running_or_waiting,
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn callers_beyond_the_bound_are_refused_at_once() {
        let limiter = ConcurrencyLimiter::new("searches", 1, 1);
        let first = limiter.acquire().await.unwrap();
        let mut second = Box::pin(limiter.acquire());
        assert!(second.as_mut().now_or_never().is_none(), "the second waits");
        let third = limiter.acquire().now_or_never();
        assert!(matches!(third, Some(Err(StoreError::Busy { .. }))));
        drop(first);
        let second = second.await.unwrap();
        let third = limiter.acquire();
        drop(second);
        assert!(third.await.is_ok());
    }
}
