//! Creates and starts the nodes of a cluster.

use super::{ClusterNode, ETCD, ETCD_PEER, HTTP, RPC, SERVICE, TestCluster};
use crate::DnsServer;

/// How the first judicators of a cluster under test form the cluster: join, static members or DNS discovery.
#[derive(Clone, Copy, Debug)]
pub enum FormationMethod {
    /// The first bootstraps, the others join it (`--first`, `--join`).
    Join,
    /// All start at once with a static list of members (`--members`).
    Members,
    /// All start at once and discover each other by DNS (`--discover`). The DNS server answers for this name.
    Discover(&'static str),
}

impl TestCluster {
    /// Starts judicators j1, j2 and so on.
    pub fn form(&mut self, method: FormationMethod, count: usize) {
        let names: Vec<_> = (1..=count).map(|number| format!("j{number}")).collect();
        for name in &names {
            self.add_judicator(name);
        }
        let members: Vec<_> = names
            .iter()
            .map(|name| format!("{name}={}", self.node(name).address_of(ETCD_PEER)))
            .collect();
        if let FormationMethod::Discover(answered) = method {
            self.answer_dns_with(answered, &names);
        }
        for (number, name) in names.iter().enumerate() {
            let joining: Vec<String> = match method {
                FormationMethod::Join if number == 0 => vec!["--first".into()],
                FormationMethod::Join => vec!["--join".into(), self.node("j1").address_of(ETCD)],
                FormationMethod::Members => vec!["--members".into(), members.join(",")],
                FormationMethod::Discover(_) => ["--discover", SERVICE, "--bootstrap-expect", "3"]
                    .map(String::from)
                    .into(),
            };
            self.start_judicator(name, &joining);
        }
        self.start_observer();
    }

    /// Makes the DNS server resolve the name to these nodes only.
    pub fn answer_dns_with(&mut self, service: &str, names: &[String]) {
        let addresses: Vec<_> = names.iter().map(|name| self.node(name).address()).collect();
        let dns = self.dns.as_ref().expect("with_dns was called");
        dns.answer(service, &addresses);
    }

    /// Starts a DNS server, which later nodes use.
    pub fn with_dns(mut self) -> TestCluster {
        self.dns = Some(DnsServer::start(self.lan.host(), self.folder.path()));
        self
    }

    /// Gives each later node a clock that the test can set.
    pub fn with_clocks(mut self) -> TestCluster {
        self.has_clocks = true;
        self
    }

    /// Creates the node and its host without starting it.
    pub fn add_judicator(&mut self, name: &str) {
        let node = self.new_node(name);
        self.nodes.push(node);
    }

    pub fn start_judicator(&mut self, name: &str, joining: &[String]) {
        let node = self.node(name);
        let mut args = self.common_args("judicator", node);
        args.extend(["--listen".to_string(), node.address_of(RPC)]);
        args.extend_from_slice(joining);
        let node = self.node_mut(name);
        node.set_args(args);
        node.start();
    }

    /// Adds a judicator that joins through the current ones.
    pub fn join_judicator(&mut self, name: &str) {
        let joining = ["--join".to_string(), self.etcd_addresses()];
        self.add_judicator(name);
        self.start_judicator(name, &joining);
    }

    pub fn add_executor(&mut self, name: &str) {
        self.add_executor_by(name, &["--join", &self.etcd_addresses()]);
    }

    pub fn add_executor_by(&mut self, name: &str, joining: &[&str]) {
        let mut node = self.new_node(name);
        let mut args = self.common_args("executor", &node);
        let own = ["--slots", "2"];
        args.extend(own.iter().chain(joining).map(ToString::to_string));
        node.set_args(args);
        node.start();
        self.nodes.push(node);
    }

    pub fn add_gateway(&mut self, name: &str) {
        self.add_gateway_by(name, &["--join", &self.etcd_addresses()]);
    }

    pub fn add_gateway_by(&mut self, name: &str, joining: &[&str]) {
        let mut node = self.new_node(name);
        let mut args = self.common_args("gateway", &node);
        // The test has no token.
        let own = ["--listen", &node.address_of(HTTP), "--insecure"];
        args.extend(own.iter().chain(joining).map(ToString::to_string));
        node.set_args(args);
        node.start();
        self.nodes.push(node);
    }

    fn new_node(&self, name: &str) -> ClusterNode {
        assert!(self.nodes.iter().all(|node| node.name() != name));
        let resolver = self.dns.as_ref().map(|dns| dns.resolver().to_path_buf());
        let node = ClusterNode::new(name, self.lan.host(), self.folder.path(), resolver);
        match self.has_clocks {
            true => node.with_clock(),
            false => node,
        }
    }

    fn common_args(&self, verb: &str, node: &ClusterNode) -> Vec<String> {
        let config = self.config().display().to_string();
        let (name, address) = (node.name(), node.address());
        let args = [verb, "--cluster", "--config", &config];
        let own = ["--name", name, "--address", address];
        [args, own].concat().into_iter().map(String::from).collect()
    }
}
