//! From paths and flags to a task that can be added.

mod blobs;
mod build;
mod collect;

pub(crate) use build::build;
