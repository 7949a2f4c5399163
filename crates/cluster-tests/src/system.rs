//! A system on one machine: `conclave up`, or its three parts as processes of their own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use api::{Client, NewTask, Task};
use model::TaskId;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Node, await_that, conclave};

/// Generous: the machine may be busy with other tests. Nothing here is a measure of speed.
const SERVES: Duration = Duration::from_secs(30);
const DONE: Duration = Duration::from_secs(60);

/// A folder, and the nodes that were started in it.
pub struct System {
    pub folder: TempDir,
    http: String,
    pub client: Client,
}

impl System {
    /// An empty folder; addresses are chosen when the first gateway starts.
    pub fn new() -> Result<System> {
        // Beside the binary and not in /tmp, which may be in memory: stores are synced to a disk, as users have it.
        let beside = conclave();
        let folder = TempDir::new_in(beside.parent().unwrap_or(Path::new(".")))?;
        let http = format!("127.0.0.1:{}", free_port()?);
        let client = Client::new(&format!("http://{http}"), None)?;
        Ok(System { folder, http, client })
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// `conclave up` on this folder. May be called again after the node has ended.
    pub fn up(&self, more: &[&str]) -> Result<Node> {
        let data = self.data();
        let mut args = vec![
            "up",
            "--data",
            text(&data),
            "--listen",
            &self.http,
            "--rpc",
            "127.0.0.1:0",
        ];
        args.extend(more);
        Node::start("up", self.folder.path(), &args)
    }

    /// The whole URL of a path below the API.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.http)
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

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
