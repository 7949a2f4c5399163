//! `conclave stop`: stops the node of a data folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::run_folder::RunFolder;
use crate::{NodeError, lock};

/// Sends SIGTERM to boot and waits until it has exited, with all its services. Needs a Tokio runtime.
pub async fn stop(run: &Path, timeout: Duration) -> Result<(), NodeError> {
    let folder = RunFolder::new(run);
    let exists = |path: PathBuf| path.try_exists().map_err(NodeError::at("read", &path));
    if !exists(folder.status_file())? && !exists(folder.boot_pid_file())? {
        return Err(NodeError::NoNode {
            run: run.to_path_buf(),
        });
    }
    let not_running = || NodeError::NotRunning {
        run: run.to_path_buf(),
    };
    let boot = lock::running_boot(&folder)
        .map_err(NodeError::at("lock", &folder.boot_pid_file()))?
        .ok_or_else(not_running)?;
    let failed = |source| NodeError::Signal {
        pid: boot.pid,
        source,
    };
    let process = boot.open_handle().map_err(failed)?.ok_or_else(not_running)?;
    process.terminate().map_err(failed)?;
    tokio::time::timeout(timeout, process.wait_for_exit())
        .await
        .map_err(|_| NodeError::StillStopping {
            pid: boot.pid,
            timeout,
        })
}
