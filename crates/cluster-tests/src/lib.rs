//! The harness for tests of whole systems: starts real `conclave` processes, talks to them over HTTP and the command
//! line, and injects faults (signals, cut networks, full disks, wrong clocks).
//!
//! Of the product's crates it uses `api` and `model` only, so tests observe what a user observes.
#![allow(clippy::disallowed_methods, reason = "tests start tasks that end with them")]
#![allow(clippy::disallowed_types, reason = "this crate starts processes")]

mod browser;
mod built_root;
mod conclave_cli;
mod control_groups;
mod demo_site;
mod disk;
mod dns_server;
mod fake_clock;
mod gate;
mod gateway_clients;
mod guest_machine;
mod hanging_mount;
mod host_usage;
mod ip;
mod language_programs;
mod load_generator;
mod node_process;
mod raw_http_client;
mod resource_claim;
mod run_history;
mod streamed_response;
mod task_leftovers;
mod tcp_relay;
mod test_cluster;
mod test_system;
mod veth_network;
mod virtual_lan;
mod wait_until;

pub use browser::{Browser, ColorScheme, Key, LAPTOP, PHONE, PageElement, RefusedCommand, Role};
pub use built_root::BuiltRoot;
pub use conclave_cli::{CommandOutput, ConclaveCli};
pub use control_groups::{control_groups_beneath, control_groups_named};
pub use demo_site::{DemoSite, DemoTasks, GROUP};
pub use disk::{BlockDeviceCounters, LoopDisk, TmpfsDisk};
pub use dns_server::DnsServer;
pub use fake_clock::FakeClock;
pub use gate::Gate;
pub use gateway_clients::GatewayClients;
pub use guest_machine::{GuestCommand, GuestMachine, GuestOutputs};
pub use hanging_mount::HangingMount;
pub use host_usage::{HostUsage, HostUsageMonitor};
pub use language_programs::LanguagePrograms;
pub use load_generator::LoadGenerator;
pub use node_process::{NodeProcess, conclave, is_alive, next_form_conclave};
pub use raw_http_client::{HttpResponse, RawHttpClient};
pub use run_history::{RunHistory, TaskRun};
pub use streamed_response::{BodyEnd, ReceivedEvent, StreamedResponse};
pub use task_leftovers::TaskLeftovers;
pub use tcp_relay::TcpRelay;
pub use test_cluster::{
    ClusterNode, ClusterProcess, ETCD, ETCD_PEER, FormationMethod, HTTP, JudicatorList, MONGOD,
    NodeStatusJson, RPC, SERVICE, ServiceStatusJson, TestCluster,
};
pub use test_system::{TestSystem, shell};
pub use veth_network::VethNetwork;
pub use virtual_lan::{LanHost, VirtualLan};
pub use wait_until::wait_until;
