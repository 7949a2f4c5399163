//! Conclave on a machine with cgroup v2, as root and as an ordinary user: a guest, booted for each test.
//!
//! Guests are emulated, and slow. Nothing here measures speed.

#[path = "guest/machine.rs"]
mod machine;

#[path = "guest/cells.rs"]
mod cells;
