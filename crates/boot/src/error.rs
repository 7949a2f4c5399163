use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

/// Why boot, the supervisor of a node's services, cannot start or has to stop. A service that fails is never such an
/// error: boot restarts it.
#[derive(Debug, Error)]
pub enum BootError {
    #[error(transparent)]
    BootPlan(#[from] PlanError),
    #[error("could not {step} {path}")]
    Io {
        step: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "process {pid} already runs the node of this data folder ({path} is locked); \
         stop it with `conclave stop`, or give this node another data folder"
    )]
    Running { pid: u32, path: PathBuf },
    #[error("{path} is locked by another process; stop that process, or give this node another data folder")]
    Locked { path: PathBuf },
    #[error("could not listen for signals")]
    Signals(#[source] io::Error),
    #[error("could not start the thread that prints logs")]
    LogPrinter(#[source] io::Error),
    #[error("a supervisor task of boot failed; all services were stopped")]
    SupervisorTask(#[source] tokio::task::JoinError),
}

/// A mistake in a boot plan, the list of the services to supervise. Boot checks the plan before it starts anything.
#[derive(Debug, Error)]
pub enum PlanError {
    #[error("the plan has no services")]
    Empty,
    #[error("invalid service name {name:?}; use letters, digits, `-` and `_`, and not \"boot\"")]
    Name { name: String },
    #[error("the service {name:?} is listed twice")]
    Twice { name: String },
    #[error("the service {name:?} needs {needs:?}, which is not listed before it")]
    Needs { name: String, needs: String },
    #[error("cannot print the log of {name:?}: this node has no such service; it has {known}")]
    Print { name: String, known: String },
}

/// Why an operator's command (status, hold, stop) cannot be carried out on a node.
#[derive(Debug, Error)]
pub enum NodeError {
    #[error(
        "no node was started in {}; set its data folder with --data. A judicator, executor or gateway that was started \
         without --cluster is not found this way: stop it with Ctrl-C or SIGTERM",
        .run.parent().unwrap_or(.run).display()
    )]
    NoNode { run: PathBuf },
    #[error("could not {step} {path}")]
    Io {
        step: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is not a valid status file; was it written by another version?")]
    Unreadable {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("this node has no service {name:?}; it has {known}")]
    UnknownService { name: String, known: String },
    #[error(
        "this node is a single process (`conclave {kind}`) and has no services to hold; \
         for maintenance stop it with `conclave stop`"
    )]
    SingleProcess { kind: String },
    #[error("the node of {run} is not running")]
    NotRunning { run: PathBuf },
    #[error("could not send a signal to process {pid}")]
    Signal {
        pid: u32,
        #[source]
        source: io::Error,
    },
    #[error(
        "process {pid} has not exited within {timeout:?} and is still stopping; \
         `conclave status` shows what it waits for, a second `conclave stop` kills its services"
    )]
    StillStopping { pid: u32, timeout: Duration },
}

impl BootError {
    /// For `map_err`: the failed step and its path.
    pub(crate) fn at(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BootError {
        let path = path.to_path_buf();
        move |source| BootError::Io { step, path, source }
    }
}

impl NodeError {
    /// For `map_err`: the failed step and its path.
    pub(crate) fn at(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> NodeError {
        let path = path.to_path_buf();
        move |source| NodeError::Io { step, path, source }
    }
}
