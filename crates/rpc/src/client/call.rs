//! One call to judicators: its time limits, and which error it returns if all of them fail.

use std::time::Duration;

use tonic::Status;

use super::CALL_TIMEOUT;
use super::channels::PendingCall;
use super::classify::{FailoverDecision, FailureCause, classify_status};
use crate::CallError;
use crate::wire::error_from_status;

/// The time limits of the RPC client for one call to a judicator.
pub(super) struct CallTimes {
    /// How long the caller asks the judicator to wait.
    pub(super) wait: Duration,
    /// How long until the next judicator is tried.
    pub(super) timeout: Duration,
}

impl CallTimes {
    /// The times of a call that waits at the judicator.
    pub(super) fn with_wait(wait: Option<Duration>) -> CallTimes {
        let wait = wait.unwrap_or_default();
        CallTimes {
            wait,
            timeout: CALL_TIMEOUT.saturating_add(wait),
        }
    }
}

impl From<Duration> for CallTimes {
    fn from(timeout: Duration) -> CallTimes {
        CallTimes {
            wait: Duration::ZERO,
            timeout,
        }
    }
}

/// The most useful error of the judicators that failed a call, which the RPC client returns if all of them fail.
#[derive(Default)]
pub(super) struct CallFailures(Option<(FailureCause, CallError)>);

impl CallFailures {
    /// Returns the error if no other judicator should be asked.
    pub(super) fn add(
        &mut self,
        pending: PendingCall<'_>,
        address: &str,
        status: Status,
    ) -> Result<(), CallError> {
        let decision = classify_status(&status);
        let error = error_from_status(status);
        let cause = match decision {
            FailoverDecision::ReturnError => {
                pending.on_answered();
                return Err(error);
            }
            FailoverDecision::TryNext(cause) => {
                pending.on_busy();
                cause
            }
            FailoverDecision::Suspend(cause) => {
                pending.suspend(cause, &error);
                cause
            }
        };
        if self.0.as_ref().is_none_or(|(highest, _)| cause > *highest) {
            self.0 = Some((cause, error.of_judicator(address)));
        }
        Ok(())
    }

    pub(super) fn into_error(self) -> CallError {
        match self.0 {
            Some((_, error)) => error,
            None => CallError::Unavailable("no judicator is known".into()),
        }
    }
}
