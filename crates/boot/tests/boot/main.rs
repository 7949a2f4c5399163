//! Tests of boot with real processes: boots, services and signals. Each file has one topic.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]
// Clippy allows `unwrap` in test functions, but not in the functions that they call.
#![allow(clippy::unwrap_used)]

mod harness;

mod restarting;
mod starting;
mod stopping;

mod holding;
mod sighup;
mod takeover;

mod logging;
mod parent_death;
