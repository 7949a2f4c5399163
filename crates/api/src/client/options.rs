//! How a client reaches its server.

use std::fmt;
use std::time::Duration;

use super::ClientError;

#[derive(Clone)]
pub struct ClientOptions {
    /// The server gets it with every call.
    pub token: Option<String>,
    /// Certificates (PEM) of authorities that are trusted besides those of the system.
    pub authorities: Option<Vec<u8>>,
    /// A call fails when nothing has moved for this long: no answer came, and no byte of a body in either direction.
    pub silence: Duration,
    /// A call that failed for a passing reason is repeated until this time is over. Zero: it is made once. An answer in
    /// JSON is to be complete by then, or `silence` after it began.
    pub repeat_for: Duration,
    /// Called when a call has failed more than once and is about to be repeated.
    pub on_repeat: fn(&ClientError),
}

/// Without the token, which would otherwise end up in logs.
impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("token", &self.token.as_ref().map(|_| "hidden"))
            .field("silence", &self.silence)
            .field("repeat_for", &self.repeat_for)
            .finish_non_exhaustive()
    }
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            token: None,
            authorities: None,
            silence: Duration::from_secs(60),
            repeat_for: Duration::ZERO,
            on_repeat: |_| {},
        }
    }
}
