//! Runs components, and sees how they end.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::{Component, ComponentFailed, Failures, How, OnFailure};

/// Counts components that were started again.
pub const RESTARTS: &str = "conclave_component_restarts_total";

/// How long a component waits before it is started again.
#[derive(Clone, Copy, Debug)]
struct Pauses {
    next: Duration,
    longest: Duration,
}

const PAUSES: Pauses = Pauses {
    next: Duration::from_secs(1),
    longest: Duration::from_secs(60),
};

impl Pauses {
    /// Each is twice the one before, up to the longest.
    fn take(&mut self) -> Duration {
        let longer = (self.next * 2).min(self.longest);
        std::mem::replace(&mut self.next, longer)
    }
}

/// Keeps the first failure, for all who ask.
#[derive(Clone, Debug)]
pub struct Supervisor(Arc<watch::Sender<Option<ComponentFailed>>>);

impl Default for Supervisor {
    fn default() -> Supervisor {
        Supervisor::new()
    }
}

impl Supervisor {
    pub fn new() -> Supervisor {
        Supervisor(Arc::new(watch::Sender::new(None)))
    }

    pub fn failures(&self) -> Failures {
        Failures(self.0.subscribe())
    }

    /// Runs a component that ends the process if it fails. Returns when it has ended. Dropping this ends it.
    pub async fn guard<F>(&self, component: Component, stop: &CancellationToken, run: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        debug_assert_eq!(component.on_failure(), OnFailure::EndProcess);
        if let Some(how) = run_once(stop, run).await {
            self.fail(ComponentFailed { component, how });
        }
    }

    /// The same as a task of its own. Aborting it ends the component.
    pub fn spawn<F>(&self, component: Component, stop: &CancellationToken, run: F) -> task::JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (supervisor, stop) = (self.clone(), stop.clone());
        tokio::spawn(async move { supervisor.guard(component, &stop, run).await })
    }

    /// Runs a component and starts it again each time it fails, until the stop. Dropping this ends it.
    pub async fn keep_running<F>(component: Component, stop: &CancellationToken, start: impl FnMut() -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        debug_assert_eq!(component.on_failure(), OnFailure::Restart);
        restart_with(PAUSES, component, stop, start).await;
    }

    /// A thread that ends the process if it panics. It returns only when it was stopped.
    pub fn thread(
        &self,
        component: Component,
        name: String,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        debug_assert_eq!(component.on_failure(), OnFailure::EndProcess);
        let supervisor = self.clone();
        thread::Builder::new().name(name).spawn(move || {
            // Nothing is used afterwards of what the closure owned: it is dropped with it.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                let how = How::Panicked(message(panic.as_ref()));
                supervisor.fail(ComponentFailed { component, how });
            }
        })
    }

    fn fail(&self, failed: ComponentFailed) {
        // What failed later failed because of the first, most likely.
        self.0.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(failed);
            is_first
        });
    }
}

async fn restart_with<F>(
    begin: Pauses,
    component: Component,
    stop: &CancellationToken,
    mut start: impl FnMut() -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut pauses = begin;
    loop {
        let started = Instant::now();
        let Some(how) = run_once(stop, start()).await else {
            return;
        };
        // It had worked for a while: this is a new failure.
        if started.elapsed() > begin.longest {
            pauses = begin;
        }
        let pause = pauses.take();
        metrics::counter!(RESTARTS, "component" => component.name()).increment(1);
        tracing::error!("{component} {how}; it is started again in {pause:?}");
        if stop
            .run_until_cancelled(tokio::time::sleep(pause))
            .await
            .is_none()
        {
            return;
        }
    }
}

/// `None` if it ended in order: after the stop, or with the runtime.
async fn run_once<F>(stop: &CancellationToken, run: F) -> Option<How>
where
    F: Future<Output = ()> + Send + 'static,
{
    match AbortOnDropHandle::new(tokio::spawn(run)).await {
        Ok(()) if stop.is_cancelled() => None,
        Ok(()) => Some(How::Returned),
        Err(ended) => {
            let panic = ended.try_into_panic().ok()?;
            Some(How::Panicked(message(panic.as_ref())))
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
        .to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn panicked(component: Component) -> Option<ComponentFailed> {
        Some(ComponentFailed {
            component,
            how: How::Panicked("on purpose 7".into()),
        })
    }

    #[tokio::test]
    async fn a_panic_is_told_with_its_component_and_message() {
        let supervisor = Supervisor::new();
        let mut failures = supervisor.failures();
        assert_eq!(failures.seen(), None);
        let stop = CancellationToken::new();
        let seven = 7;
        supervisor
            .guard(
                Component::Dispatch,
                &stop,
                async move { panic!("on purpose {seven}") },
            )
            .await;
        assert_eq!(failures.seen(), panicked(Component::Dispatch));
        assert_eq!(
            failures.wait().await.to_string(),
            "the judicator's dispatch panicked: on purpose 7"
        );
        // The first is kept, and who asks late is told too.
        supervisor.guard(Component::Expiry, &stop, async {}).await;
        assert_eq!(supervisor.failures().wait().await.component, Component::Dispatch);
    }

    #[tokio::test]
    async fn only_an_end_that_nobody_asked_for_is_a_failure() {
        let supervisor = Supervisor::new();
        let stop = CancellationToken::new();
        let told = stop.clone();
        let run = supervisor.guard(Component::Expiry, &stop, async move { told.cancelled().await });
        tokio::join!(run, async { stop.cancel() });
        assert_eq!(supervisor.failures().seen(), None);
        supervisor
            .guard(Component::Expiry, &CancellationToken::new(), async {})
            .await;
        let seen = supervisor.failures().seen().map(|failed| failed.to_string());
        assert_eq!(
            seen.as_deref(),
            Some("the judicator's session expiry ended by itself")
        );
    }

    #[tokio::test]
    async fn a_thread_that_panics_is_told() {
        let supervisor = Supervisor::new();
        let thread = supervisor.thread(Component::Slot, "slot-0".into(), || panic!("on purpose 7"));
        let failed = supervisor.failures().wait().await;
        assert_eq!(Some(failed), panicked(Component::Slot));
        thread.unwrap().join().unwrap();
        let supervisor = Supervisor::new();
        supervisor
            .thread(Component::Slot, "slot-0".into(), || {})
            .unwrap()
            .join()
            .unwrap();
        assert_eq!(supervisor.failures().seen(), None);
    }

    #[tokio::test]
    async fn a_component_is_started_again_until_it_is_stopped() {
        let stop = CancellationToken::new();
        let starts = Arc::new(AtomicU32::new(0));
        let (counted, told) = (starts.clone(), stop.clone());
        let quick = Pauses {
            next: Duration::from_millis(1),
            longest: Duration::from_millis(2),
        };
        restart_with(quick, Component::Retention, &stop, move || {
            let start = counted.fetch_add(1, Ordering::Relaxed);
            let told = told.clone();
            async move {
                match start {
                    0 => panic!("on purpose"),
                    1 => {}
                    _ => told.cancel(),
                }
            }
        })
        .await;
        assert_eq!(starts.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn pauses_grow_up_to_a_minute() {
        let mut pauses = PAUSES;
        let seconds: Vec<_> = (0..9).map(|_| pauses.take().as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn each_component_has_a_name_of_its_own() {
        let names: std::collections::HashSet<_> = Component::ALL.iter().map(|one| one.name()).collect();
        assert_eq!(names.len(), Component::ALL.len());
    }
}
