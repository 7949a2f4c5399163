//! What is known of all services, where each keeper writes its own line and `status.json` is made from.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use crate::folder::Folder;
use crate::process::Identity;
use crate::repeats::Repeats;
use crate::{Plan, ServiceStatus, State, Status};

/// However much a service talks, the file is not written more often than this.
const GAP: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub(crate) struct Board(Arc<watch::Sender<Facts>>);

#[derive(Clone, Debug)]
struct Facts {
    shown: Status,
    /// For each service, what holding hides.
    beneath: Vec<Beneath>,
}

#[derive(Clone, Copy, Debug)]
struct Beneath {
    state: State,
    held: bool,
}

impl Board {
    pub(crate) fn new(plan: &Plan) -> Board {
        let now = now();
        let own = Identity::own();
        let services = plan.services.iter().map(|service| ServiceStatus {
            name: service.name.clone(),
            state: State::Waiting,
            pid: None,
            pid_began: None,
            server_pid: None,
            server_began: None,
            since: now,
            restarts: 0,
            last_exit: None,
            doing: None,
        });
        let shown = Status {
            pid: Some(std::process::id()),
            since: now,
            kind: plan.node.kind.clone(),
            name: plan.node.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            addresses: BTreeMap::new(),
            machine: own.map(|own| own.machine).unwrap_or_default(),
            services: services.collect(),
        };
        let beneath = plan.services.iter().map(|_| Beneath {
            state: State::Waiting,
            held: false,
        });
        Board(Arc::new(watch::Sender::new(Facts {
            shown,
            beneath: beneath.collect(),
        })))
    }

    pub(crate) fn line(&self, index: usize) -> Line {
        Line {
            board: self.clone(),
            index,
        }
    }

    pub(crate) fn write(&self, folder: &Folder) -> std::io::Result<()> {
        self.0.borrow().shown.write(folder)
    }

    /// Writes the file after every change. A file that cannot be written (a full disk) stops nothing: the services
    /// go on, and the next change tries again.
    pub(crate) async fn keep_written(self, folder: Folder) {
        let mut changes = self.0.subscribe();
        let mut repeats = Repeats::default();
        // What changed before this began counts, too.
        changes.mark_changed();
        while changes.changed().await.is_ok() {
            if let Err(error) = self.write(&folder)
                && repeats.is_news(&error.to_string(), std::time::Instant::now())
            {
                tracing::warn!("could not write {}: {error}", folder.status().display());
            }
            tokio::time::sleep(GAP).await;
        }
    }
}

/// A service's line on the board.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    board: Board,
    index: usize,
}

impl Line {
    /// It came into another state, and does something else.
    pub(crate) fn enter(&self, state: State, doing: Option<String>) {
        self.update(|beneath, shown| {
            if beneath.state != state {
                beneath.state = state;
                shown.since = now();
            }
            shown.doing = doing;
        });
    }

    pub(crate) fn hold(&self, held: bool) {
        self.update(|beneath, shown| {
            if beneath.held != held && shown.pid.is_none() {
                shown.since = now();
            }
            beneath.held = held;
        });
    }

    /// Anything but its state.
    pub(crate) fn note(&self, change: impl FnOnce(&mut ServiceStatus)) {
        self.update(|_, shown| change(shown));
    }

    fn update(&self, change: impl FnOnce(&mut Beneath, &mut ServiceStatus)) {
        self.board.0.send_if_modified(|facts| {
            let (Some(beneath), Some(shown)) = (
                facts.beneath.get_mut(self.index),
                facts.shown.services.get_mut(self.index),
            ) else {
                return false;
            };
            let before = shown.clone();
            change(beneath, shown);
            shown.state = show(beneath.state, beneath.held);
            *shown != before
        });
    }
}

/// An operator wants to see that his hold is noticed, except where boot stops everything anyway.
fn show(state: State, held: bool) -> State {
    match state {
        State::Stopping | State::Stopped => state,
        _ if held => State::Held,
        _ => state,
    }
}

/// To the millisecond, which is as much as anybody reads.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holding_hides_all_but_stopping() {
        for (state, expected) in [
            (State::Waiting, State::Held),
            (State::Starting, State::Held),
            (State::Running, State::Held),
            (State::BackingOff, State::Held),
            (State::Stopping, State::Stopping),
            (State::Stopped, State::Stopped),
        ] {
            assert_eq!(show(state, true), expected);
            assert_eq!(show(state, false), state);
        }
    }
}
