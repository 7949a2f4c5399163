//! The etcd daemon: a member on a judicator's node, a proxy to the members on the others.
//!
//! ```text
//! DATA/etcd/data        etcd's own folder; nobody but etcd writes there, and nobody ever deletes it
//! DATA/etcd/served      which cluster this node belongs to: with it, and without data, it can only join
//! DATA/etcd/founding    what was promised to the other founders of a cluster
//! DATA/etcd/address     the address that DNS gave this node, where that is not the configured one
//! DATA/etcd/left        this node left its cluster for good
//! DATA/etcd/endpoints   where the members serve clients, a line for each, as last seen
//! ```

mod admission;
mod options;

mod arguments;
mod certificate;
mod notes;
mod plan;
mod preflight;

mod dial;
mod look;
mod peer;
mod propose;
mod resolve;

mod auth;
mod expel;
mod join;
mod leave;
mod member;
mod members;
mod proxy;
mod remove;
mod settle;
mod silence;
mod uptime;

mod error;

pub use admission::{Admission, Objection};
pub use dial::DialError;
pub(crate) use dial::refuses_login;
pub use error::EtcdError;
pub use leave::{Departure, leave, may_leave};
pub use member::member;
pub use members::{MemberSeen, MemberState, members, members_after_election};
pub use notes::{known_cluster, known_endpoints};
pub use options::{Options, ProxyOptions, Seeds, Start};
pub use preflight::{preflight, preflight_proxy};
pub use proxy::proxy;
pub use remove::remove;
pub use resolve::Resolver;
