//! A system on one machine: `conclave up`, or its three parts as processes of their own.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Result;
use api::{Client, NewTask, Task};
use model::TaskId;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::claim::Claim;
use crate::{Node, Remains, await_that, conclave};

/// Generous: the machine may be busy with other tests. Nothing here is a measure of speed.
const SERVES: Duration = Duration::from_secs(30);
const DONE: Duration = Duration::from_secs(60);

/// A folder, and the nodes that were started in it.
pub struct System {
    pub folder: TempDir,
    http: String,
    rpc: String,
    pub client: Client,
}

impl System {
    /// An empty folder; addresses are chosen when the first gateway starts.
    pub fn new() -> Result<System> {
        // Beside the binary and not in /tmp, which may be in memory: stores are synced to a disk, as users have it.
        let beside = conclave();
        let folder = TempDir::new_in(beside.parent().unwrap_or(Path::new(".")))?;
        let http = format!("127.0.0.1:{}", free_port()?);
        let rpc = format!("127.0.0.1:{}", free_port()?);
        let client = Client::new(&format!("http://{http}"), None)?;
        Ok(System {
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
    pub fn up(&self, more: &[&str]) -> Result<Node> {
        Node::launch("up", self.folder.path(), self.up_command(more))
    }

    /// The same, without waiting until it serves.
    pub fn up_soon(&self, more: &[&str]) -> Result<Node> {
        Node::spawn("up", self.folder.path(), self.up_command(more))
    }

    /// What becomes such a node, for those who want to give it more than arguments.
    pub fn up_command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(conclave());
        command
            .args(["up", "--listen", &self.http, "--rpc", &self.rpc, "--data"])
            .arg(self.data())
            .args(more);
        command
    }

    /// A judicator as a process of its own.
    pub fn judicator(&self, more: &[&str]) -> Result<Node> {
        let data = self.data();
        let args = ["judicator", "--listen", &self.rpc, "--data", text(&data)];
        Node::start("judicator", self.folder.path(), &[&args, more].concat())
    }

    /// An executor as a process of its own, with a data folder of its own.
    pub fn executor(&self, name: &str, more: &[&str]) -> Result<Node> {
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
        Node::start(name, self.folder.path(), &[&args, more].concat())
    }

    /// A gateway as a process of its own.
    pub fn gateway(&self, more: &[&str]) -> Result<Node> {
        let args = ["gateway", "--listen", &self.http, "--judicator", &self.rpc];
        Node::start("gateway", self.folder.path(), &[&args, more].concat())
    }

    /// What tasks may have left with `conclave up`.
    pub fn remains(&self) -> Remains {
        Remains::of(&self.data())
    }

    /// What tasks may have left with an executor of its own.
    pub fn remains_at(&self, executor: &str) -> Remains {
        Remains::of(&self.folder.path().join(executor))
    }

    /// The whole URL of a path below the API.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.http)
    }

    /// The address of the judicator's calls.
    pub fn rpc(&self) -> &str {
        &self.rpc
    }

    /// The HTTP address, for a gateway of its own.
    pub fn http(&self) -> &str {
        &self.http
    }

    /// Until requests are answered and executors are there.
    pub async fn ready(&self, executors: u64) {
        await_that("the system to be ready", SERVES, async || {
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

    /// Waits until the task is done, over restarts of whatever there is.
    pub async fn done(&self, id: TaskId) -> Task {
        await_that(&format!("task {id} to be done"), DONE, async || {
            let task = self.client.get(id, Some(Duration::from_secs(1))).await.ok()?;
            task.done.then_some(task)
        })
        .await
    }
}

/// A task that runs this shell text.
pub fn shell(text: &str) -> Value {
    json!({"user": "tests", "execute": {"command": text}})
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Below the range from which the kernel serves outgoing connections: a node that is started again must find its
/// port free. No other test gets it while this process lives.
pub(crate) fn free_port() -> Result<u16> {
    const PORTS: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id() * 16 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(10_000 + number % PORTS)?;
        let Some(claim) = Claim::of("port", port.into()) else {
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
