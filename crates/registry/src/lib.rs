//! Who is alive, and who leads.
//!
//! A [`Registry`] is what a node is told: two values that change. Where they come from is the business of the
//! modules below: [`local`] has them fixed, [`etcd`] keeps them current. This room knows addresses, not tasks.

pub mod etcd;
pub mod local;

use tokio::sync::watch;

/// What a node knows of the judicators.
#[derive(Clone, Debug)]
pub struct Registry {
    /// Their RPC addresses (`host:port`), in no particular order.
    pub judicators: watch::Receiver<Vec<String>>,
    /// Whether this node's judicator leads. Always false where there is none.
    pub leading: watch::Receiver<bool>,
}
