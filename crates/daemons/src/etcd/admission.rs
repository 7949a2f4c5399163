//! What else a node has, and whether that lets it into a cluster.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use registry::etcd::Access;

type Ask = dyn Fn(Access) -> BoxFuture<'static, Result<(), Objection>> + Send + Sync;

/// Asked with a way to a cluster that lives, before this node becomes a member of it.
#[derive(Clone)]
pub struct Admission(Arc<Ask>);

/// What speaks against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Objection {
    /// It can never go on like this.
    Refused(String),
    /// It cannot be told yet.
    Unknown(String),
}

impl Admission {
    pub fn new(
        ask: impl Fn(Access) -> BoxFuture<'static, Result<(), Objection>> + Send + Sync + 'static,
    ) -> Admission {
        Admission(Arc::new(ask))
    }

    /// For a node that has nothing but its etcd.
    pub fn free() -> Admission {
        Admission::new(|_| Box::pin(async { Ok(()) }))
    }

    pub(crate) async fn ask(&self, access: Access) -> Result<(), Objection> {
        (self.0)(access).await
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admission")
    }
}
