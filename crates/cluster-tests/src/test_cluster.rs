//! A cluster of real processes: each node on its own virtual host, with boot, etcd and MongoDB.

mod cluster_node;
mod conditions;
mod formation;
mod judicator_list;
mod mongod;
mod status;

use std::path::{Path, PathBuf};

use api::HttpClient;
use tempfile::TempDir;

use crate::test_system::free_port;
use crate::{DnsServer, GatewayClients, NodeProcess, RunHistory, VirtualLan, conclave};

pub use cluster_node::{ClusterNode, ClusterProcess};
pub use formation::FormationMethod;
pub use judicator_list::JudicatorList;
pub use status::{NodeStatusJson, ServiceStatusJson};

/// The DNS name under which judicators discover each other.
pub const SERVICE: &str = "judicators";
pub const RPC: u16 = 7010;
pub const HTTP: u16 = 7000;
pub const ETCD: u16 = 2379;
pub const ETCD_PEER: u16 = 2380;
pub const MONGOD: u16 = 27017;

/// A cluster of real `conclave` processes under test, with each node on its own virtual host. All its processes are
/// killed, and its files removed, when it is dropped.
pub struct TestCluster {
    nodes: Vec<ClusterNode>,
    /// A gateway outside of the cluster that is given the addresses of judicators. The test observes the cluster through it.
    observer: Option<NodeProcess>,
    observer_address: String,
    dns: Option<DnsServer>,
    has_clocks: bool,
    pub history: RunHistory,
    lan: VirtualLan,
    folder: TempDir,
}

impl TestCluster {
    /// A network without nodes.
    pub fn new() -> TestCluster {
        let beside = conclave();
        let folder = TempDir::new_in(beside.parent().unwrap_or(Path::new("."))).expect("a folder");
        let cluster = TestCluster {
            nodes: Vec::new(),
            observer: None,
            observer_address: format!("127.0.0.1:{}", free_port().expect("a port")),
            dns: None,
            has_clocks: false,
            history: RunHistory::new(folder.path()),
            lan: VirtualLan::create(),
            folder,
        };
        std::fs::write(cluster.secret(), "correct-horse-battery-staple\n").expect("a secret");
        let guarded = format!("[secrets]\ncluster_file = \"{}\"\n", cluster.secret().display());
        cluster.write_config(&guarded);
        cluster
    }

    /// Disables authentication, so that the test can read etcd.
    pub fn without_secret(self) -> TestCluster {
        self.write_config("[node]\ninsecure = true\n");
        self
    }

    /// A cluster of judicators only, formed by a static list of members.
    pub async fn of(judicators: usize) -> TestCluster {
        let mut cluster = TestCluster::new();
        cluster.form(FormationMethod::Members, judicators);
        cluster.wait_until_complete(judicators).await;
        cluster
    }

    /// A cluster with judicators, two executors and a gateway.
    pub async fn with_executors_and_gateway(judicators: usize) -> TestCluster {
        let mut cluster = TestCluster::new();
        cluster.form(FormationMethod::Members, judicators);
        // Executors and gateways wait until the cluster has formed.
        ["e1", "e2"].iter().for_each(|name| cluster.add_executor(name));
        cluster.add_gateway("g1");
        cluster.wait_until_complete(judicators).await;
        cluster.wait_for_executors(2).await;
        cluster
    }

    /// Writes the configuration of all nodes. Leases are short, so that failures are detected soon; shorter ones would
    /// expire on a busy machine. `attempts` is high, because a task may be lost at every fault of a test.
    fn write_config(&self, who_may: &str) {
        let text = format!(
            "[judicator]\nlease = \"4s\"\ngrace = \"500ms\"\nattempts = 100\n\n\
             [executor]\nself_kill = \"2500ms\"\nheartbeat = \"400ms\"\nstop_grace = \"1s\"\nisolation = \"none\"\n\n\
             [mongodb]\nprogram = \"{}\"\ncache = \"256MiB\"\n\n\
             [boot]\nrestart_most = \"2s\"\n\n{who_may}",
            mongod::find().display()
        );
        std::fs::write(self.config(), text).expect("a config");
    }

