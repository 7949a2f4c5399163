//! The lock that allows only one boot for each data folder.

use std::time::{Duration, Instant};

use crate::BootError;
use crate::pidfile::{self, PidFile};
use crate::process::ProcessIdentity;
use crate::run_folder::RunFolder;

/// How long to wait for the lock. `conclave status` holds it for a moment, which must not keep boot from starting.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// A flock has no timeout, so it is tried at this interval.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The locked `boot.pid`, held by boot or a `conclave up` until it exits, so that a data folder has one running node.
#[derive(Debug)]
pub(crate) struct BootLock {
    _file: PidFile,
}

impl BootLock {
    pub(crate) async fn acquire(folder: &RunFolder) -> Result<BootLock, BootError> {
        let path = folder.boot_pid_file();
        let started = Instant::now();
        loop {
            if let Some(mut file) = PidFile::try_lock(&path).map_err(BootError::at("lock", &path))? {
                if let Some(own) = ProcessIdentity::own() {
                    file.write(&own).map_err(BootError::at("write", &path))?;
                }
                return Ok(BootLock { _file: file });
            }
            // The process in the file is the holder of the lock only if it is alive.
            if let Some(other) = pidfile::read_without_lock(&path).filter(ProcessIdentity::is_alive) {
                return Err(BootError::Running { pid: other.pid, path });
            }
            if started.elapsed() >= LOCK_TIMEOUT {
                return Err(BootError::Locked { path });
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}

/// The boot process that runs on this folder, if there is one.
pub(crate) fn running_boot(folder: &RunFolder) -> std::io::Result<Option<ProcessIdentity>> {
    let path = folder.boot_pid_file();
    Ok(match pidfile::is_locked(&path)? {
        true => pidfile::read_without_lock(&path).filter(ProcessIdentity::is_alive),
        false => None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn reading_the_status_does_not_keep_boot_from_starting() {
        let root = tempfile::tempdir().unwrap();
        let folder = RunFolder::new(root.path());
        let reader = File::create(folder.boot_pid_file()).unwrap();
        reader.lock_shared().unwrap();
        let mut taking = pin!(BootLock::acquire(&folder));
        let tried = tokio::time::timeout(Duration::ZERO, &mut taking).await;
        assert!(tried.is_err(), "{tried:?}");
        reader.unlock().unwrap();
        taking.await.unwrap();
    }
}
