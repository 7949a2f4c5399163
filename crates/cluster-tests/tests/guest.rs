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
#[path = "guest/hostile_programs.rs"]
mod hostile_programs;
#[path = "guest/memory_reserve.rs"]
mod memory_reserve;
#[path = "guest/node.rs"]
mod node;
#[path = "guest/per_user.rs"]
mod per_user;
#[path = "guest/weaker.rs"]
mod weaker;
