//! Which failed calls are made again, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::ClientError;

/// Why one attempt failed.
pub(super) struct Failed {
    pub(super) error: ClientError,
    /// How long the server asks to be left alone.
    pub(super) retry_after: Option<Duration>,
}

#[derive(Clone, Debug)]
pub(super) struct Repeat {
    silence: Duration,
    repeat_for: Duration,
    on_repeat: fn(&ClientError),
    /// Whether a call of this client has reached the server before.
    reached: Arc<AtomicBool>,
}

/// The attempts at one call.
pub(super) struct Attempts<'a> {
    repeat: &'a Repeat,
    began: Instant,
    attempt_began: Instant,
    /// How long the server was asked to wait before it answers.
    wait: Duration,
    /// How much of the time so far counts as that wait; at most `wait` for all attempts together.
    waited: Duration,
    made: u32,
    /// Whether one of them may have been done, although no answer came.
    in_doubt: bool,
    backoff: Duration,
}

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Failed {
        Failed {
            error,
            retry_after: None,
        }
    }
}

impl Repeat {
    pub(super) fn new(silence: Duration, repeat_for: Duration, on_repeat: fn(&ClientError)) -> Repeat {
        Repeat {
            silence,
            repeat_for,
            on_repeat,
            reached: Arc::default(),
        }
    }

    /// Whether a call that has taken this long and failed with this error is worth another attempt.
    pub(super) fn allows(&self, error: &ClientError, spent: Duration) -> bool {
        // If no call got through yet, the address is more likely wrong than the server restarting.
        let hopeless = matches!(error, ClientError::Connect { .. }) && !self.reached.load(Ordering::Relaxed);
        error.is_transient() && !hopeless && spent < self.repeat_for
    }

    pub(super) fn note_reached(&self) {
        self.reached.store(true, Ordering::Relaxed);
    }

    /// The server is asked to wait this long before it answers; that time is not counted as its silence.
    pub(super) fn begin(&self, wait: Duration) -> Attempts<'_> {
        let now = Instant::now();
        Attempts {
            repeat: self,
            began: now,
            attempt_began: now,
            wait,
            waited: Duration::ZERO,
            made: 0,
            in_doubt: false,
            backoff: FIRST_PAUSE,
        }
    }
}

impl Attempts<'_> {
    /// For how long the server may be silent in the next attempt.
    pub(super) fn silence(&self) -> Duration {
        let Repeat {
            silence, repeat_for, ..
        } = self.repeat;
        match self.made {
            0 => *silence,
            _ => repeat_for.saturating_sub(self.spent()).min(*silence),
        }
    }

    /// When the time for all attempts is over.
    pub(super) fn deadline(&self) -> Instant {
        self.began + self.wait + self.repeat.repeat_for
    }

    /// Returns when it is time for the next attempt, or with the error if there is to be none.
    pub(super) async fn pause_after(&mut self, failed: Failed) -> Result<(), ClientError> {
        let Failed { error, retry_after } = failed;
        self.made += 1;
        self.waited = (self.waited + self.attempt_began.elapsed()).min(self.wait);
        let pause = retry_after.unwrap_or(self.backoff);
        // An attempt that leaves the server hardly any time to answer is none.
        let least = self.repeat.silence / 4;
        let in_time = self.spent() + pause + least < self.repeat.repeat_for;
        if !(in_time && self.repeat.allows(&error, self.spent())) {
            let in_doubt = self.in_doubt && !error.is_verdict();
            return Err(match self.made > 1 && (error.is_transient() || in_doubt) {
                true => ClientError::Repeated {
                    last: Box::new(error),
                    attempts: self.made,
                    spent: self.began.elapsed(),
                    in_doubt,
                },
                false => error,
            });
        }
        self.in_doubt |= error.may_have_been_done();
        if self.made > 1 {
            (self.repeat.on_repeat)(&error);
        }
        tokio::time::sleep(pause).await;
        self.backoff = (self.backoff * 2).min(LONGEST_PAUSE);
        self.attempt_began = Instant::now();
        Ok(())
    }

    /// Without the wait that the server was asked for.
    fn spent(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken() -> ClientError {
        ClientError::Broken {
            server: String::new(),
            cause: String::new(),
        }
    }

    fn refused() -> ClientError {
        ClientError::Connect {
            server: String::new(),
            cause: String::new(),
        }
    }

    fn problem(status: u16) -> ClientError {
        ClientError::Problem(Box::new(crate::Problem {
            kind: String::new(),
            title: String::new(),
            status,
            detail: String::new(),
            field: None,
            limit: None,
            actual: None,
        }))
    }

    fn repeat(repeat_for: Duration) -> Repeat {
        Repeat::new(Duration::from_millis(4), repeat_for, |_| {})
    }

    #[test]
    fn only_passing_failures_of_a_server_that_is_there_are_repeated() {
        let repeat = repeat(Duration::from_secs(60));
        let spent = Duration::ZERO;
        assert!(repeat.allows(&broken(), spent));
        assert!(!repeat.allows(&ClientError::Token, spent));
        assert!(!repeat.allows(&refused(), spent));
        repeat.note_reached();
        assert!(repeat.allows(&refused(), spent));
    }

    #[tokio::test]
    async fn a_client_that_does_not_repeat_hands_on_the_error_itself() {
        let repeat = repeat(Duration::ZERO);
        let mut attempts = repeat.begin(Duration::ZERO);
        let error = attempts.pause_after(broken().into()).await.unwrap_err();
        assert!(matches!(error, ClientError::Broken { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_doubt_outlives_a_last_attempt_that_did_not_get_through() {
        let repeat = repeat(Duration::from_secs(60));
        repeat.note_reached();
        let mut attempts = repeat.begin(Duration::ZERO);
        attempts.pause_after(broken().into()).await.unwrap();
        let hopeless = Failed {
            error: refused(),
            retry_after: Some(Duration::from_secs(120)),
        };
        let error = attempts.pause_after(hopeless).await.unwrap_err();
        assert!(matches!(error.last(), ClientError::Connect { .. }), "{error}");
        assert!(error.may_have_been_done());
        assert!(!refused().may_have_been_done());
    }

    #[tokio::test]
    async fn a_doubt_ends_only_with_an_error_about_the_call_itself() {
        let repeat = repeat(Duration::from_secs(60));
        for (status, in_doubt) in [
            (400, false),
            (401, true),
            (403, true),
            (408, true),
            (409, false),
            (422, false),
        ] {
            let mut attempts = repeat.begin(Duration::ZERO);
            attempts.pause_after(broken().into()).await.unwrap();
            let error = attempts.pause_after(problem(status).into()).await.unwrap_err();
            assert_eq!(error.may_have_been_done(), in_doubt, "{status}");
            assert_eq!(error.problem().map(|problem| problem.status), Some(status));
        }
    }

    #[tokio::test]
    async fn the_wait_that_the_server_was_asked_for_does_not_count() {
        let second = Duration::from_secs(1);
        let ten_seconds_ago = Instant::now().checked_sub(10 * second).unwrap();
        for (wait, repeated) in [(Duration::ZERO, false), (60 * second, true)] {
            let repeat = repeat(5 * second);
            let mut attempts = repeat.begin(wait);
            (attempts.began, attempts.attempt_began) = (ten_seconds_ago, ten_seconds_ago);
            let next = attempts.pause_after(broken().into()).await;
            assert_eq!(next.is_ok(), repeated, "{wait:?}");
        }
    }
}
