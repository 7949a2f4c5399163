//! The mongod daemon: it runs a member of the replica set; beside the primary it also keeps the set's config as
//! registered in etcd.
//!
//! Reading order: `options`, `records` (the keys in etcd), `local_state` (the files beside mongod's data). These
//! modules decide, without any I/O: `start_check` (may this node start?), `action` (what does the daemon do next?),
//! `config_change` (how does the set's config differ from what is registered?), `quorum_check` (does the set keep its
//! majority without this member?). These act: `register`, `initiate`, `reconcile`. `controller` and `daemon` hold them
//! together, and `run` is the loop.

mod options;
mod records;

mod local_state;
mod preflight;
mod secret;
mod start_check;

mod action;
mod config;
mod config_change;
mod quorum_check;

mod admin;
mod arguments;
mod members;
mod monitor;
mod record_store;

mod controller;
mod daemon;
mod initiate;
mod leave;
mod reconcile;
mod register;
mod run;

mod error;

pub use action::MemberAction;
pub use controller::RecheckDelay;
pub use daemon::MongodDaemon;
pub use error::MongodbDaemonError;
pub use leave::{ReplicaSetRemoval, check_can_leave, leave, remove_member};
pub use members::{RegisteredMongod, ReplicaSetMember, registered_members, replica_set_members};
pub use options::MongodDaemonOptions;
pub use preflight::{pre_join_check, preflight};
pub use records::Incarnation;
pub use run::run;
pub use secret::login_from_secret;
