//! The RPC client with real servers.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod failover;
mod following;
mod harness;
