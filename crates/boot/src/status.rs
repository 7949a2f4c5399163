//! How a node is: written by boot at every change, read by whoever asks.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::folder::Folder;
use crate::process::Identity;
use crate::{NodeError, lock};

/// A node, as `status.json` has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Boot itself. `None` if none runs.
    pub pid: Option<u32>,
    /// Since when this boot runs, or ran.
    pub since: Timestamp,
    /// Judicator, executor or gateway; or `up`, which is one process.
    pub kind: String,
    pub name: String,
    /// Of the program that runs.
    #[serde(default)]
    pub version: String,
    /// The run of the machine that all process numbers belong to.
    pub machine: String,
    /// Where a single process serves, by protocol. The services of other nodes say it in their logs.
    #[serde(default)]
    pub addresses: BTreeMap<String, String>,
    /// None where the node is a single process.
    pub services: Vec<ServiceStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    pub name: String,
    pub state: State,
    /// The process that boot started.
    pub pid: Option<u32>,
    /// When that process began, in the machine's own count; it tells it from a later one with its number.
    pub pid_began: Option<u64>,
    /// The process that does the work, where the service is a wrapper around another program.
    pub server_pid: Option<u32>,
    pub server_began: Option<u64>,
    /// Since when it is in this state; for a held service that runs, since when it runs.
    pub since: Timestamp,
    /// How often this boot has started it again.
    pub restarts: u64,
    /// How it ended last.
    pub last_exit: Option<String>,
    /// What it does or waits for, in words.
    pub doing: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The service it needs is not ready yet.
    Waiting,
    /// It is there, and has not said yet that it serves.
    Starting,
    Running,
    /// It keeps dying, and rests before it is started again.
    BackingOff,
    /// An operator has it: it is left alone. It may still run.
    Held,
    Stopping,
    Stopped,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Starting => "starting",
            State::Running => "running",
            State::BackingOff => "backing off",
            State::Held => "held",
            State::Stopping => "stopping",
            State::Stopped => "stopped",
        }
    }
}

impl Status {
    /// As boot wrote it, and then held against what is really there: processes that are gone are not named, and
    /// without boot no service is said to be kept alive.
    pub fn read(run: &Path) -> Result<Status, NodeError> {
        let folder = Folder::new(run);
        let path = folder.status();
        let boot = lock::holder(&folder).map_err(NodeError::at("look at", &folder.boot_pid()))?;
        let text = fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => NodeError::NoNode {
                run: run.to_path_buf(),
            },
            _ => NodeError::at("read", &path)(source),
        })?;
        let written: Status =
            serde_json::from_slice(&text).map_err(|source| NodeError::Unreadable { path, source })?;
        Ok(written.held_against(boot.map(|boot| boot.pid), |identity| identity.is_alive()))
    }

    /// Whether the node is one process, and no boot with its services.
    pub fn is_single(&self) -> bool {
        self.services.is_empty()
    }

    /// The service of this name, or the error that names those there are.
    pub(crate) fn find(&self, name: &str) -> Result<&ServiceStatus, NodeError> {
        if self.is_single() {
            return Err(NodeError::Single {
                kind: self.kind.clone(),
            });
        }
        self.services
            .iter()
            .find(|service| service.name == name)
            .ok_or_else(|| NodeError::UnknownService {
                name: name.to_string(),
                known: self
                    .services
                    .iter()
                    .map(|service| service.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }

    fn held_against(mut self, boot: Option<u32>, is_alive: impl Fn(&Identity) -> bool) -> Status {
        let alive = |pid: Option<u32>, began: Option<u64>| {
            let identity = Identity {
                pid: pid?,
                started: began?,
                machine: self.machine.clone(),
            };
            is_alive(&identity).then_some((identity.pid, identity.started))
        };
        // Another boot than the one that wrote this has not got to writing yet.
        let outdated = boot.is_some() && boot != self.pid;
        for service in &mut self.services {
            (service.pid, service.pid_began) = alive(service.pid, service.pid_began).unzip();
            (service.server_pid, service.server_began) =
                alive(service.server_pid, service.server_began).unzip();
            service.state = match (boot, service.pid) {
                _ if outdated => State::Waiting,
                (Some(_), _) => service.state,
                // Its boot was killed. It will end by itself.
                (None, Some(_)) => State::Stopping,
                (None, None) => State::Stopped,
            };
        }
        self.pid = boot;
        self
    }

    /// Whole or not at all, whoever reads meanwhile.
    pub(crate) fn write(&self, folder: &Folder) -> io::Result<()> {
        let path = folder.status();
        let new = path.with_extension("json.new");
        let mut file = fs::File::create(&new)?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        fs::rename(&new, &path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(state: State, pid: Option<u32>, server: Option<u32>) -> ServiceStatus {
        ServiceStatus {
            name: "etcd".into(),
            state,
            pid,
            pid_began: pid.map(u64::from),
            server_pid: server,
            server_began: server.map(u64::from),
            since: Timestamp::UNIX_EPOCH,
            restarts: 0,
            last_exit: None,
            doing: None,
        }
    }

    fn node(service: ServiceStatus) -> Status {
        Status {
            pid: Some(100),
            since: Timestamp::UNIX_EPOCH,
            kind: "judicator".into(),
            name: "a".into(),
            version: String::new(),
            addresses: BTreeMap::new(),
            machine: "m".into(),
            services: vec![service],
        }
    }

    #[test]
    fn what_was_written_is_held_against_what_is_there() {
        fn check(boot: Option<u32>, alive: &[u32], expected: (State, Option<u32>, Option<u32>)) {
            let seen = node(service(State::Running, Some(1), Some(2)))
                .held_against(boot, |identity| alive.contains(&identity.pid));
            let service = &seen.services[0];
            assert_eq!(seen.pid, boot);
            assert_eq!(
                (service.state, service.pid, service.server_pid),
                expected,
                "{boot:?} {alive:?}"
            );
        }
        check(Some(100), &[1, 2], (State::Running, Some(1), Some(2)));
        check(Some(100), &[1], (State::Running, Some(1), None));
        check(None, &[1, 2], (State::Stopping, Some(1), Some(2)));
        check(None, &[2], (State::Stopped, None, Some(2)));
        check(None, &[], (State::Stopped, None, None));
        check(Some(101), &[1], (State::Waiting, Some(1), None));
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let status = node(service(State::BackingOff, Some(1), None));
        status.write(&Folder::new(folder.path())).unwrap();
        let text = fs::read_to_string(folder.path().join("status.json")).unwrap();
        assert!(text.contains("\"state\": \"backing_off\""), "{text}");
        assert!(text.contains("\"since\": \"1970-01-01T00:00:00Z\""), "{text}");
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
        // Nobody runs here, and no process 1 of such a machine.
        let seen = Status::read(folder.path()).unwrap();
        assert_eq!((seen.pid, seen.services[0].state), (None, State::Stopped));
    }

    #[test]
    fn what_is_no_node_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let wrong = Status::read(folder.path()).unwrap_err().to_string();
        assert!(wrong.contains("no node was started in"), "{wrong}");
        fs::write(folder.path().join("status.json"), "{}").unwrap();
        let wrong = Status::read(folder.path()).unwrap_err().to_string();
        assert!(wrong.contains("status.json"), "{wrong}");
    }
}
