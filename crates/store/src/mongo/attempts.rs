//! Doing a thing until it is done, within bounds.
//!
//! The driver has no time-out for an answer, and its futures must not be dropped half-way. So each attempt is
//! a task of its own, and what is given up is the wait for it. An attempt given up may still take effect; all
//! writes carry their conditions, so that does no harm to the next attempt, nor to anybody else.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::failure::Failure;
use crate::StoreError;

/// The longest wait for one attempt. A primary that stopped is noticed before that by the driver's monitor.
const ATTEMPT: Duration = Duration::from_secs(4);
/// After this an error is the better answer: the caller may go to another judicator.
pub(super) const TOTAL: Duration = Duration::from_secs(8);
/// What a mebibyte adds to both.
const FOR_A_MEBIBYTE: Duration = Duration::from_millis(250);

/// The server itself stops a command after this long.
pub(super) const COMMAND: Duration = Duration::from_millis(3500);

/// Which attempt it is, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Try(pub(super) u32);

#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    step: &'static str,
    bytes: usize,
}

impl Patience {
    /// `step` completes the sentence "could not ...".
    pub(super) fn with(step: &'static str) -> Patience {
        Patience { step, bytes: 0 }
    }

    /// Much content takes its time.
    pub(super) fn for_bytes(self, bytes: usize) -> Patience {
        Patience { bytes, ..self }
    }

    pub(super) async fn persist<T, F, A>(self, attempt: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(Try) -> A,
        A: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let begun = Instant::now();
        let extra = FOR_A_MEBIBYTE * u32::try_from(self.bytes >> 20).unwrap_or(u32::MAX);
        let (longest, total) = (ATTEMPT + extra, TOTAL + extra);
        for count in 0.. {
            let left = total.saturating_sub(begun.elapsed());
            let failure = match timeout(left.min(longest), tokio::spawn(attempt(Try(count)))).await {
                Ok(Ok(Ok(value))) => return Ok(value),
                Ok(Ok(Err(failure))) => failure,
                Ok(Err(ended)) if ended.is_panic() => {
                    return Err(StoreError::Panicked { step: self.step });
                }
                // The runtime ends.
                Ok(Err(_)) => break,
                Err(_) => Failure::Silent,
            };
            let pause = pause(count);
            if !failure.may_pass() || begun.elapsed() + pause >= total {
                return Err(failure.into_error(self.step));
            }
            tracing::debug!(step = self.step, count, ?failure, "trying again");
            sleep(pause).await;
        }
        Err(StoreError::Closed)
    }
}

/// Short at first, for most failures are two who met; random, so that these do not meet again.
fn pause(count: u32) -> Duration {
    let most = Duration::from_millis(4 << count.min(6));
    most.mul_f64(random() as f64 / u64::MAX as f64)
}

/// Std's own source of randomness, which it keeps for its hash maps.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn what_may_pass_is_tried_again_and_what_may_not_is_not() {
        let tried = Arc::new(AtomicU32::new(0));
        let counted = tried.clone();
        let third = Patience::with("test")
            .persist(move |Try(count)| {
                counted.fetch_add(1, Ordering::Relaxed);
                async move {
                    if count < 2 {
                        Err(Failure::Overtaken)
                    } else {
                        Ok(count)
                    }
                }
            })
            .await;
        assert!(matches!(third, Ok(2)), "{third:?}");
        assert_eq!(tried.load(Ordering::Relaxed), 3);
        let refused: Result<(), _> = Patience::with("test")
            .persist(|_| async { Err(Failure::Refused(StoreError::ForeignCursor)) })
            .await;
        assert!(matches!(refused, Err(StoreError::ForeignCursor)), "{refused:?}");
        let panicked: Result<(), _> = Patience::with("test")
            .persist(|_| async { panic!("on purpose") })
            .await;
        assert!(
            matches!(panicked, Err(StoreError::Panicked { .. })),
            "{panicked:?}"
        );
    }
}
