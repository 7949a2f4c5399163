//! Tests on a virtual machine with cgroup v2, as root and as an ordinary user. Each test boots a guest.
//!
//! Guests are emulated and slow, so no test asserts on durations.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]

mod guest_self_test;

mod cell_view;
mod limit_cases;

mod cells;
mod hostile_programs;
mod memory_reserve;
mod node;
mod per_user_limits;
mod waived_limits;
