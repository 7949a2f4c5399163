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

    /// Whether a call that began then and failed with this is worth another attempt.
    pub(super) fn allows(&self, error: &ClientError, began: Instant) -> bool {
        // If no call got through yet, the address is more likely wrong than the server restarting.
        let hopeless = matches!(error, ClientError::Connect { .. }) && !self.reached.load(Ordering::Relaxed);
        error.is_transient() && !hopeless && began.elapsed() < self.repeat_for
    }

    pub(super) fn note_reached(&self) {
        self.reached.store(true, Ordering::Relaxed);
    }

    pub(super) fn begin(&self) -> Attempts<'_> {
        Attempts {
            repeat: self,
            began: Instant::now(),
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
            _ => repeat_for.saturating_sub(self.began.elapsed()).min(*silence),
        }
    }

    /// Returns when it is time for the next attempt, or with the error if there is to be none.
    pub(super) async fn pause_after(&mut self, failed: Failed) -> Result<(), ClientError> {
        let Failed { error, retry_after } = failed;
        self.made += 1;
        let pause = retry_after.unwrap_or(self.backoff);
        // An attempt that leaves the server hardly any time to answer is none.
        let least = self.repeat.silence / 4;
        let in_time = self.began.elapsed() + pause + least < self.repeat.repeat_for;
        if !(in_time && self.repeat.allows(&error, self.began)) {
            // An error that is not transient judges the call itself, so nothing is in doubt any more.
            return Err(match self.made > 1 && error.is_transient() {
                true => ClientError::Repeated {
                    last: Box::new(error),
                    attempts: self.made,
                    spent: self.began.elapsed(),
                    in_doubt: self.in_doubt,
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
        Ok(())
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

    fn repeat(repeat_for: Duration) -> Repeat {
        Repeat::new(Duration::from_millis(4), repeat_for, |_| {})
    }

    #[test]
    fn only_passing_failures_of_a_server_that_is_there_are_repeated() {
        let repeat = repeat(Duration::from_secs(60));
        let now = Instant::now();
        assert!(repeat.allows(&broken(), now));
        assert!(!repeat.allows(&ClientError::Token, now));
        assert!(!repeat.allows(&refused(), now));
        repeat.note_reached();
        assert!(repeat.allows(&refused(), now));
    }

    #[tokio::test]
    async fn a_client_that_does_not_repeat_hands_on_the_error_itself() {
        let repeat = repeat(Duration::ZERO);
        let error = repeat.begin().pause_after(broken().into()).await.unwrap_err();
        assert!(matches!(error, ClientError::Broken { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_doubt_outlives_a_last_attempt_that_did_not_get_through() {
        let repeat = repeat(Duration::from_secs(60));
        repeat.note_reached();
        let mut attempts = repeat.begin();
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
}
