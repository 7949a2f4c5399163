//! Supervises the services of a node: starts them in order, restarts a service that exits, stops them in reverse order.
//!
//! Reading order follows a service: `plan` lists the services, `run` starts a supervisor for each of them,
//! `service_supervisor` is the restart loop of one service, `service_process` is one process of it. `boot_connection` is
//! how a service sends messages to boot, `message_stream` is how boot receives them, and `service_log` is where the
//! output of a service goes. The operator's commands are `status`, `hold` and `stop`.
//! This crate knows processes, pid files, logs and signals. It does not know what its services do.
#![allow(clippy::disallowed_types, reason = "this crate starts processes")]

mod error;
mod plan;
mod run_folder;

mod run;

mod backoff;
mod boot_connection;
mod message_stream;
mod pidfile;
pub mod process;
mod repeat_filter;
mod service_process;
mod service_supervisor;
mod signals;

mod hold;
mod lock;
mod shared_status;
mod single_node;
mod status;
mod stop;

mod log_printer;
mod service_log;

pub mod parent_death;

pub use boot_connection::{BootConnection, ServiceMessage, report_failure_on_stdin};
pub use error::{BootError, NodeError, PlanError};
pub use hold::{hold, unhold};
pub use plan::{BootPlan, BootSettings, NodeIdentity, PrintLog, ServiceSpec};
pub use run::{ShutdownKind, run};
pub use single_node::SingleProcessNode;
pub use status::{NodeStatus, ServiceState, ServiceStatus};
pub use stop::stop;
