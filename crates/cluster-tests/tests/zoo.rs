//! Hostile programs, each through the whole executor. Each has the outcome that it should have; after each the node is
//! healthy, the next task is right, and nothing is left. And ordinary ones, which work.

#[path = "zoo/scene.rs"]
mod scene;
#[path = "zoo/stage.rs"]
mod stage;

#[path = "zoo/bombs.rs"]
mod bombs;
#[path = "zoo/bytes.rs"]
mod bytes;
#[path = "zoo/checker.rs"]
mod checker;
#[path = "zoo/compilers.rs"]
mod compilers;
#[path = "zoo/defaults.rs"]
mod defaults;
#[path = "zoo/descriptors.rs"]
mod descriptors;
#[path = "zoo/escapes.rs"]
mod escapes;
#[path = "zoo/floods.rs"]
mod floods;
#[path = "zoo/foreign_calls.rs"]
mod foreign_calls;
#[path = "zoo/hostile_neighbours.rs"]
mod hostile_neighbours;
#[path = "zoo/kernel_memory.rs"]
mod kernel_memory;
#[path = "zoo/neighbours.rs"]
mod neighbours;
#[path = "zoo/networks.rs"]
mod networks;
#[path = "zoo/ordinary_programs.rs"]
mod ordinary_programs;
#[path = "zoo/own_root.rs"]
mod own_root;
#[path = "zoo/privileges.rs"]
mod privileges;
#[path = "zoo/shared_disk.rs"]
mod shared_disk;
#[path = "zoo/shared_memory.rs"]
mod shared_memory;
#[path = "zoo/space.rs"]
mod space;
#[path = "zoo/times.rs"]
mod times;
#[path = "zoo/traces.rs"]
mod traces;
