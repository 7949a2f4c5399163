//! Tests of clusters in the middle of a rolling upgrade: some nodes know a made-up next form of tasks, the others do not.
//!
//! nextest builds the second binary for them, so only `scripts/test full` runs them.
#![allow(clippy::disallowed_methods, reason = "tests start tasks that end with them")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests panic on unexpected results, and print what they observe"
)]

mod rolling_upgrade;
