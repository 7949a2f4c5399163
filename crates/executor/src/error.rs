use std::io;
use std::path::PathBuf;

use model::ExecutorName;
use thiserror::Error;

/// Why an executor cannot start or has to stop. A task that fails is never such an error.
#[derive(Debug, Error)]
pub enum ExecutorError {
    #[error("could not {step} {path}")]
    DataFolder {
        step: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("another executor uses {path}; stop it, or give this executor another data folder")]
    InUse { path: PathBuf },
    #[error("could not kill processes that an earlier executor left behind")]
    OrphanedProcesses(#[source] sandbox::KillOrphansError),
    #[error(
        "an executor named {name} is already running on host {host}; \
         give one of the two another name (executor.name)"
    )]
    Occupied { name: ExecutorName, host: String },
    #[error("the judicator refused the report of this executor: {0}")]
    Refused(model::InvalidField),
    #[error("could not find out which CPUs this process may use (executor.pin)")]
    Cpus(#[source] io::Error),
    #[error("could not start the thread of a slot")]
    Thread(#[source] io::Error),
    #[error(transparent)]
    Component(#[from] supervise::ComponentFailure),
    #[error("could not prepare the sandbox")]
    Sandbox(#[from] sandbox::EnforcementError),
}
