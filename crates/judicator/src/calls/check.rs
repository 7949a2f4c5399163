//! Whether a task can be added and read now.
//!
//! A check writes to the store, so there is one at a time and its answer serves for a while, however many ask.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::Health;
use rpc::{CallError, Ready};
use store::TaskStore;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::Judicator;
use crate::error::refusal;

/// For how long an answer of the store serves.
const FRESH: Duration = Duration::from_secs(1);
/// A store that takes longer is not one to send work to. Less than a gateway waits, so that it hears why.
const PATIENCE: Duration = Duration::from_millis(1500);

/// The last check, under way or answered.
#[derive(Default)]
pub(crate) struct Checks(Mutex<Option<Check>>);

#[derive(Clone)]
struct Check {
    begun: Instant,
    answer: watch::Receiver<Option<Checked>>,
}

#[derive(Clone)]
struct Checked {
    at: Instant,
    answer: Result<Ready, CallError>,
}

impl Judicator {
    pub(super) async fn on_check(&self) -> Result<Ready, CallError> {
        self.check_components()?;
        let answer = self.checks.ask(&self.store).await;
        // One that failed meanwhile tells more than what the store's callers see of it.
        self.check_components()?;
        answer
    }

    fn check_components(&self) -> Result<(), CallError> {
        match self.failed() {
            Some(failed) => Err(CallError::Unavailable(failed.to_string())),
            None => Ok(()),
        }
    }
}

impl Checks {
    async fn ask(&self, store: &Arc<dyn TaskStore>) -> Result<Ready, CallError> {
        let Check { begun, mut answer } = self.current(store);
        let patience = PATIENCE.saturating_sub(begun.elapsed());
        match timeout(patience, answer.wait_for(Option::is_some)).await {
            Ok(Ok(checked)) => match &*checked {
                Some(checked) => checked.answer.clone(),
                None => Err(CallError::Internal("a check was not answered".into())),
            },
            Ok(Err(_)) => Err(CallError::Internal(
                "the check of the store failed; the log of the judicator says why".into(),
            )),
            Err(_) => Err(CallError::Unavailable(format!(
                "the store has not answered a check for {:.1} seconds",
                begun.elapsed().as_secs_f64()
            ))),
        }
    }

    fn current(&self, store: &Arc<dyn TaskStore>) -> Check {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(check) if check.serves() => check.clone(),
            _ => last.insert(Check::begin(store.clone())).clone(),
        }
    }
}

impl Check {
    /// In a task of its own: it goes on when those who asked have stopped waiting, so that there is never a second.
    fn begin(store: Arc<dyn TaskStore>) -> Check {
        let (told, answer) = watch::channel(None);
        tokio::spawn(async move {
            let answer = check(&*store).await;
            told.send_replace(Some(Checked {
                at: Instant::now(),
                answer,
            }));
        });
        Check {
            begun: Instant::now(),
            answer,
        }
    }

    fn serves(&self) -> bool {
        match &*self.answer.borrow() {
            Some(checked) => checked.at.elapsed() < FRESH,
            // Under way, unless its task has panicked.
            None => self.answer.has_changed().is_ok(),
        }
    }
}

async fn check(store: &dyn TaskStore) -> Result<Ready, CallError> {
    store.check().await.map_err(refusal)?;
    let executors = store.executors().await.map_err(refusal)?;
    let alive = executors
        .iter()
        .filter(|executor| executor.health == Health::Alive);
    Ok(Ready {
        executors: alive.count() as u32,
    })
}
