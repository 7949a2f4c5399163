//! Conclave when things go wrong: processes killed and stopped, cables pulled, disks full.
//!
//! Nothing here measures speed. Where a test says how long something took, it only prints it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails where it is surprised, and says what it saw"
)]

#[path = "faults/stage.rs"]
mod stage;

#[path = "faults/killed_parts.rs"]
mod killed_parts;
#[path = "faults/killed_up.rs"]
mod killed_up;

#[path = "faults/executor_dies.rs"]
mod executor_dies;
#[path = "faults/results_survive.rs"]
mod results_survive;
#[path = "faults/warden_dies.rs"]
mod warden_dies;

#[path = "faults/cut_off.rs"]
mod cut_off;
#[path = "faults/silent_peer.rs"]
mod silent_peer;
#[path = "faults/stands_still.rs"]
mod stands_still;

#[path = "faults/short_of_memory.rs"]
mod short_of_memory;

#[path = "faults/hangs.rs"]
mod hangs;

#[path = "faults/cancelling.rs"]
mod cancelling;
#[path = "faults/joining.rs"]
mod joining;
#[path = "faults/stopping.rs"]
mod stopping;

#[path = "faults/damaged_store.rs"]
mod damaged_store;
#[path = "faults/full_disk.rs"]
mod full_disk;
