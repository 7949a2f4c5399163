//! The etcd daemon: it runs a member on a judicator's node, and `etcd grpc-proxy` on every other node.
//!
//! ```text
//! DATA/etcd/data        etcd's own data; only etcd writes there, and nothing ever deletes it
//! DATA/etcd/served      the cluster that this node belongs to; a node that has this file but no data can only join
//! DATA/etcd/founding    what this node promised to the other founders of a new cluster
//! DATA/etcd/address     the address that DNS gave this node, if it differs from the configured one
//! DATA/etcd/left        exists if this node left its cluster for good
//! DATA/etcd/endpoints   the client addresses of all members as last seen, one on each line
//! ```
//!
//! Reading order: `decision` is the pure decision how to start; `bootstrap` is the loop that observes the peers
//! (`bootstrap/observe_peers`, `peer`, `cluster_view`), shows this node's proposal to them (`proposal_server`), asks
//! for a decision and carries it out (`join`). `member` and `proxy` run the server from then on.

mod options;
mod pre_join_check;

mod arguments;
mod decision;
mod local_state;
mod preflight;

mod client;
mod cluster_view;
mod peer;
mod proposal_server;
mod resolve;

mod auth;
mod bootstrap;
mod health_check;
mod join;
mod leave;
mod member;
mod members;
mod proxy;
mod remove;
mod uptime;

mod error;

pub use client::EtcdRequestError;
pub(crate) use client::is_login_refused;
pub use error::EtcdDaemonError;
pub use leave::{LeaveClusterResult, check_can_leave, leave};
pub use local_state::{saved_cluster_id, saved_endpoints};
pub use member::run_member;
pub use members::{
    EtcdMember, EtcdMemberState, entries_behind_leader, list_members, list_members_after_election,
};
pub use options::{BootstrapMode, EtcdMemberOptions, EtcdProxyOptions, ProxySeeds};
pub use pre_join_check::{PreJoinCheck, PreJoinFailure};
pub use preflight::{preflight, preflight_proxy};
pub use proxy::run_proxy;
pub use remove::remove_member;
pub use resolve::DnsResolver;
