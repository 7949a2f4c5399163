//! The registry on a real etcd.
//!
//! A judicator registers (`/conclave/judicators/NAME`) and stands for leader (`/conclave/leader`) under one lease;
//! executors and gateways follow. Everything that is read is read linearizably, since executors and gateways read
//! through `etcd grpc-proxy`, whose other reads may come from its cache.

mod access;
mod keys;

mod line;
mod record;
mod roster;

mod claim;
mod reign;

mod follow;
mod register;

pub use access::{Access, AccessError, Login, Tls};
pub use follow::follow;
pub use register::{Me, register};
pub use roster::{JudicatorSeen, RosterError, roster};
