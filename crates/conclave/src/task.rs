//! From paths and flags to a task that can be added.

mod add;
mod blobs;
mod build;
mod collect;
mod key;

pub(crate) use add::add;
pub(crate) use build::build;
pub(crate) use key::BatchKey;
