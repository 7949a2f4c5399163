//! Conclave on one machine, as a user meets it.

#[path = "one_machine/first_task.rs"]
mod first_task;
