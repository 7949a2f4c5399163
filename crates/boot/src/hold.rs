//! `conclave hold` and `conclave unhold`: boot does not start or restart a held service.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::pidfile::{self, PidFile};
use crate::run_folder::RunFolder;
use crate::shared_status::ServiceStatusUpdater;
use crate::{NodeError, NodeStatus};

/// How often boot looks for holds. Each look costs two system calls for each service.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Holds the service from now on, whether boot runs or not. A running service keeps running.
pub fn hold(run: &Path, service: &str) -> Result<(), NodeError> {
    NodeStatus::read(run)?.find_service(service)?;
    let path = RunFolder::new(run).hold_file(service);
    fs::write(&path, "").map_err(NodeError::at("write", &path))
}

/// Ends a hold; no effect on a service that is not held. A lock on the pid file stays until its holder releases it.
pub fn unhold(run: &Path, service: &str) -> Result<(), NodeError> {
    NodeStatus::read(run)?.find_service(service)?;
    let path = RunFolder::new(run).hold_file(service);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(NodeError::at("remove", &path)(error)),
        _ => Ok(()),
    }
}

/// Locks the pid file of a service that boot is about to start. `None` while the service is held.
pub(crate) fn lock_pid_file_unless_held(folder: &RunFolder, service: &str) -> io::Result<Option<PidFile>> {
    match folder.hold_file(service).try_exists()? {
        true => Ok(None),
        false => PidFile::try_lock(&folder.pid_file(service)),
    }
}

/// A service that boot watches for holds of the operator, and the channels on which it publishes them.
pub(crate) struct HoldWatch {
    pub(crate) service: String,
    pub(crate) held: watch::Sender<bool>,
    pub(crate) status: ServiceStatusUpdater,
}

/// Publishes when a hold begins or ends. If the files cannot be read, the service counts as not held: its start then fails
/// with the reason.
pub(crate) async fn watch_holds(folder: RunFolder, services: Vec<HoldWatch>) {
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for watched in &services {
            let held = folder.hold_file(&watched.service).exists()
                || pidfile::is_locked(&folder.pid_file(&watched.service)).unwrap_or_default();
            watched.status.set_held(held);
            watched
                .held
                .send_if_modified(|known| std::mem::replace(known, held) != held);
        }
    }
}
