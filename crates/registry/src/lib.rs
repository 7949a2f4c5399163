//! Which judicators are registered, and which one leads.
//!
//! A [`Registry`] holds two values that change. [`local`] has them fixed; [`etcd`] keeps them current. This crate knows
//! addresses, not tasks.

pub mod etcd;
pub mod local;

use tokio::sync::watch;

/// What a node knows about the judicators: their RPC addresses, and whether its own judicator leads.
#[derive(Clone, Debug)]
pub struct Registry {
    /// The RPC addresses of all judicators (`host:port`), in no particular order.
    pub judicators: watch::Receiver<Vec<String>>,
    /// Whether this node's judicator leads. Always false on a node without a judicator.
    pub leading: watch::Receiver<bool>,
}
