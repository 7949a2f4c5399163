//! Tests of whole clusters: real etcd, real MongoDB, each node on its own virtual host, and injected faults.
//!
//! These tests print durations, but never assert on them.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests panic on unexpected results, and print what they observe"
)]

mod harness;

mod harness_self_test;

mod formation;
mod replica_set_initiation;

mod clocks;
mod killed_processes;
mod network_partitions;
mod paused_processes;

mod lost_disks;
mod membership_changes;
mod rolling_restart;

mod contest;
mod executors;
mod fixed_addresses;

mod groups;
mod live_output;

mod boot_supervision;

mod invalid_start;
mod mismatched_nodes;
