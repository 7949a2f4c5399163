use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

/// Why boot cannot begin, or cannot go on. A service that fails is not among these: it is started again.
#[derive(Debug, Error)]
pub enum BootError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("could not {step} {path}")]
    Folder {
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
    #[error("{path} is locked by another process; end that, or give this node a data folder of its own")]
    Locked { path: PathBuf },
    #[error("could not listen for signals")]
    Signals(#[source] io::Error),
    #[error("could not start the thread that prints logs")]
    Printer(#[source] io::Error),
    #[error("a loop that keeps the services alive broke; all services were stopped")]
    Keeper(#[source] tokio::task::JoinError),
}

/// A mistake in the plan, made before anything was started.
#[derive(Debug, Error)]
pub enum PlanError {
    #[error("there is no service to keep alive")]
    Empty,
    #[error("{name:?} cannot name a service; use letters, digits, `-` and `_`, and not \"boot\"")]
    Name { name: String },
    #[error("the service {name:?} is there twice")]
    Twice { name: String },
    #[error("the service {name:?} needs {needs:?}, which is not started before it")]
    Needs { name: String, needs: String },
    #[error("cannot print the log of {name:?}: this node has no such service; it has {known}")]
    Print { name: String, known: String },
}

/// Why a verb of an operator cannot be done on the node of this folder.
#[derive(Debug, Error)]
pub enum NodeError {
    #[error(
        "no node was started in {}; name its data folder with --data. A judicator, executor or gateway that was started \
         alone, without --cluster, is not found in this way: stop it with Ctrl-C or SIGTERM",
        .run.parent().unwrap_or(.run).display()
    )]
    NoNode { run: PathBuf },
    #[error("could not {step} {path}")]
    Folder {
        step: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} does not hold the status of a node; was it written by another version?")]
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
    Single { kind: String },
    #[error("the node of {run} is not running")]
    NotRunning { run: PathBuf },
    #[error("could not end process {pid}")]
    Signal {
        pid: u32,
        #[source]
        source: io::Error,
    },
    #[error(
        "process {pid} has not ended within {patience:?}, and goes on stopping; \
         `conclave status` shows what it waits for, a second `conclave stop` stops it at once"
    )]
    StillStopping { pid: u32, patience: Duration },
}

/// `map_err(BootError::at("open", &path))`
impl BootError {
    pub(crate) fn at(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BootError {
        let path = path.to_path_buf();
        move |source| BootError::Folder { step, path, source }
    }
}

impl NodeError {
    pub(crate) fn at(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> NodeError {
        let path = path.to_path_buf();
        move |source| NodeError::Folder { step, path, source }
    }
}
