//! One boot for each data folder.

use std::time::{Duration, Instant};

use crate::BootError;
use crate::folder::Folder;
use crate::pidfile::{self, PidFile};
use crate::process::Identity;

/// Whoever asks for the status has the lock for a moment, too, which is longer on a busy machine. That must not keep a
/// boot from starting.
const PATIENCE: Duration = Duration::from_secs(10);
/// A flock cannot be awaited with a deadline, so it is tried at this interval.
const RETRY: Duration = Duration::from_millis(20);

/// Held by boot as long as it lives.
#[derive(Debug)]
pub(crate) struct BootLock {
    _file: PidFile,
}

impl BootLock {
    pub(crate) async fn take(folder: &Folder) -> Result<BootLock, BootError> {
        let path = folder.boot_pid();
        let begun = Instant::now();
        loop {
            if let Some(mut file) = PidFile::try_lock(&path).map_err(BootError::at("lock", &path))? {
                if let Some(own) = Identity::own() {
                    file.write(&own).map_err(BootError::at("write", &path))?;
                }
                return Ok(BootLock { _file: file });
            }
            // What the file says is that of the holder only if that process lives.
            if let Some(other) = pidfile::peek(&path).filter(Identity::is_alive) {
                return Err(BootError::Running { pid: other.pid, path });
            }
            if begun.elapsed() >= PATIENCE {
                return Err(BootError::Locked { path });
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// The boot that runs on this folder.
pub(crate) fn holder(folder: &Folder) -> std::io::Result<Option<Identity>> {
    let path = folder.boot_pid();
    Ok(match pidfile::is_locked(&path)? {
        true => pidfile::peek(&path).filter(Identity::is_alive),
        false => None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn asking_for_the_status_keeps_no_boot_from_starting() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path());
        let reader = File::create(folder.boot_pid()).unwrap();
        reader.lock_shared().unwrap();
        let mut taking = pin!(BootLock::take(&folder));
        let tried = tokio::time::timeout(Duration::ZERO, &mut taking).await;
        assert!(tried.is_err(), "{tried:?}");
        reader.unlock().unwrap();
        taking.await.unwrap();
    }
}
