//! Conclave as a cluster: real etcd, real MongoDB, every node on a host of its own, and whatever can happen to them.
//!
//! Nothing here measures speed. Where a test says how long something took, it only prints it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails where it is surprised, and says what it saw"
)]

#[path = "cluster/stage.rs"]
mod stage;

#[path = "cluster/ground.rs"]
mod ground;

#[path = "cluster/forming.rs"]
mod forming;
#[path = "cluster/initiating.rs"]
mod initiating;

#[path = "cluster/clocks.rs"]
mod clocks;
#[path = "cluster/cut_off.rs"]
mod cut_off;
#[path = "cluster/killed.rs"]
mod killed;
#[path = "cluster/paused.rs"]
mod paused;

#[path = "cluster/growing.rs"]
mod growing;
#[path = "cluster/lost.rs"]
mod lost;
#[path = "cluster/rolling.rs"]
mod rolling;

#[path = "cluster/executors.rs"]
mod executors;
#[path = "cluster/plain.rs"]
mod plain;

#[path = "cluster/holding.rs"]
mod holding;

#[path = "cluster/bad_neighbours.rs"]
mod bad_neighbours;
#[path = "cluster/bad_start.rs"]
mod bad_start;
