//! The registry against real etcd servers and proxies. Each module tests one part of what the registry promises.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]
// Clippy allows `unwrap` in test functions, but not in the functions that they call.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod harness;
mod servers;

mod authentication;
mod election;
mod followers;
mod foreign_clusters;
mod name_conflicts;
mod outages;
mod paused_process;
mod registration;
