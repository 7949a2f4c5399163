//! Conclave on a machine with cgroup v2, as root and as an ordinary user: a guest, booted for each test.
//!
//! Guests are emulated, and slow. Nothing here measures speed.

#[path = "guest/machine.rs"]
mod machine;

#[path = "guest/animals.rs"]
mod animals;
#[path = "guest/seen.rs"]
mod seen;

#[path = "guest/cells.rs"]
mod cells;
#[path = "guest/node.rs"]
mod node;
#[path = "guest/weaker.rs"]
mod weaker;
