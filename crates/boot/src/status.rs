//! The status of a node: boot writes it at every change, `conclave status` reads it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::process::ProcessIdentity;
use crate::run_folder::RunFolder;
use crate::{NodeError, lock};

/// The status of a node and its services: the content of `status.json`, which `conclave status` reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The process of boot; `None` if it does not run.
    pub pid: Option<u32>,
    /// When this boot started.
    pub since: Timestamp,
    /// `judicator`, `executor` or `gateway`; `up` for a single process.
    pub kind: String,
    pub name: String,
    /// The version of the running program.
    #[serde(default)]
    pub version: String,
    /// The boot id of the kernel that all pids belong to.
    #[serde(rename = "machine")]
    pub kernel_boot_id: String,
    /// The addresses of a single process, by protocol. Services of other nodes log theirs.
    #[serde(default)]
    pub addresses: BTreeMap<String, String>,
    /// Empty if the node is a single process.
    pub services: Vec<ServiceStatus>,
}

/// The status of one service of a node in `status.json`: state, processes, restarts and last exit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    pub name: String,
    pub state: ServiceState,
    /// The process that boot started.
    pub pid: Option<u32>,
    /// When that process started, in clock ticks since the kernel booted; identifies it if its pid is reused.
    #[serde(rename = "pid_began")]
    pub pid_start_time: Option<u64>,
    /// The process of the wrapped program, if the service is a wrapper (etcd, mongod).
    pub server_pid: Option<u32>,
    #[serde(rename = "server_began")]
    pub server_start_time: Option<u64>,
    /// Since when the service is in this state; for a held service that runs, since when it runs.
    pub since: Timestamp,
    /// How often this boot has restarted the service.
    pub restarts: u64,
    /// How the last process of the service exited.
    pub last_exit: Option<String>,
    /// What the service is doing or waiting for.
    pub doing: Option<String>,
}

/// The state of a service that boot supervises, such as starting or running, as `conclave status` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// The service that this one needs is not ready yet.
    Waiting,
    /// The process runs, and the service is not ready yet.
    Starting,
    Running,
    /// The service keeps exiting, and boot waits before the next restart.
    BackingOff,
    /// An operator holds the service: boot does not start it. It may still run.
    Held,
    Stopping,
    Stopped,
}

impl ServiceState {
    pub fn as_str(self) -> &'static str {
        match self {
            ServiceState::Waiting => "waiting",
            ServiceState::Starting => "starting",
            ServiceState::Running => "running",
            ServiceState::BackingOff => "backing off",
            ServiceState::Held => "held",
            ServiceState::Stopping => "stopping",
            ServiceState::Stopped => "stopped",
        }
    }
}

