//! Tests with injected faults on one machine: killed and paused processes, cut networks, full and hanging disks.
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

mod killed_nodes;
mod killed_single_node;

mod killed_executor;
mod killed_warden;
mod spooled_results;

mod large_results;
mod live_output;

mod network_partition;
mod paused_processes;
mod silent_connection;

mod low_memory;

mod kernel_hangs;

mod cancel;
mod executor_names;
mod stopping;

mod damaged_store;
mod full_disk;
