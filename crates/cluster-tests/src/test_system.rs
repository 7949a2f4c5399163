//! A system on one machine: `conclave up`, or judicator, executor and gateway as separate processes.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Result;
use api::{HttpClient, NewTask, Task};
use model::TaskId;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::resource_claim::ResourceClaim;
use crate::{Gate, NodeProcess, TaskLeftovers, conclave, wait_until};

/// Long, because the machine may be busy with other tests. Nothing here measures speed.
const SERVES: Duration = Duration::from_secs(30);
pub(crate) const DONE: Duration = Duration::from_secs(60);

/// A system on one machine for a test: a data folder, and addresses for its `conclave` processes.
pub struct TestSystem {
    pub folder: TempDir,
    http: String,
    rpc: String,
    pub client: HttpClient,
}

impl TestSystem {
    /// An empty folder and free ports.
    pub fn new() -> Result<TestSystem> {
        // In the target folder instead of /tmp, which may be a tmpfs: stores sync to a disk, as in production.
        let beside = conclave();
        let folder = TempDir::new_in(beside.parent().unwrap_or(Path::new(".")))?;
        let http = format!("127.0.0.1:{}", free_port()?);
        let rpc = format!("127.0.0.1:{}", free_port()?);
        let client = HttpClient::new(&format!("http://{http}"), None)?;
        Ok(TestSystem {
            folder,
            http,
            rpc,
            client,
        })
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// `conclave up` on this folder. May be called again after the node has ended.
    pub fn up(&self, more: &[&str]) -> Result<NodeProcess> {
        NodeProcess::launch("up", self.folder.path(), self.up_command(more))
    }

    /// As `up`, without waiting until it serves.
    pub fn spawn_up(&self, more: &[&str]) -> Result<NodeProcess> {
        NodeProcess::spawn("up", self.folder.path(), self.up_command(more))
    }

    /// The command of `up`, for tests that set more than arguments.
    pub fn up_command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(conclave());
        command
            .args(["up", "--listen", &self.http, "--rpc", &self.rpc, "--data"])
            .arg(self.data())
            .args(more);
        command
    }

    /// Starts a separate judicator process.
    pub fn judicator(&self, more: &[&str]) -> Result<NodeProcess> {
        let data = self.data();
        let args = ["judicator", "--listen", &self.rpc, "--data", text(&data)];
        NodeProcess::start("judicator", self.folder.path(), &[&args, more].concat())
    }

    /// Starts a separate executor process with its own data folder.
    pub fn executor(&self, name: &str, more: &[&str]) -> Result<NodeProcess> {
        let data = self.folder.path().join(name);
        let args = [
            "executor",
            "--judicator",
            &self.rpc,
            "--name",
            name,
            "--data",
            text(&data),
        ];
        NodeProcess::start(name, self.folder.path(), &[&args, more].concat())
    }

    /// Starts a separate gateway process.
    pub fn gateway(&self, more: &[&str]) -> Result<NodeProcess> {
        let args = ["gateway", "--listen", &self.http, "--judicator", &self.rpc];
        NodeProcess::start("gateway", self.folder.path(), &[&args, more].concat())
    }

    /// What tasks may have left with `conclave up`.
    pub fn leftovers(&self) -> TaskLeftovers {
        TaskLeftovers::of(&self.data())
    }

    /// What tasks may have left with a separate executor.
    pub fn leftovers_at(&self, executor: &str) -> TaskLeftovers {
        TaskLeftovers::of(&self.folder.path().join(executor))
    }

    /// A gate file outside of every workspace.
    pub fn gate(&self, name: &str) -> Gate {
        Gate::at(self.folder.path().join(name))
    }

    /// The URL of a path of the gateway.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.http)
    }

    /// The address of the judicator's RPC.
    pub fn rpc(&self) -> &str {
        &self.rpc
    }

    /// The address of the gateway's HTTP.
    pub fn http(&self) -> &str {
        &self.http
    }

    /// Waits until the API answers and this many executors are connected.
    pub async fn ready(&self, executors: u64) {
        wait_until("the system to be ready", SERVES, async || {
            let stats = self.client.stats().await.ok()?;
            (stats.executors as u64 >= executors).then_some(())
        })
        .await;
    }

    /// Adds a task given as JSON and waits until it is done.
    pub async fn run(&self, task: Value) -> Task {
        let task = self.add(task).await;
        self.done(task.id).await
    }

    pub async fn add(&self, task: Value) -> Task {
        let task: NewTask = serde_json::from_value(task).expect("a task");
        self.client.add(&task, None).await.expect("add")
    }

    /// Waits until the task is done, across restarts of nodes.
    pub async fn done(&self, id: TaskId) -> Task {
        wait_until(&format!("task {id} to be done"), DONE, async || {
            let task = self.client.get(id, Some(Duration::from_secs(1))).await.ok()?;
            task.done.then_some(task)
        })
        .await
    }
}

/// A task that runs this shell command.
pub fn shell(text: &str) -> Value {
    json!({"user": "tests", "execute": {"command": text}})
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A port below the kernel's range for outgoing connections, so that it is still free when a node restarts. No other test
/// gets it while this process is alive.
pub(crate) fn free_port() -> Result<u16> {
    const PORTS: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id() * 16 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(10_000 + number % PORTS)?;
        let Some(claim) = ResourceClaim::of("port", port.into()) else {
            continue;
        };
        match std::net::TcpListener::bind(("127.0.0.1", port)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            bound => {
                std::mem::forget(claim);
                return Ok(bound?.local_addr()?.port());
            }
        }
    }
}
