//! A bound on work that is done at the same time, and on the callers that wait for their turn.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::StoreError;

/// Admits `at_once` callers and lets `waiting` more wait. Everyone beyond is refused at once, so that no caller waits
/// behind a queue that has no end.
pub(crate) struct Admission {
    what: &'static str,
    places: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

/// Held while the work is done.
pub(crate) struct Admitted {
    _turn: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

impl Admission {
    /// `what` completes the sentence "too many ... wait already".
    pub(crate) fn new(what: &'static str, at_once: usize, waiting: usize) -> Admission {
        Admission {
            what,
            places: Arc::new(Semaphore::new(at_once + waiting)),
            turns: Arc::new(Semaphore::new(at_once)),
        }
    }

    pub(crate) async fn enter(&self) -> Result<Admitted, StoreError> {
        let place = self
            .places
            .clone()
            .try_acquire_owned()
            .map_err(|_| StoreError::Busy { what: self.what })?;
        let turn = self.turns.clone().acquire_owned().await;
        Ok(Admitted {
            _turn: turn.map_err(|_| StoreError::Closed)?,
            _place: place,
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn callers_beyond_the_bound_are_refused_at_once() {
        let admission = Admission::new("searches", 1, 1);
        let first = admission.enter().await.unwrap();
        let mut second = Box::pin(admission.enter());
        assert!(second.as_mut().now_or_never().is_none(), "the second waits");
        let third = admission.enter().now_or_never();
        assert!(matches!(third, Some(Err(StoreError::Busy { .. }))));
        drop(first);
        let second = second.await.unwrap();
        let third = admission.enter();
        drop(second);
        assert!(third.await.is_ok());
    }
}
