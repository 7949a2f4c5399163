//! Waits until the cluster reaches a state that the test needs.

use std::time::Duration;

use api::{NewTask, Task};
use serde_json::Value;

use super::{JudicatorList, TestCluster};
use crate::wait_until;

/// Long, because servers start, members are added one after another, and other tests run at the same time.
const FORMS: Duration = Duration::from_secs(120);

impl TestCluster {
    /// The cluster's own list of judicators; `None` while no judicator answers.
    pub async fn judicators(&self) -> Option<JudicatorList> {
        let judicators = tokio::time::timeout(FORMS, self.client().judicators()).await;
        judicators.ok()?.ok().map(JudicatorList)
    }

    /// Waits until the list of judicators satisfies the condition, and prints each change of it.
    #[allow(clippy::print_stdout, reason = "a test that waits in vain shows what it saw")]
    pub async fn wait_for_judicators(
        &self,
        what: &str,
        is_wanted: impl Fn(&JudicatorList) -> bool,
    ) -> JudicatorList {
        let mut last = String::new();
        wait_until(
            &format!("the list of judicators to show {what}"),
            FORMS,
            async || {
                let judicators = self.judicators().await?;
                let shown = judicators.to_string();
                if shown != last {
                    println!("judicators: {shown}");
                    last = shown;
                }
                is_wanted(&judicators).then_some(judicators)
            },
        )
        .await
    }

    /// Waits until the list has exactly this many judicators and all are healthy.
    pub async fn wait_until_complete(&self, count: usize) -> JudicatorList {
        let what = format!("{count} healthy judicators");
        self.wait_for_judicators(&what, |judicators| judicators.is_complete(count))
            .await
    }

    /// Waits until at least this many executors are alive and every gateway serves.
    pub async fn wait_for_executors(&self, executors: usize) {
        let gateways = self.nodes.iter().filter(|node| node.name().starts_with('g'));
        for gateway in gateways {
            gateway.wait_until_ready().await;
        }
        wait_until("executors to be alive", FORMS, async || {
            let found = self.client().executors().await.ok()?;
            let alive = found.iter().filter(|executor| executor.health == "alive");
            (alive.count() >= executors).then_some(())
        })
        .await;
    }

    /// The name of the leading judicator.
    pub async fn leader(&self) -> String {
        let judicators = self
            .wait_for_judicators("who leads", |judicators| judicators.leader().is_some())
            .await;
        judicators.leader().expect("one leads")
    }

    /// The name of the judicator whose mongod is the primary.
    pub async fn primary(&self) -> String {
        let judicators = self
            .wait_for_judicators("the primary", |judicators| judicators.primary().is_some())
            .await;
        judicators.primary().expect("one is")
    }

    /// Adds a task given as JSON, through the observer, and waits until it is done.
    pub async fn run(&self, task: Value) -> Task {
        let task: NewTask = serde_json::from_value(task).expect("a task");
        let added = wait_until("a task to be added", FORMS, async || {
            self.client().add(&task, None).await.ok()
        })
        .await;
        self.gateways().done(added.id).await
    }
}
