//! The status of the node in memory: each supervisor updates its service, and a task writes it to `status.json`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use crate::process::ProcessIdentity;
use crate::repeat_filter::RepeatedMessageFilter;
use crate::run_folder::RunFolder;
use crate::{BootPlan, NodeStatus, ServiceState, ServiceStatus};

/// The shortest time between two writes of the file.
const MIN_WRITE_INTERVAL: Duration = Duration::from_millis(20);

/// The node status in boot's memory, which all supervisors update and one task writes to `status.json`.
#[derive(Clone, Debug)]
pub(crate) struct SharedNodeStatus(Arc<watch::Sender<StatusWithHolds>>);

/// The node status that boot publishes, and the actual states and holds that it is computed from.
#[derive(Clone, Debug)]
struct StatusWithHolds {
    published: NodeStatus,
    /// In the order of the services.
    states: Vec<StateAndHold>,
}

/// The actual state of a service of boot, which a hold of the operator hides in the published status.
#[derive(Clone, Copy, Debug)]
struct StateAndHold {
    state: ServiceState,
    held: bool,
}

impl SharedNodeStatus {
    pub(crate) fn new(plan: &BootPlan) -> SharedNodeStatus {
        let now = now();
        let own = ProcessIdentity::own();
        let services = plan.services.iter().map(|service| ServiceStatus {
            name: service.name.clone(),
            state: ServiceState::Waiting,
            pid: None,
            pid_start_time: None,
            server_pid: None,
            server_start_time: None,
            since: now,
            restarts: 0,
            last_exit: None,
            doing: None,
        });
        let published = NodeStatus {
            pid: Some(std::process::id()),
            since: now,
            kind: plan.node.kind.clone(),
            name: plan.node.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            addresses: BTreeMap::new(),
            kernel_boot_id: own.map(|own| own.kernel_boot_id).unwrap_or_default(),
            services: services.collect(),
        };
        let states = plan.services.iter().map(|_| StateAndHold {
            state: ServiceState::Waiting,
            held: false,
        });
        SharedNodeStatus(Arc::new(watch::Sender::new(StatusWithHolds {
            published,
            states: states.collect(),
        })))
    }

    pub(crate) fn updater(&self, index: usize) -> ServiceStatusUpdater {
        ServiceStatusUpdater {
            status: self.clone(),
            index,
        }
    }

    pub(crate) fn write(&self, folder: &RunFolder) -> std::io::Result<()> {
        self.0.borrow().published.write(folder)
    }

    /// Writes the file after every change. A failed write (for example on a full disk) is logged and retried at the next
    /// change.
    pub(crate) async fn write_on_change(self, folder: RunFolder) {
        let mut changes = self.0.subscribe();
        let mut logged = RepeatedMessageFilter::default();
        // Also writes changes from before the subscription.
        changes.mark_changed();
        while changes.changed().await.is_ok() {
            if let Err(error) = self.write(&folder)
                && logged.should_log(&error.to_string(), std::time::Instant::now())
            {
                tracing::warn!(path = %folder.status_file().display(), %error, "could not write the status file");
            }
            tokio::time::sleep(MIN_WRITE_INTERVAL).await;
        }
    }
}

/// Updates the status of one service in the [`SharedNodeStatus`]; its supervisor and the hold watch have one.
#[derive(Clone, Debug)]
pub(crate) struct ServiceStatusUpdater {
    status: SharedNodeStatus,
    index: usize,
}

impl ServiceStatusUpdater {
    /// Sets the state of the service and what it is doing.
    pub(crate) fn set_state(&self, state: ServiceState, doing: Option<String>) {
        self.change(|actual, published| {
            if actual.state != state {
                actual.state = state;
                published.since = now();
            }
            published.doing = doing;
        });
    }

    pub(crate) fn set_held(&self, held: bool) {
        self.change(|actual, published| {
            if actual.held != held && published.pid.is_none() {
                published.since = now();
            }
            actual.held = held;
        });
    }

    /// Changes any field except the state.
    pub(crate) fn update(&self, change: impl FnOnce(&mut ServiceStatus)) {
        self.change(|_, published| change(published));
    }

    fn change(&self, change: impl FnOnce(&mut StateAndHold, &mut ServiceStatus)) {
        self.status.0.send_if_modified(|status| {
            let (Some(actual), Some(published)) = (
                status.states.get_mut(self.index),
                status.published.services.get_mut(self.index),
            ) else {
                return false;
            };
            let before = published.clone();
            change(actual, published);
            published.state = published_state(actual.state, actual.held);
            *published != before
        });
    }
}

/// A held service is shown as held, unless boot is stopping it.
fn published_state(state: ServiceState, held: bool) -> ServiceState {
    match state {
        ServiceState::Stopping | ServiceState::Stopped => state,
        _ if held => ServiceState::Held,
        _ => state,
    }
}

/// The current time in milliseconds; more precision is of no use in a status.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_hides_every_state_except_stopping() {
        for (state, expected) in [
            (ServiceState::Waiting, ServiceState::Held),
            (ServiceState::Starting, ServiceState::Held),
            (ServiceState::Running, ServiceState::Held),
            (ServiceState::BackingOff, ServiceState::Held),
            (ServiceState::Stopping, ServiceState::Stopping),
            (ServiceState::Stopped, ServiceState::Stopped),
        ] {
            assert_eq!(published_state(state, true), expected);
            assert_eq!(published_state(state, false), state);
        }
    }
}
