//! A held service is left alone: not started, and not started again when it ends.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::board::Line;
use crate::folder::Folder;
use crate::pidfile::{self, PidFile};
use crate::{NodeError, Status};

/// How soon a hold is noticed. It costs two calls to the system for each service.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// Leaves the service alone from now on, whether boot runs or not. A running service goes on.
pub fn hold(run: &Path, service: &str) -> Result<(), NodeError> {
    Status::read(run)?.find(service)?;
    let path = Folder::new(run).hold(service);
    fs::write(&path, "").map_err(NodeError::at("write", &path))
}

/// What is not held is left as it is. A lock on the pid file is its holder's to let go.
pub fn unhold(run: &Path, service: &str) -> Result<(), NodeError> {
    Status::read(run)?.find(service)?;
    let path = Folder::new(run).hold(service);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(NodeError::at("remove", &path)(error)),
        _ => Ok(()),
    }
}

/// The right to start a service, or `None` while an operator has it.
pub(crate) fn claim(folder: &Folder, service: &str) -> io::Result<Option<PidFile>> {
    match folder.hold(service).try_exists()? {
        true => Ok(None),
        false => PidFile::try_lock(&folder.pid(service)),
    }
}

/// One service that operators may hold, and who has to know.
pub(crate) struct Watched {
    pub(crate) service: String,
    pub(crate) held: watch::Sender<bool>,
    pub(crate) line: Line,
}

/// Sees holds come and go. What cannot be looked at counts as not held: starting it will tell why.
pub(crate) async fn watch(folder: Folder, services: Vec<Watched>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for watched in &services {
            let held = folder.hold(&watched.service).exists()
                || pidfile::is_locked(&folder.pid(&watched.service)).unwrap_or_default();
            watched.line.hold(held);
            watched
                .held
                .send_if_modified(|known| std::mem::replace(known, held) != held);
        }
    }
}
