//! Retries with time limits.
//!
//! The driver has no timeout for a reply, and its futures must not be dropped before they complete. So each try runs in
//! a Tokio task of its own, and a timeout only ends the wait for that task. A try that timed out may still take effect;
//! that does no harm, because every write is conditional.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::failure::MongoFailure;
use crate::StoreError;

/// The longest wait for one try. The driver's monitor notices earlier than this that a primary has stopped.
const TRY_TIMEOUT: Duration = Duration::from_secs(4);
/// The longest time for all tries together. After this the caller gets an error and may ask another judicator.
pub(super) const TOTAL_TIMEOUT: Duration = Duration::from_secs(8);
/// Extends both timeouts for each mebibyte of payload.
const EXTRA_TIME_PER_MEBIBYTE: Duration = Duration::from_millis(250);

/// The server aborts a command after this time.
pub(super) const COMMAND_TIMEOUT: Duration = Duration::from_millis(3500);

/// The number of earlier tries of an operation on MongoDB: 0 for the first try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RetryCount(pub(super) u32);

/// The retry loop around an operation on MongoDB: until it succeeds, fails for good, or runs out of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryPolicy {
    step: &'static str,
    payload_bytes: usize,
    /// How long a try may take, if that is longer than all tries usually may.
    longest_try: Option<Duration>,
}

impl RetryPolicy {
    /// `step` completes the sentence "could not ...".
    pub(super) fn new(step: &'static str) -> RetryPolicy {
        RetryPolicy {
            step,
            payload_bytes: 0,
            longest_try: None,
        }
    }

    /// Allows each try to take this long. A try that fails is still retried only for as long as usual.
    pub(super) fn with_longest_try(self, longest_try: Duration) -> RetryPolicy {
        RetryPolicy {
            longest_try: Some(longest_try),
            ..self
        }
    }

    /// Extends the timeouts for an operation that transfers this many bytes.
    pub(super) fn with_payload(self, payload_bytes: usize) -> RetryPolicy {
        RetryPolicy {
            payload_bytes,
            ..self
        }
    }

    pub(super) async fn run<T, F, A>(self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(RetryCount) -> A,
        A: Future<Output = Result<T, MongoFailure>> + Send + 'static,
    {
        let started = Instant::now();
        let extra_time =
            EXTRA_TIME_PER_MEBIBYTE * u32::try_from(self.payload_bytes >> 20).unwrap_or(u32::MAX);
        let (per_try, total) = (TRY_TIMEOUT + extra_time, TOTAL_TIMEOUT + extra_time);
        for count in 0.. {
            let left = total.saturating_sub(started.elapsed()).min(per_try);
            let longest = self.longest_try.unwrap_or(left);
            #[expect(
                clippy::disallowed_methods,
                reason = "a driver call must not be dropped midway, so its task may outlive the timeout"
            )]
            let failure = match timeout(longest, tokio::spawn(operation(RetryCount(count)))).await {
                Ok(Ok(Ok(value))) => return Ok(value),
                Ok(Ok(Err(failure))) => failure,
                Ok(Err(ended)) if ended.is_panic() => {
                    return Err(StoreError::Panicked { step: self.step });
                }
                // The runtime is shutting down.
                Ok(Err(_)) => break,
                Err(_) => MongoFailure::Timeout,
            };
            let delay = backoff(count);
            if !failure.is_retryable() || started.elapsed() + delay >= total {
                return Err(failure.into_error(self.step));
            }
            tracing::debug!(step = self.step, count, ?failure, "operation failed; retrying");
            sleep(delay).await;
        }
        Err(StoreError::Closed)
    }
}

/// Exponential, and short at first because most failures are write conflicts. Random, so that the writers in conflict
/// do not retry at the same time.
fn backoff(count: u32) -> Duration {
    let max = Duration::from_millis(4 << count.min(6));
    max.mul_f64(random_u64() as f64 / u64::MAX as f64)
}

/// A random number from the source that the standard library uses for its hash maps.
pub(super) fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn only_retryable_failures_are_retried() {
        let tried = Arc::new(AtomicU32::new(0));
        let counted = tried.clone();
        let third = RetryPolicy::new("test")
            .run(move |RetryCount(count)| {
                counted.fetch_add(1, Ordering::Relaxed);
                async move {
                    if count < 2 {
                        Err(MongoFailure::Conflict)
                    } else {
                        Ok(count)
                    }
                }
            })
            .await;
        assert!(matches!(third, Ok(2)), "{third:?}");
        assert_eq!(tried.load(Ordering::Relaxed), 3);
        let refused: Result<(), _> = RetryPolicy::new("test")
            .run(|_| async { Err(MongoFailure::Refused(StoreError::ForeignCursor)) })
            .await;
        assert!(matches!(refused, Err(StoreError::ForeignCursor)), "{refused:?}");
        let panicked: Result<(), _> = RetryPolicy::new("test")
            .run(|_| async { panic!("on purpose") })
            .await;
        assert!(
            matches!(panicked, Err(StoreError::Panicked { .. })),
            "{panicked:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_policy_with_longer_tries_waits_longer() {
        let build = |_| async {
            sleep(TOTAL_TIMEOUT * 10).await;
            Ok(())
        };
        let timed_out = RetryPolicy::new("test").run(build).await;
        assert!(
            matches!(timed_out, Err(StoreError::Timeout { .. })),
            "{timed_out:?}"
        );
        let patient = RetryPolicy::new("test").with_longest_try(TOTAL_TIMEOUT * 20);
        patient.run(build).await.unwrap();
        let started = Instant::now();
        let failed: Result<(), _> = patient.run(|_| async { Err(MongoFailure::Conflict) }).await;
        assert!(failed.is_err() && started.elapsed() <= TOTAL_TIMEOUT);
    }
}