impl NodeStatus {
    /// Reads the status file and corrects it: processes that have exited are removed, and without boot no service counts as
    /// running.
    pub fn read(run: &Path) -> Result<NodeStatus, NodeError> {
        let folder = RunFolder::new(run);
        let path = folder.status_file();
        let boot = lock::running_boot(&folder).map_err(NodeError::at("lock", &folder.boot_pid_file()))?;
        let text = fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => NodeError::NoNode {
                run: run.to_path_buf(),
            },
            _ => NodeError::at("read", &path)(source),
        })?;
        let written: NodeStatus =
            serde_json::from_slice(&text).map_err(|source| NodeError::Unreadable { path, source })?;
        Ok(written.checked_against_processes(boot.map(|boot| boot.pid), |identity| identity.is_alive()))
    }

    /// Whether the node is a single process without services.
    pub fn is_single(&self) -> bool {
        self.services.is_empty()
    }

    /// The service with this name, or an error that lists the services.
    pub(crate) fn find_service(&self, name: &str) -> Result<&ServiceStatus, NodeError> {
        if self.is_single() {
            return Err(NodeError::SingleProcess {
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

    fn checked_against_processes(
        mut self,
        boot: Option<u32>,
        is_alive: impl Fn(&ProcessIdentity) -> bool,
    ) -> NodeStatus {
        let alive = |pid: Option<u32>, began: Option<u64>| {
            let identity = ProcessIdentity {
                pid: pid?,
                start_time: began?,
                kernel_boot_id: self.kernel_boot_id.clone(),
            };
            is_alive(&identity).then_some((identity.pid, identity.start_time))
        };
        // Another boot has started and has not written its status yet.
        let outdated = boot.is_some() && boot != self.pid;
        for service in &mut self.services {
            (service.pid, service.pid_start_time) = alive(service.pid, service.pid_start_time).unzip();
            (service.server_pid, service.server_start_time) =
                alive(service.server_pid, service.server_start_time).unzip();
            service.state = match (boot, service.pid) {
                _ if outdated => ServiceState::Waiting,
                (Some(_), _) => service.state,
                // Boot was killed, so the service is about to exit.
                (None, Some(_)) => ServiceState::Stopping,
                (None, None) => ServiceState::Stopped,
            };
        }
        self.pid = boot;
        self
    }

    /// Replaces the file atomically.
    pub(crate) fn write(&self, folder: &RunFolder) -> io::Result<()> {
        let path = folder.status_file();
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

    fn service(state: ServiceState, pid: Option<u32>, server: Option<u32>) -> ServiceStatus {
        ServiceStatus {
            name: "etcd".into(),
            state,
            pid,
            pid_start_time: pid.map(u64::from),
            server_pid: server,
            server_start_time: server.map(u64::from),
            since: Timestamp::UNIX_EPOCH,
            restarts: 0,
            last_exit: None,
            doing: None,
        }
    }

    fn node(service: ServiceStatus) -> NodeStatus {
        NodeStatus {
            pid: Some(100),
            since: Timestamp::UNIX_EPOCH,
            kind: "judicator".into(),
            name: "a".into(),
            version: String::new(),
            addresses: BTreeMap::new(),
            kernel_boot_id: "m".into(),
            services: vec![service],
        }
    }

    #[test]
    fn the_written_status_is_corrected_by_the_processes_that_exist() {
        fn check(boot: Option<u32>, alive: &[u32], expected: (ServiceState, Option<u32>, Option<u32>)) {
            let read = node(service(ServiceState::Running, Some(1), Some(2)))
                .checked_against_processes(boot, |identity| alive.contains(&identity.pid));
            let service = &read.services[0];
            assert_eq!(read.pid, boot);
            assert_eq!(
                (service.state, service.pid, service.server_pid),
                expected,
                "{boot:?} {alive:?}"
            );
        }
        check(Some(100), &[1, 2], (ServiceState::Running, Some(1), Some(2)));
        check(Some(100), &[1], (ServiceState::Running, Some(1), None));
        check(None, &[1, 2], (ServiceState::Stopping, Some(1), Some(2)));
        check(None, &[2], (ServiceState::Stopped, None, Some(2)));
        check(None, &[], (ServiceState::Stopped, None, None));
        check(Some(101), &[1], (ServiceState::Waiting, Some(1), None));
    }

    #[test]
    fn the_status_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let status = node(service(ServiceState::BackingOff, Some(1), None));
        status.write(&RunFolder::new(folder.path())).unwrap();
        let text = fs::read_to_string(folder.path().join("status.json")).unwrap();
        assert!(text.contains("\"state\": \"backing_off\""), "{text}");
        assert!(text.contains("\"since\": \"1970-01-01T00:00:00Z\""), "{text}");
        assert_eq!(serde_json::from_str::<NodeStatus>(&text).unwrap(), status);
        // No boot runs here, and there is no process 1 with such a kernel boot id.
        let read = NodeStatus::read(folder.path()).unwrap();
        assert_eq!((read.pid, read.services[0].state), (None, ServiceState::Stopped));
    }

    #[test]
    fn a_folder_without_a_valid_status_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = NodeStatus::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("no node was started in"), "{error}");
        fs::write(folder.path().join("status.json"), "{}").unwrap();
        let error = NodeStatus::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("status.json"), "{error}");
    }
}
