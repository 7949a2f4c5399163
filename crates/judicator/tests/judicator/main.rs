//! A whole judicator on a fake store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;
mod readiness;
mod waiting;
