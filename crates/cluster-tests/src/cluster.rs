//! A cluster of real processes: every node on a host of its own, with etcd, MongoDB and boot.

mod forming;
mod look;
mod machine;
mod mongod;
mod roster;
mod status;

use std::path::{Path, PathBuf};

use api::Client;
use tempfile::TempDir;

use crate::system::free_port;
use crate::{Dns, Gateways, History, Lan, Node, conclave};

pub use forming::Forming;
pub use machine::{Machine, Process};
pub use roster::Roster;
pub use status::{Service, Status};

/// The service name under which nodes find each other, where they do so by name.
pub const SERVICE: &str = "judicators";
pub const RPC: u16 = 7010;
pub const HTTP: u16 = 7000;
pub const ETCD: u16 = 2379;
pub const ETCD_PEER: u16 = 2380;
pub const MONGOD: u16 = 27017;

/// Everything is killed and removed when it is dropped.
pub struct Cluster {
    machines: Vec<Machine>,
    /// A gateway beside the cluster, given plain addresses. Through it the test looks at the cluster.
    observer: Option<Node>,
    observer_address: String,
    dns: Option<Dns>,
    has_clocks: bool,
    pub history: History,
    lan: Lan,
    folder: TempDir,
}

impl Cluster {
    /// A network and nobody on it.
    pub fn new() -> Cluster {
        let beside = conclave();
        let folder = TempDir::new_in(beside.parent().unwrap_or(Path::new("."))).expect("a folder");
        let cluster = Cluster {
            machines: Vec::new(),
            observer: None,
            observer_address: format!("127.0.0.1:{}", free_port().expect("a port")),
            dns: None,
            has_clocks: false,
            history: History::new(folder.path()),
            lan: Lan::make(),
            folder,
        };
        std::fs::write(cluster.secret(), "correct-horse-battery-staple\n").expect("a secret");
        let guarded = format!("[secrets]\ncluster_file = \"{}\"\n", cluster.secret().display());
        cluster.write_config(&guarded);
        cluster
    }

    /// Everyone may do everything, and the test may look into etcd.
    pub fn without_secret(self) -> Cluster {
        self.write_config("[node]\ninsecure = true\n");
        self
    }

    /// So many judicators, formed in the quickest way, and nothing else.
    pub async fn of(judicators: usize) -> Cluster {
        let mut cluster = Cluster::new();
        cluster.form(Forming::Members, judicators);
        cluster.whole(judicators).await;
        cluster
    }

    /// With two executors and a gateway besides.
    pub async fn at_work(judicators: usize) -> Cluster {
        let mut cluster = Cluster::new();
        cluster.form(Forming::Members, judicators);
        // They wait by themselves until there is a cluster.
        ["e1", "e2"].iter().for_each(|name| cluster.add_executor(name));
        cluster.add_gateway("g1");
        cluster.whole(judicators).await;
        cluster.working(2).await;
        cluster
    }

    /// What all nodes are told. Leases are short, so that a silence is believed soon; not shorter, or a busy machine
    /// could fall silent by itself. A task may be in hand at every fault; how many it bears is another test's matter.
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

    /// An address of this network that nobody has.
    pub fn nobody_at(&self, port: u16) -> String {
        format!("{}:{port}", self.lan.nobody())
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

    pub fn machine(&self, name: &str) -> &Machine {
        let found = self.machines.iter().find(|machine| machine.name() == name);
        found.unwrap_or_else(|| panic!("no node {name}"))
    }

    pub fn machine_mut(&mut self, name: &str) -> &mut Machine {
        let found = self.machines.iter_mut().find(|machine| machine.name() == name);
        found.unwrap_or_else(|| panic!("no node {name}"))
    }

    /// All but this one.
    pub fn others(&self, name: &str) -> impl Iterator<Item = &Machine> {
        self.machines.iter().filter(move |machine| machine.name() != name)
    }

    /// The node is no more; its host goes too.
    pub fn discard(&mut self, name: &str) {
        self.machines.retain(|machine| machine.name() != name);
    }

    fn judicators(&self) -> impl Iterator<Item = &Machine> {
        self.machines
            .iter()
            .filter(|machine| machine.name().starts_with('j'))
    }

    fn etcd_addresses(&self) -> String {
        let addresses: Vec<_> = self.judicators().map(|machine| machine.at(ETCD)).collect();
        addresses.join(",")
    }

    /// The observer looks through whoever answers of the judicators that there are now.
    pub fn observe(&mut self) {
        let rpc: Vec<_> = self.judicators().map(|machine| machine.at(RPC)).collect();
        let rpc: Vec<_> = rpc.iter().map(String::as_str).collect();
        self.observer = None;
        self.observer = Some(self.plain_gateway("observer", &self.observer_address, &rpc));
    }

    /// A gateway as a process of its own, given addresses of judicators and no etcd.
    pub fn plain_gateway(&self, name: &str, listen: &str, judicators: &[&str]) -> Node {
        let config = self.config().display().to_string();
        let data = self.folder().join(name).display().to_string();
        let mut args = vec![
            "gateway", "--listen", listen, "--config", &config, "--data", &data,
        ];
        judicators
            .iter()
            .for_each(|address| args.extend(["--judicator", address]));
        Node::start(name, self.folder(), &args).expect("a gateway")
    }

    /// An executor as a process of its own, given addresses of judicators and no etcd.
    pub fn plain_executor(&self, name: &str, judicators: &[&str]) -> Node {
        let config = self.config().display().to_string();
        let data = self.folder().join(name).display().to_string();
        let mut args = vec!["executor", "--name", name, "--config", &config, "--data", &data];
        judicators
            .iter()
            .for_each(|address| args.extend(["--judicator", address]));
        Node::start(name, self.folder(), &args).expect("an executor")
    }

    /// A client of the observer.
    pub fn client(&self) -> Client {
        Client::new(&self.observer_address, None).expect("an address")
    }

    /// Every gateway of the cluster, and the observer.
    pub fn gateways(&self) -> Gateways {
        let gateways = self
            .machines
            .iter()
            .filter(|machine| machine.name().starts_with('g'));
        let mut addresses: Vec<_> = gateways.map(|machine| machine.at(HTTP)).collect();
        addresses.push(self.observer_address.clone());
        Gateways::at(&addresses)
    }
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster::new()
    }
}
