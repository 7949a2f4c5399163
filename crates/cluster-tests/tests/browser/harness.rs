//! A running `conclave up` whose pages a browser visits.

use std::time::Duration;

use cluster_tests::{Browser, Gate, NodeProcess, RawHttpClient, TestSystem, shell};
use model::TaskId;
use nix::sys::signal::Signal;
use serde_json::Value;

/// On a busy machine a node may pause for seconds. With the default lease its tasks would run again.
const LONG_LEASE_FLAGS: [&str; 4] = ["--set", "executor.self_kill=20s", "--set", "judicator.lease=30s"];

const STOPS: Duration = Duration::from_secs(60);

/// A running node, and a client for what a story prepares without the browser.
pub(crate) struct Site {
    pub(crate) up: NodeProcess,
    pub(crate) web: RawHttpClient,
    /// Dropped last, because the node uses the folder.
    pub(crate) system: TestSystem,
}

impl Site {
    pub(crate) async fn up(flags: &[&str]) -> Site {
        Site::on(TestSystem::new().expect("a folder"), flags).await
    }

    /// As `up`, in an existing folder.
    pub(crate) async fn on(system: TestSystem, flags: &[&str]) -> Site {
        let up = system
            .up(&[&LONG_LEASE_FLAGS, flags].concat())
            .expect("conclave up serves");
        let web = RawHttpClient::new(&system.url(""));
        Site { up, web, system }
    }

    /// Kills the node, and starts it again in the same folder.
    pub(crate) async fn again(self, flags: &[&str]) -> Site {
        let Site { up, system, .. } = self;
        up.kill();
        Site::on(system, flags).await
    }

    /// Stops the node in order, and starts it again in the same folder.
    pub(crate) async fn stop_and_start(self, flags: &[&str]) -> Site {
        let Site { mut up, system, .. } = self;
        up.signal(Signal::SIGTERM);
        up.wait_for_end(STOPS).await;
        Site::on(system, flags).await
    }

    /// Visits this site with a new browser.
    pub(crate) async fn visit(&self, story: impl AsyncFnOnce(&Browser)) {
        Browser::visit(&self.system.url(""), story).await;
    }

    pub(crate) fn gate(&self, name: &str) -> Gate {
        self.system.gate(name)
    }

    pub(crate) async fn add(&self, task: Value) -> TaskId {
        self.system.add(task).await.id
    }

    /// Adds a task, and returns its id when it is done.
    pub(crate) async fn run(&self, task: Value) -> TaskId {
        self.system.run(task).await.id
    }
}

/// A shell task with more fields.
pub(crate) fn shell_with(command: &str, more: Value) -> Value {
    let mut task = shell(command);
    let fields = task.as_object_mut().expect("a task");
    fields.extend(more.as_object().cloned().unwrap_or_default());
    task
}
