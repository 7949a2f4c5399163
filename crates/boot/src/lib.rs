//! Keeps the services of a node alive: starts them in order, restarts what dies, stops them in reverse.
//!
//! Reading order follows a service: `plan` says what there is, `run` starts everything, `keep` is the loop of one
//! service, `child` one life of it, `tether` how it speaks to boot, `log` where its output goes. Beside them stand
//! the verbs of an operator: `status`, `hold`, `stop`.
//! This room knows processes, pid files, logs and signals. It does not know what its services do.

mod error;
mod folder;
mod plan;

mod run;

mod backoff;
mod child;
mod keep;
mod pidfile;
pub mod process;
mod repeats;
mod signals;
mod tether;
mod words;

mod board;
mod hold;
mod lock;
mod single;
mod status;
mod stop;

mod log;
mod print;

pub mod leash;

pub use error::{BootError, NodeError, PlanError};
pub use hold::{hold, unhold};
pub use plan::{Node, Plan, PrintLog, Service, Settings};
pub use run::{Stopped, run};
pub use single::SingleNode;
pub use status::{ServiceStatus, State, Status};
pub use stop::stop;
pub use tether::{Tether, Word, say_why};
