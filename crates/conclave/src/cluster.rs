//! A cluster node: which services it has, their configuration, and how each is run.
//!
//! `conclave judicator --cluster` (likewise `executor` and `gateway`) is boot: it resolves the configuration, writes each
//! service's sections of it to the run folder, and supervises the services. A service is `conclave service NAME`, which
//! reads only that file.

mod daemon_options;
mod etcd_access;
mod judicator_list;
mod local;
mod node_kind;
mod own_address;
mod service_config;
mod start;

pub(crate) mod services;

pub(crate) use local::LocalNode;
pub(crate) use node_kind::{NodeKind, ServiceKind};
pub(crate) use start::start;
