//! Which failed requests are repeated, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::HttpClientError;

/// Why one attempt of the HTTP client to send a request to a gateway failed, and when to try again.
pub(super) struct AttemptError {
    pub(super) error: HttpClientError,
    /// The `Retry-After` of the response.
    pub(super) retry_after: Option<Duration>,
}

/// How long the HTTP client of a gateway repeats a request that failed for a transient reason.
#[derive(Clone, Debug)]
pub(super) struct HttpRetryPolicy {
    idle_timeout: Duration,
    retry_for: Duration,
    on_retry: fn(&HttpClientError),
    /// Whether any request of this client has reached the server.
    has_connected: Arc<AtomicBool>,
}

/// The attempts of the HTTP client at one request to a gateway so far, which decide whether it tries again.
pub(super) struct HttpAttempts {
    retry_policy: HttpRetryPolicy,
    began: Instant,
    attempt_began: Instant,
    /// The `wait` parameter of the request: the server may wait this long before it responds.
    wait: Duration,
    /// The part of the elapsed time that counts as `wait`; at most `wait` for all attempts together.
    waited: Duration,
    count: u32,
    /// Whether an attempt may have taken effect although no response arrived.
    outcome_unknown: bool,
    backoff: Duration,
}

const INITIAL_BACKOFF: Duration = Duration::from_millis(250);
const MAX_BACKOFF: Duration = Duration::from_secs(4);

impl From<HttpClientError> for AttemptError {
    fn from(error: HttpClientError) -> AttemptError {
        AttemptError {
            error,
            retry_after: None,
        }
    }
}

impl HttpRetryPolicy {
    pub(super) fn new(
        idle_timeout: Duration,
        retry_for: Duration,
        on_retry: fn(&HttpClientError),
    ) -> HttpRetryPolicy {
        HttpRetryPolicy {
            idle_timeout,
            retry_for,
            on_retry,
            has_connected: Arc::default(),
        }
    }

    /// Whether to repeat a request that has taken this long and failed with this error.
    pub(super) fn should_retry(&self, error: &HttpClientError, spent: Duration) -> bool {
        // If no request has reached the server yet, a wrong address is more likely than a restart of the server.
        let never_connected =
            matches!(error, HttpClientError::Connect { .. }) && !self.has_connected.load(Ordering::Relaxed);
        error.is_transient() && !never_connected && spent < self.retry_for
    }

    pub(super) fn record_connected(&self) {
        self.has_connected.store(true, Ordering::Relaxed);
    }

    /// Starts the attempts at a request. The time up to `wait` does not count towards the timeouts.
    pub(super) fn begin(&self, wait: Duration) -> HttpAttempts {
        let now = Instant::now();
        HttpAttempts {
            retry_policy: self.clone(),
            began: now,
            attempt_began: now,
            wait,
            waited: Duration::ZERO,
            count: 0,
            outcome_unknown: false,
            backoff: INITIAL_BACKOFF,
        }
    }
}

impl HttpAttempts {
    /// The idle timeout of the next attempt.
    pub(super) fn idle_timeout(&self) -> Duration {
        let HttpRetryPolicy {
            idle_timeout,
            retry_for,
            ..
        } = &self.retry_policy;
        match self.count {
            0 => *idle_timeout,
            _ => retry_for.saturating_sub(self.spent()).min(*idle_timeout),
        }
    }

    /// The deadline of all attempts together.
    pub(super) fn deadline(&self) -> Instant {
        self.began + self.wait + self.retry_policy.retry_for
    }

    /// Sleeps until the next attempt. Returns the error if there is no further attempt.
    pub(super) async fn pause_after(&mut self, failed: AttemptError) -> Result<(), HttpClientError> {
        let AttemptError { error, retry_after } = failed;
        self.count += 1;
        self.waited = (self.waited + self.attempt_began.elapsed()).min(self.wait);
        let pause = retry_after.unwrap_or(self.backoff);
        // An attempt is only useful if the server has some time to respond.
        let least = self.retry_policy.idle_timeout / 4;
        let in_time = self.spent() + pause + least < self.retry_policy.retry_for;
        if !(in_time && self.retry_policy.should_retry(&error, self.spent())) {
            let outcome_unknown = self.outcome_unknown && !error.is_final_refusal();
            return Err(
                match self.count > 1 && (error.is_transient() || outcome_unknown) {
                    true => HttpClientError::RetriesExhausted {
                        last: Box::new(error),
                        attempts: self.count,
                        spent: self.began.elapsed(),
                        outcome_unknown,
                    },
                    false => error,
                },
            );
        }
        self.outcome_unknown |= error.may_have_taken_effect();
        if self.count > 1 {
            (self.retry_policy.on_retry)(&error);
        }
        tokio::time::sleep(pause).await;
        self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
        self.attempt_began = Instant::now();
        Ok(())
    }

