//! What a daemon is told.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use registry::etcd::Access;

#[derive(Clone)]
pub struct Options {
    /// Of the node: unique in the cluster.
    pub name: String,
    /// mongod itself: a path, or a name that is looked for on the PATH.
    pub program: PathBuf,
    /// The folder for mongod's data (in `data` below it) and for the daemon's notes beside that.
    pub data: PathBuf,
    /// Where the other members reach this one, and where it listens.
    pub host: String,
    pub port: u16,
    /// The replica set's name.
    pub set: String,
    /// For how many seconds mongod may not answer before it is killed, if it is at work meanwhile.
    pub tries: u32,
    /// Bytes of WiredTiger's cache. mongod's own choice (half of the memory) where there is none.
    pub cache: Option<u64>,
    /// The cluster's secret. Without one, mongod asks nobody who they are.
    pub secret: Option<String>,
    pub etcd: Access,
    /// How long a claim to initiate outlives its daemon.
    pub lease: Duration,
    /// The command that ties mongod's life to ours; empty to start it directly.
    pub leash: Vec<OsString>,
}

impl Options {
    /// `host:port`, as it stands in the replica set's config.
    pub fn address(&self) -> String {
        match self.host.contains(':') && !self.host.starts_with('[') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// What mongod is told as its data folder.
    pub(crate) fn dbpath(&self) -> PathBuf {
        self.data.join("data")
    }
}
