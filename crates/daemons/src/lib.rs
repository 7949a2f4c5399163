//! The wrappers around etcd and mongod that boot starts.
//!
//! A daemon decides how its server is to be started (a new cluster, an old one, one to be joined), starts it on a
//! leash, watches until it serves, tells boot, and looks after its membership from then on. What has to be decided is
//! decided by functions over values; the loops only look and act. No daemon ever deletes data.
//!
//! This room knows etcd and mongod as servers. It does not know what Conclave keeps in them.

mod causes;
mod election;
pub mod etcd;
pub mod mongodb;
mod server;

pub use server::StartError;
pub use server::port::PortError;
pub use server::program::ProgramError;
