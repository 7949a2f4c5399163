//! A check that the node's owner adds: may this node become a member of the cluster that it found?

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use registry::etcd::EtcdAccess;

/// The function of a [`PreJoinCheck`], which checks an etcd cluster before this node joins it.
type CheckFn = dyn Fn(EtcdAccess) -> BoxFuture<'static, Result<(), PreJoinFailure>> + Send + Sync;

/// A check of a running etcd cluster, made before this node is added to it as a member.
#[derive(Clone)]
pub struct PreJoinCheck(Arc<CheckFn>);

/// Why a node may not join an etcd cluster, in words for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreJoinFailure {
    /// The node can never join like this.
    Permanent(String),
    /// The check could not be completed; the node tries again.
    Temporary(String),
}

impl PreJoinCheck {
    pub fn new(
        check: impl Fn(EtcdAccess) -> BoxFuture<'static, Result<(), PreJoinFailure>> + Send + Sync + 'static,
    ) -> PreJoinCheck {
        PreJoinCheck(Arc::new(check))
    }

    /// For a node that runs nothing but etcd.
    pub fn always_pass() -> PreJoinCheck {
        PreJoinCheck::new(|_| Box::pin(async { Ok(()) }))
    }

    pub(crate) async fn run(&self, access: EtcdAccess) -> Result<(), PreJoinFailure> {
        (self.0)(access).await
    }
}

impl fmt::Debug for PreJoinCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreJoinCheck")
    }
}
