//! Stop the node of a folder from outside.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::folder::Folder;
use crate::{NodeError, lock};

/// Asks boot to stop and waits until it is gone with all its services. Needs a runtime.
pub async fn stop(run: &Path, patience: Duration) -> Result<(), NodeError> {
    let folder = Folder::new(run);
    let exists = |path: PathBuf| path.try_exists().map_err(NodeError::at("look at", &path));
    if !exists(folder.status())? && !exists(folder.boot_pid())? {
        return Err(NodeError::NoNode {
            run: run.to_path_buf(),
        });
    }
    let not_running = || NodeError::NotRunning {
        run: run.to_path_buf(),
    };
    let boot = lock::holder(&folder)
        .map_err(NodeError::at("look at", &folder.boot_pid()))?
        .ok_or_else(not_running)?;
    let failed = |source| NodeError::Signal {
        pid: boot.pid,
        source,
    };
    let process = boot.open().map_err(failed)?.ok_or_else(not_running)?;
    process.terminate().map_err(failed)?;
    tokio::time::timeout(patience, process.ended())
        .await
        .map_err(|_| NodeError::StillStopping {
            pid: boot.pid,
            patience,
        })
}
