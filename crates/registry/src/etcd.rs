//! The registry on etcd.
//!
//! A judicator registers (`/conclave/judicators/NAME`) and stands for election (`/conclave/leader`) under one lease.
//! Executors and gateways follow the registrations. All reads are linearizable, because executors and gateways read
//! through `etcd grpc-proxy`, which may answer other reads from its cache.

mod access;
mod keys;

mod connection;
mod snapshot;

mod key_claim;
mod leadership_lease;

mod follow;
mod register;

pub use access::{EtcdAccess, EtcdAccessError, EtcdLogin, EtcdTls};
pub use follow::follow;
pub use register::{LocalJudicator, NewerFormSource, register};
pub use snapshot::{ListJudicatorsError, RegisteredJudicator, list_judicators};
