//! Runs hostile programs as tasks of a whole node. Each must have the expected outcome; after each the node must be healthy,
//! the next task correct, and nothing left behind. Ordinary programs must work.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]

mod harness;
mod node_inventory;

mod cell_view;
mod compile_step;
mod custom_root;
mod default_limits;
mod descriptors;
mod escapes;
mod foreign_system_calls;
mod harness_self_test;
mod hostile_neighbours;
mod ipc_objects;
mod kernel_memory;
mod networks;
mod ordinary_programs;
mod output_bytes;
mod output_floods;
mod privileges;
mod process_and_memory_bombs;
mod shared_disk;
mod space;
mod task_isolation;
mod time_limits;
