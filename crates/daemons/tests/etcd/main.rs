//! The etcd daemon with a real etcd, whole clusters of them in one process.

// A test that cannot go on says so by panicking.
#![allow(clippy::unwrap_used)]

mod stage;

mod bad_input;
mod crashing;
mod discovering;
mod forming;
mod guarding;
mod hanging;
mod leaving;
mod losing;
mod proxying;
