//! Tests with a whole executor, real wardens and real processes, one file for each topic. The judicator is a fake.
#![allow(clippy::disallowed_methods, reason = "tests start tasks that end with them")]
// Clippy allows unwrap in test functions, but not in the functions that they call.
#![allow(clippy::unwrap_used)]

mod fake_judicator;
mod harness;
mod judged_tasks;

mod judging;
mod judging_interactive;
mod judging_programs;
mod live_output;
mod self_kill;
mod workspaces;
