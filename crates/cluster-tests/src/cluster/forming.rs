//! How nodes are made and started.

use super::{Cluster, ETCD, ETCD_PEER, HTTP, Machine, RPC, SERVICE};
use crate::Dns;

/// How the first judicators come together.
#[derive(Clone, Copy, Debug)]
pub enum Forming {
    /// One begins, the others join it.
    Join,
    /// All of them are told who they are, and begin at the same moment.
    Members,
    /// All of them begin at the same moment and find each other by the service name, for which the name server
    /// answers under this name.
    Discover(&'static str),
}

impl Cluster {
    /// Starts judicators j1, j2 and so on.
    pub fn form(&mut self, forming: Forming, count: usize) {
        let names: Vec<_> = (1..=count).map(|number| format!("j{number}")).collect();
        for name in &names {
            self.add_judicator(name);
        }
        let members: Vec<_> = names
            .iter()
            .map(|name| format!("{name}={}", self.machine(name).at(ETCD_PEER)))
            .collect();
        if let Forming::Discover(answered) = forming {
            self.discoverable(answered, &names);
        }
        for (number, name) in names.iter().enumerate() {
            let joining: Vec<String> = match forming {
                Forming::Join if number == 0 => vec!["--first".into()],
                Forming::Join => vec!["--join".into(), self.machine("j1").at(ETCD)],
                Forming::Members => vec!["--members".into(), members.join(",")],
                Forming::Discover(_) => ["--discover", SERVICE, "--bootstrap-expect", "3"]
                    .map(String::from)
                    .into(),
            };
            self.start_judicator(name, &joining);
        }
        self.observe();
    }

    /// From now on the name leads to these nodes and no others.
    pub fn discoverable(&mut self, service: &str, names: &[String]) {
        let addresses: Vec<_> = names.iter().map(|name| self.machine(name).address()).collect();
        let dns = self.dns.as_ref().expect("name service, which is asked for first");
        dns.answer(service, &addresses);
    }

    /// Nodes that are made from now on ask this name server.
    pub fn with_names(mut self) -> Cluster {
        self.dns = Some(Dns::start(self.lan.host(), self.folder.path()));
        self
    }

    /// Nodes that are made from now on have a clock each, which the test may set.
    pub fn with_clocks(mut self) -> Cluster {
        self.has_clocks = true;
        self
    }

    /// A host for it; nothing is started.
    pub fn add_judicator(&mut self, name: &str) {
        let machine = self.new_machine(name);
        self.machines.push(machine);
    }

    pub fn start_judicator(&mut self, name: &str, joining: &[String]) {
        let machine = self.machine(name);
        let mut args = self.common_args("judicator", machine);
        args.extend(["--listen".to_string(), machine.at(RPC)]);
        args.extend_from_slice(joining);
        let machine = self.machine_mut(name);
        machine.set_args(args);
        machine.start();
    }

    /// One more judicator, that joins through those that are there.
    pub fn join_judicator(&mut self, name: &str) {
        let joining = ["--join".to_string(), self.etcd_addresses()];
        self.add_judicator(name);
        self.start_judicator(name, &joining);
    }

    pub fn add_executor(&mut self, name: &str) {
        self.add_executor_by(name, &["--join", &self.etcd_addresses()]);
    }

    pub fn add_executor_by(&mut self, name: &str, joining: &[&str]) {
        let mut machine = self.new_machine(name);
        let mut args = self.common_args("executor", &machine);
        let own = ["--slots", "2"];
        args.extend(own.iter().chain(joining).map(ToString::to_string));
        machine.set_args(args);
        machine.start();
        self.machines.push(machine);
    }

    pub fn add_gateway(&mut self, name: &str) {
        self.add_gateway_by(name, &["--join", &self.etcd_addresses()]);
    }

    pub fn add_gateway_by(&mut self, name: &str, joining: &[&str]) {
        let mut machine = self.new_machine(name);
        let mut args = self.common_args("gateway", &machine);
        // The test has no token to show.
        let own = ["--listen", &machine.at(HTTP), "--insecure"];
        args.extend(own.iter().chain(joining).map(ToString::to_string));
        machine.set_args(args);
        machine.start();
        self.machines.push(machine);
    }

    fn new_machine(&self, name: &str) -> Machine {
        assert!(self.machines.iter().all(|machine| machine.name() != name));
        let resolver = self.dns.as_ref().map(|dns| dns.resolver().to_path_buf());
        let machine = Machine::new(name, self.lan.host(), self.folder.path(), resolver);
        match self.has_clocks {
            true => machine.with_clock(),
            false => machine,
        }
    }

    fn common_args(&self, verb: &str, machine: &Machine) -> Vec<String> {
        let config = self.config().display().to_string();
        let (name, address) = (machine.name(), machine.address());
        let args = [verb, "--cluster", "--config", &config];
        let own = ["--name", name, "--address", address];
        [args, own].concat().into_iter().map(String::from).collect()
    }
}
