//! Tests of the etcd daemon with real etcd servers: each test runs the daemons of a whole cluster in its process.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]
// A test that cannot go on says so by panicking.
#![allow(clippy::unwrap_used)]

mod harness;

mod auth_and_tls;
mod crash_recovery;
mod data_loss_and_removal;
mod dns_discovery;
mod founding_and_joining;
mod invalid_options;
mod leave;
mod proxy;
mod unresponsive_server;
