//! Runs components and reports how they end.

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

use crate::{Component, ComponentFailure, FailureKind, FailurePolicy, FailureWatch};

/// Metric: how often components were restarted.
pub const RESTARTS: &str = "conclave_component_restarts_total";

/// The pause before the supervisor starts a failed component (a long-lived task or thread) again. It doubles up to a
/// limit.
#[derive(Clone, Copy, Debug)]
struct ComponentBackoff {
    next: Duration,
    longest: Duration,
}

const RESTART_BACKOFF: ComponentBackoff = ComponentBackoff {
    next: Duration::from_secs(1),
    longest: Duration::from_secs(60),
};

impl ComponentBackoff {
    /// Returns the next pause and doubles it for the one after.
    fn next_pause(&mut self) -> Duration {
        let longer = (self.next * 2).min(self.longest);
        std::mem::replace(&mut self.next, longer)
    }
}

/// Runs the components (long-lived tasks and threads) of a process, and keeps the first failure that must end it.
#[derive(Clone, Debug)]
pub struct Supervisor(Arc<watch::Sender<Option<ComponentFailure>>>);

impl Default for Supervisor {
    fn default() -> Supervisor {
        Supervisor::new()
    }
}

impl Supervisor {
    pub fn new() -> Supervisor {
        Supervisor(Arc::new(watch::Sender::new(None)))
    }

    pub fn failures(&self) -> FailureWatch {
        FailureWatch(self.0.subscribe())
    }

    /// Runs a component whose failure ends the process. Returns when the component has ended. Dropping the future aborts
    /// it.
    pub async fn guard<F>(&self, component: Component, stop: &CancellationToken, run: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        debug_assert_eq!(component.on_failure(), FailurePolicy::EndProcess);
        if let Some(kind) = run_once(stop, run).await {
            self.fail(ComponentFailure { component, kind });
        }
    }

    /// Like [`Supervisor::guard`], in a task of its own. Aborting the task aborts the component.
    pub fn spawn<F>(&self, component: Component, stop: &CancellationToken, run: F) -> task::JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (supervisor, stop) = (self.clone(), stop.clone());
        #[expect(clippy::disallowed_methods, reason = "this is the supervisor itself")]
        tokio::spawn(async move { supervisor.guard(component, &stop, run).await })
    }

    /// Runs a component and starts it again after each failure, until `stop`. Dropping the future aborts it.
    pub async fn run_restarting<F>(component: Component, stop: &CancellationToken, start: impl FnMut() -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        debug_assert_eq!(component.on_failure(), FailurePolicy::Restart);
        run_with_backoff(RESTART_BACKOFF, component, stop, start).await;
    }

    /// Starts a thread whose panic ends the process. The thread may return only after it was stopped.
    pub fn thread(
        &self,
        component: Component,
        name: String,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        debug_assert_eq!(component.on_failure(), FailurePolicy::EndProcess);
        let supervisor = self.clone();
        thread::Builder::new().name(name).spawn(move || {
            // Unwind-safe: everything that the closure owned is dropped with it.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                let kind = FailureKind::Panicked(panic_message(panic.as_ref()));
                supervisor.fail(ComponentFailure { component, kind });
            }
        })
    }

    fn fail(&self, failed: ComponentFailure) {
        // Later failures are most likely consequences of the first.
        self.0.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(failed);
            is_first
        });
    }
}

async fn run_with_backoff<F>(
    initial: ComponentBackoff,
    component: Component,
    stop: &CancellationToken,
    mut start: impl FnMut() -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut backoff = initial;
    loop {
        let started = Instant::now();
        let Some(kind) = run_once(stop, start()).await else {
            return;
        };
        // The component had worked for a while, so this is a new failure.
        if started.elapsed() > initial.longest {
            backoff = initial;
        }
        let pause = backoff.next_pause();
        metrics::counter!(RESTARTS, "component" => component.name()).increment(1);
        tracing::error!("{component} {kind}; restarting in {pause:?}");
        if stop
            .run_until_cancelled(tokio::time::sleep(pause))
            .await
            .is_none()
        {
            return;
        }
    }
}

/// Returns `None` if the component ended in order: after the stop, or with the runtime.
async fn run_once<F>(stop: &CancellationToken, run: F) -> Option<FailureKind>
where
    F: Future<Output = ()> + Send + 'static,
{
    #[expect(clippy::disallowed_methods, reason = "this is the supervisor itself")]
    match AbortOnDropHandle::new(tokio::spawn(run)).await {
        Ok(()) if stop.is_cancelled() => None,
        Ok(()) => Some(FailureKind::Returned),
        Err(ended) => {
            let panic = ended.try_into_panic().ok()?;
            Some(FailureKind::Panicked(panic_message(panic.as_ref())))
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no panic message")
        .to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn panicked(component: Component) -> Option<ComponentFailure> {
        Some(ComponentFailure {
            component,
            kind: FailureKind::Panicked("on purpose 7".into()),
        })
    }

    #[tokio::test]
    async fn a_panic_is_reported_with_component_and_message() {
        let supervisor = Supervisor::new();
        let mut failures = supervisor.failures();
        assert_eq!(failures.current(), None);
        let stop = CancellationToken::new();
        let seven = 7;
        supervisor
            .guard(
                Component::Dispatch,
                &stop,
                async move { panic!("on purpose {seven}") },
            )
            .await;
        assert_eq!(failures.current(), panicked(Component::Dispatch));
        assert_eq!(
            failures.wait().await.to_string(),
            "the judicator's dispatch panicked: on purpose 7"
        );
        // The first failure is kept, and a late subscriber gets it too.
        supervisor.guard(Component::Expiry, &stop, async {}).await;
        assert_eq!(supervisor.failures().wait().await.component, Component::Dispatch);
    }

    #[tokio::test]
    async fn only_a_return_without_a_stop_is_a_failure() {
        let supervisor = Supervisor::new();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let run = supervisor.guard(Component::Expiry, &stop, async move { stopped.cancelled().await });
        tokio::join!(run, async { stop.cancel() });
        assert_eq!(supervisor.failures().current(), None);
        supervisor
            .guard(Component::Expiry, &CancellationToken::new(), async {})
            .await;
        let seen = supervisor.failures().current().map(|failed| failed.to_string());
        assert_eq!(
            seen.as_deref(),
            Some("the judicator's session expiry returned unexpectedly")
        );
    }

    #[tokio::test]
    async fn a_panic_of_a_thread_is_reported() {
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
        assert_eq!(supervisor.failures().current(), None);
    }

    #[tokio::test]
    async fn a_failed_component_is_restarted_until_it_is_stopped() {
        let stop = CancellationToken::new();
        let starts = Arc::new(AtomicU32::new(0));
        let (counted, stopper) = (starts.clone(), stop.clone());
        let quick = ComponentBackoff {
            next: Duration::from_millis(1),
            longest: Duration::from_millis(2),
        };
        run_with_backoff(quick, Component::Retention, &stop, move || {
            let start = counted.fetch_add(1, Ordering::Relaxed);
            let stopper = stopper.clone();
            async move {
                match start {
                    0 => panic!("on purpose"),
                    1 => {}
                    _ => stopper.cancel(),
                }
            }
        })
        .await;
        assert_eq!(starts.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn restart_pauses_double_up_to_a_minute() {
        let mut backoff = RESTART_BACKOFF;
        let seconds: Vec<_> = (0..9).map(|_| backoff.next_pause().as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn component_names_are_unique() {
        let names: std::collections::HashSet<_> = Component::ALL.iter().map(|one| one.name()).collect();
        assert_eq!(names.len(), Component::ALL.len());
    }
}
