//! Whole systems of real processes, for tests: started from the `conclave` binary, spoken to over HTTP, hurt by
//! signals.
//!
//! This room uses nothing of the others but the HTTP client: what it sees is what a user sees.

mod await_that;
mod claim;
mod cli;
mod cluster;
mod disk;
mod dns;
mod fake_clock;
mod gateways;
mod groups;
mod guest;
mod hanging_mount;
mod history;
mod host_usage;
mod ip;
mod lan;
mod load;
mod network;
mod node;
mod relay;
mod remains;
mod system;
mod web;

pub use await_that::await_that;
pub use cli::{Cli, Said};
pub use cluster::{
    Cluster, ETCD, ETCD_PEER, Forming, HTTP, MONGOD, Machine, Process, RPC, Roster, SERVICE, Service, Status,
};
pub use disk::{Disk, LoopDisk, Traffic};
pub use dns::Dns;
pub use fake_clock::FakeClock;
pub use gateways::Gateways;
pub use groups::{groups_beneath, groups_named};
pub use guest::{Guest, Ran, Step};
pub use hanging_mount::HangingMount;
pub use history::{History, Run};
pub use host_usage::{HostUsage, HostWatch};
pub use lan::{Host, Lan};
pub use load::Load;
pub use network::Network;
pub use node::{Node, conclave, lives};
pub use relay::Relay;
pub use remains::Remains;
pub use system::{System, shell};
pub use web::{Answer, Web};
