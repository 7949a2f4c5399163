//! Tests of the mongod daemon with real mongods and a real etcd.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]
// clippy allows it in test functions only, not in what they call.
#![allow(clippy::unwrap_used)]

mod harness;

mod crash_recovery;
mod data_loss;
mod formation;
mod leave;
mod refused_start;
mod unresponsive_mongod;
