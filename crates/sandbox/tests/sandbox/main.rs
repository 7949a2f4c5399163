//! Tests with real wardens and real processes, one file for each topic.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]
// Clippy allows unwrap in test functions, but not in the functions that they call.
#![allow(clippy::unwrap_used)]

mod cell_harness;
mod harness;

mod command_environment;
mod exit_status;
mod live_output;
mod long_output;
mod streams;

mod cgroup;

mod limits;
mod measurements;

mod cell;
mod cleanup;
mod kill_run;
mod open_in_workspace;
mod orphans;
mod owner_lifetime;