    /// An address of the network that no host has.
    pub fn unused_address(&self, port: u16) -> String {
        format!("{}:{port}", self.lan.unused_address())
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn secret(&self) -> PathBuf {
        self.folder().join("secret")
    }

    pub fn config(&self) -> PathBuf {
        self.folder().join("node.toml")
    }

    pub fn node(&self, name: &str) -> &ClusterNode {
        let found = self.nodes.iter().find(|node| node.name() == name);
        found.unwrap_or_else(|| panic!("no node {name}"))
    }

    pub fn node_mut(&mut self, name: &str) -> &mut ClusterNode {
        let found = self.nodes.iter_mut().find(|node| node.name() == name);
        found.unwrap_or_else(|| panic!("no node {name}"))
    }

    /// All nodes but this one.
    pub fn others(&self, name: &str) -> impl Iterator<Item = &ClusterNode> {
        self.nodes.iter().filter(move |node| node.name() != name)
    }

    /// Removes a node and its host.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.retain(|node| node.name() != name);
    }

    fn judicator_nodes(&self) -> impl Iterator<Item = &ClusterNode> {
        self.nodes.iter().filter(|node| node.name().starts_with('j'))
    }

    fn etcd_addresses(&self) -> String {
        let addresses: Vec<_> = self.judicator_nodes().map(|node| node.address_of(ETCD)).collect();
        addresses.join(",")
    }

    /// Starts the observer with the addresses of all current judicators.
    pub fn start_observer(&mut self) {
        let rpc: Vec<_> = self.judicator_nodes().map(|node| node.address_of(RPC)).collect();
        let rpc: Vec<_> = rpc.iter().map(String::as_str).collect();
        self.observer = None;
        self.observer = Some(self.plain_gateway("observer", &self.observer_address, &rpc));
    }

    /// A gateway that is given the addresses of judicators and runs no etcd.
    pub fn plain_gateway(&self, name: &str, listen: &str, judicators: &[&str]) -> NodeProcess {
        let config = self.config().display().to_string();
        let data = self.folder().join(name).display().to_string();
        let mut args = vec![
            "gateway", "--listen", listen, "--config", &config, "--data", &data,
        ];
        judicators
            .iter()
            .for_each(|address| args.extend(["--judicator", address]));
        NodeProcess::start(name, self.folder(), &args).expect("a gateway")
    }

    /// An executor that is given the addresses of judicators and runs no etcd.
    pub fn plain_executor(&self, name: &str, judicators: &[&str]) -> NodeProcess {
        self.plain_executor_of(&conclave(), name, judicators)
    }

    /// As `plain_executor`, of this binary.
    pub fn plain_executor_of(&self, program: &Path, name: &str, judicators: &[&str]) -> NodeProcess {
        let config = self.config().display().to_string();
        let data = self.folder().join(name).display().to_string();
        let mut args = vec!["executor", "--name", name, "--config", &config, "--data", &data];
        // Otherwise an executor without cells does not take tasks of the newest form.
        args.push("--judge-without-cells");
        judicators
            .iter()
            .for_each(|address| args.extend(["--judicator", address]));
        let mut command = std::process::Command::new(program);
        command.args(args);
        NodeProcess::launch(name, self.folder(), command).expect("an executor")
    }

    /// An HTTP client of the observer.
    pub fn client(&self) -> HttpClient {
        HttpClient::new(&self.observer_address, None).expect("an address")
    }

    /// Clients of every gateway of the cluster and of the observer.
    pub fn gateways(&self) -> GatewayClients {
        let gateways = self.nodes.iter().filter(|node| node.name().starts_with('g'));
        let mut addresses: Vec<_> = gateways.map(|node| node.address_of(HTTP)).collect();
        addresses.push(self.observer_address.clone());
        GatewayClients::at(&addresses)
    }
}

impl Default for TestCluster {
    fn default() -> TestCluster {
        TestCluster::new()
    }
}
