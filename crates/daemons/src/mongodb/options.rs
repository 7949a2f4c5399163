//! The options of the mongod daemon.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use registry::etcd::EtcdAccess;

use crate::server::port::host_port;

/// The options of a mongod daemon, which runs a member of the MongoDB replica set.
#[derive(Clone)]
pub struct MongodDaemonOptions {
    /// The name of the node, unique in the cluster.
    pub name: String,
    /// The path of mongod, or a name that is looked for on the PATH.
    pub program: PathBuf,
    /// The daemon's folder: mongod's data is in `data` below it, and the daemon's state files are beside that.
    pub data: PathBuf,
    /// The address on which mongod listens and at which the other members reach it.
    pub host: String,
    pub port: u16,
    /// The name of the replica set.
    pub set: String,
    /// For how many seconds a mongod that uses the CPU may not answer before it is killed.
    pub tries: u32,
    /// The size of WiredTiger's cache in bytes. `None` leaves it to mongod, which takes half of the memory.
    pub cache: Option<u64>,
    /// The secret from which all logins are derived. `None` runs mongod without authentication.
    pub secret: Option<String>,
    pub etcd: EtcdAccess,
    /// After this time the claim of a dead daemon to initiate the replica set expires.
    pub lease: Duration,
    /// The command, put before mongod's own, that ends mongod when the daemon ends; empty for none.
    pub parent_death_wrapper: Vec<OsString>,
}

impl MongodDaemonOptions {
    /// `host:port`, as in the replica set's config.
    pub fn address(&self) -> String {
        host_port(&self.host, self.port)
    }

    /// The folder that mongod is given.
    pub(crate) fn dbpath(&self) -> PathBuf {
        self.data.join("data")
    }
}