    /// The elapsed time without `wait`.
    fn spent(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection_lost() -> HttpClientError {
        HttpClientError::ConnectionLost {
            server: String::new(),
            cause: String::new(),
        }
    }

    fn cannot_connect() -> HttpClientError {
        HttpClientError::Connect {
            server: String::new(),
            cause: String::new(),
        }
    }

    fn problem(status: u16) -> HttpClientError {
        HttpClientError::Problem(Box::new(crate::Problem {
            kind: String::new(),
            title: String::new(),
            status,
            detail: String::new(),
            field: None,
            limit: None,
            actual: None,
        }))
    }

    fn retry_policy(retry_for: Duration) -> HttpRetryPolicy {
        HttpRetryPolicy::new(Duration::from_millis(4), retry_for, |_| {})
    }

    #[test]
    fn only_transient_errors_of_a_server_that_was_reached_are_retried() {
        let policy = retry_policy(Duration::from_secs(60));
        let spent = Duration::ZERO;
        assert!(policy.should_retry(&connection_lost(), spent));
        assert!(!policy.should_retry(&HttpClientError::InvalidToken, spent));
        assert!(!policy.should_retry(&cannot_connect(), spent));
        policy.record_connected();
        assert!(policy.should_retry(&cannot_connect(), spent));
    }

    #[tokio::test]
    async fn a_client_without_retries_returns_the_error_itself() {
        let policy = retry_policy(Duration::ZERO);
        let mut attempts = policy.begin(Duration::ZERO);
        let error = attempts.pause_after(connection_lost().into()).await.unwrap_err();
        assert!(matches!(error, HttpClientError::ConnectionLost { .. }), "{error}");
    }

    #[tokio::test]
    async fn an_unknown_outcome_stays_unknown_when_the_last_attempt_cannot_connect() {
        let policy = retry_policy(Duration::from_secs(60));
        policy.record_connected();
        let mut attempts = policy.begin(Duration::ZERO);
        attempts.pause_after(connection_lost().into()).await.unwrap();
        let last = AttemptError {
            error: cannot_connect(),
            retry_after: Some(Duration::from_secs(120)),
        };
        let error = attempts.pause_after(last).await.unwrap_err();
        assert!(matches!(error.last(), HttpClientError::Connect { .. }), "{error}");
        assert!(error.may_have_taken_effect());
        assert!(!cannot_connect().may_have_taken_effect());
    }

    #[tokio::test]
    async fn only_an_error_about_the_request_itself_settles_an_unknown_outcome() {
        let policy = retry_policy(Duration::from_secs(60));
        for (status, outcome_unknown) in [
            (400, false),
            (401, true),
            (403, true),
            (408, true),
            (409, false),
            (422, false),
        ] {
            let mut attempts = policy.begin(Duration::ZERO);
            attempts.pause_after(connection_lost().into()).await.unwrap();
            let error = attempts.pause_after(problem(status).into()).await.unwrap_err();
            assert_eq!(error.may_have_taken_effect(), outcome_unknown, "{status}");
            assert_eq!(error.problem().map(|problem| problem.status), Some(status));
        }
    }

    #[tokio::test]
    async fn the_wait_parameter_does_not_count_as_elapsed_time() {
        let second = Duration::from_secs(1);
        let ten_seconds_ago = Instant::now().checked_sub(10 * second).unwrap();
        for (wait, retried) in [(Duration::ZERO, false), (60 * second, true)] {
            let policy = retry_policy(5 * second);
            let mut attempts = policy.begin(wait);
            (attempts.began, attempts.attempt_began) = (ten_seconds_ago, ten_seconds_ago);
            let next = attempts.pause_after(connection_lost().into()).await;
            assert_eq!(next.is_ok(), retried, "{wait:?}");
        }
    }
}
