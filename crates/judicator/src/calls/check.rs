//! The readiness check: whether a task can be added and read now.
//!
//! A check writes to the store. So there is one check at a time, and its answer serves all callers for a second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::Health;
use rpc::{CallError, Readiness};
use store::TaskStore;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::Judicator;
use crate::error::call_error;

/// How long the answer of a check is reused.
const ANSWER_VALID_FOR: Duration = Duration::from_secs(1);
/// A store that takes longer is not ready. It is less than a gateway waits, so that the gateway gets the reason.
const CHECK_TIMEOUT: Duration = Duration::from_millis(1500);

/// The last readiness check of a judicator, under way or answered; its answer serves all callers for a second.
#[derive(Default)]
pub(crate) struct ReadinessChecks(Mutex<Option<ReadinessCheck>>);

/// A readiness check of a judicator that has begun, with a receiver for its answer.
#[derive(Clone)]
struct ReadinessCheck {
    begun: Instant,
    answer: watch::Receiver<Option<ReadinessAnswer>>,
}

/// The answer of a judicator's readiness check, and when it came.
#[derive(Clone)]
struct ReadinessAnswer {
    at: Instant,
    answer: Result<Readiness, CallError>,
}

impl Judicator {
    pub(super) async fn on_check(&self) -> Result<Readiness, CallError> {
        self.check_components()?;
        let answer = self.readiness_checks.answer(&self.store).await;
        // A component that failed meanwhile explains more than the error that the store returns because of it.
        self.check_components()?;
        answer
    }

    fn check_components(&self) -> Result<(), CallError> {
        match self.current_failure() {
            Some(failure) => Err(CallError::Unavailable(failure.to_string())),
            None => Ok(()),
        }
    }
}

impl ReadinessChecks {
    async fn answer(&self, store: &Arc<dyn TaskStore>) -> Result<Readiness, CallError> {
        let ReadinessCheck { begun, mut answer } = self.current(store);
        let left = CHECK_TIMEOUT.saturating_sub(begun.elapsed());
        match timeout(left, answer.wait_for(Option::is_some)).await {
            Ok(Ok(checked)) => match &*checked {
                Some(checked) => checked.answer.clone(),
                None => Err(CallError::Internal("the readiness check has no answer".into())),
            },
            Ok(Err(_)) => Err(CallError::Internal(
                "the readiness check panicked; see the log of the judicator".into(),
            )),
            Err(_) => Err(CallError::Unavailable(format!(
                "the store has not answered a readiness check for {:.1} seconds",
                begun.elapsed().as_secs_f64()
            ))),
        }
    }

    fn current(&self, store: &Arc<dyn TaskStore>) -> ReadinessCheck {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(check) if check.is_reusable() => check.clone(),
            _ => last.insert(ReadinessCheck::begin(store.clone())).clone(),
        }
    }
}

impl ReadinessCheck {
    /// Runs in a task of its own, which continues when the callers stop waiting. So there is never a second check.
    fn begin(store: Arc<dyn TaskStore>) -> ReadinessCheck {
        let (sender, answer) = watch::channel(None);
        #[expect(
            clippy::disallowed_methods,
            reason = "one check; its callers see a dropped sender"
        )]
        tokio::spawn(async move {
            let answer = check(&*store).await;
            sender.send_replace(Some(ReadinessAnswer {
                at: Instant::now(),
                answer,
            }));
        });
        ReadinessCheck {
            begun: Instant::now(),
            answer,
        }
    }

    fn is_reusable(&self) -> bool {
        match &*self.answer.borrow() {
            Some(checked) => checked.at.elapsed() < ANSWER_VALID_FOR,
            // The check is under way, unless its task has panicked.
            None => self.answer.has_changed().is_ok(),
        }
    }
}

async fn check(store: &dyn TaskStore) -> Result<Readiness, CallError> {
    store.check().await.map_err(call_error)?;
    let executors = store.executors().await.map_err(call_error)?;
    let alive = executors
        .iter()
        .filter(|executor| executor.health == Health::Alive);
    Ok(Readiness {
        executors: alive.count() as u32,
    })
}
