//! A node of a cluster: which services it has, what each is told, and how each is run.
//!
//! `conclave judicator --cluster` and its sisters are boot: they resolve the configuration, write each service's part
//! of it to the run folder, and keep the services alive. A service is `conclave service NAME`, which reads that file
//! and nothing else.

mod access;
mod kind;
mod local;
mod options;
mod own_address;
mod roster;
mod start;
mod write;

pub(crate) mod services;

pub(crate) use kind::{Kind, Role};
pub(crate) use local::LocalNode;
pub(crate) use start::start;
