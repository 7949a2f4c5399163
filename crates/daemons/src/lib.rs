//! The daemons around etcd and mongod that boot starts.
//!
//! A daemon decides how to start its server (found a cluster, join one, continue with existing data), starts it so
//! that it ends together with the daemon, waits until it serves, reports to boot, and manages the node's membership
//! from then on. Pure functions make the decisions; the loops only observe and act. No daemon ever deletes a data
//! folder.
//!
//! This crate knows etcd and mongod as servers. It does not know what Conclave stores in them.
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests start tasks that end with them")
)]
#![allow(clippy::disallowed_types, reason = "this crate starts processes")]

mod election_retry;
pub mod etcd;
pub mod mongodb;
mod server;
mod state_file;
mod status_reporter;

pub use server::ServerStartError;
pub use server::port::PortError;
pub use server::program::ProgramError;
