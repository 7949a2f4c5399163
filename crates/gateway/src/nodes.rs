//! What is known of the nodes and of all tasks together, one file for each call.

mod executors;
mod judicators;
mod stats;

pub(crate) use executors::{__path_executors, executors};
pub(crate) use judicators::{__path_judicators, judicators};
pub(crate) use stats::{__path_stats, stats};
