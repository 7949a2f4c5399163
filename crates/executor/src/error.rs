use std::io;
use std::path::PathBuf;

use model::ExecutorName;
use thiserror::Error;

/// Why an executor cannot go on. A task that fails is not among these.
#[derive(Debug, Error)]
pub enum ExecutorError {
    #[error("could not {step} {path}")]
    Home {
        step: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("another executor uses {path}; stop it, or give this one a data folder of its own")]
    InUse { path: PathBuf },
    #[error("could not end the processes that an earlier executor left behind")]
    Strays(#[source] sandbox::StraysError),
    #[error(
        "an executor named {name} is already at work on host {host}; \
         give one of the two another name (executor.name)"
    )]
    Occupied { name: ExecutorName, host: String },
    #[error("the judicator refuses this executor: {0}")]
    Refused(model::Invalid),
    #[error("could not start a thread for a slot")]
    Thread(#[source] io::Error),
    #[error(transparent)]
    Component(#[from] supervise::ComponentFailed),
    #[error("could not make ready to run tasks")]
    Walls(#[from] sandbox::WallError),
}
