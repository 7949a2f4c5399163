//! Conclave on one machine, as a user meets it.

#[path = "one_machine/stage.rs"]
mod stage;

#[path = "one_machine/first_task.rs"]
mod first_task;
#[path = "one_machine/repeating.rs"]
mod repeating;
#[path = "one_machine/shape.rs"]
mod shape;
