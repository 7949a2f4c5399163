//! A whole judicator, on a fake store or on SQLite.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod add;
mod drain;
mod fake_output;
mod groups;
mod harness;
mod history;
mod judging;
mod languages;
mod live_output;
mod many_tasks;
mod readiness;
mod remote_calls;
mod repeated_add;
mod sqlite_harness;
mod uploads;
mod waiting;
