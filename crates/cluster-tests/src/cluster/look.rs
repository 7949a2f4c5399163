//! How the cluster looks to the test, and waiting until it is as it is wanted.

use std::time::Duration;

use api::{NewTask, Task};
use serde_json::Value;

use super::{Cluster, Roster};
use crate::await_that;

/// Servers are started, members are added one after the other, and other tests run beside.
const FORMS: Duration = Duration::from_secs(120);

impl Cluster {
    /// Who is there, as the cluster itself knows it. `None` while nobody answers.
    pub async fn roster(&self) -> Option<Roster> {
        let judicators = tokio::time::timeout(FORMS, self.client().judicators()).await;
        judicators.ok()?.ok().map(Roster)
    }

    /// Waits until the roster is as it is wanted, and shows it where that is in vain.
    #[allow(clippy::print_stdout, reason = "a test that waits in vain shows what it saw")]
    pub async fn roster_with(&self, what: &str, is_so: impl Fn(&Roster) -> bool) -> Roster {
        let mut last = String::new();
        await_that(&format!("the roster to show {what}"), FORMS, async || {
            let roster = self.roster().await?;
            let shown = roster.to_string();
            if shown != last {
                println!("roster: {shown}");
                last = shown;
            }
            is_so(&roster).then_some(roster)
        })
        .await
    }

    /// Waits until so many judicators are there and all is well with each of them.
    pub async fn whole(&self, judicators: usize) -> Roster {
        let what = format!("{judicators} judicators, all well");
        self.roster_with(&what, |roster| roster.is_whole(judicators))
            .await
    }

    /// Waits until so many executors are alive and every gateway serves.
    pub async fn working(&self, executors: usize) {
        let gateways = self
            .machines
            .iter()
            .filter(|machine| machine.name().starts_with('g'));
        for gateway in gateways {
            gateway.ready().await;
        }
        await_that("executors to be there", FORMS, async || {
            let found = self.client().executors().await.ok()?;
            let alive = found.iter().filter(|executor| executor.health == "alive");
            (alive.count() >= executors).then_some(())
        })
        .await;
    }

    /// The judicator that leads.
    pub async fn leader(&self) -> String {
        let roster = self
            .roster_with("who leads", |roster| roster.leader().is_some())
            .await;
        roster.leader().expect("one leads")
    }

    /// The judicator whose mongod is the primary.
    pub async fn primary(&self) -> String {
        let roster = self
            .roster_with("the primary", |roster| roster.primary().is_some())
            .await;
        roster.primary().expect("one is")
    }

    /// Adds a task given as JSON, through the observer, and waits until it is done.
    pub async fn run(&self, task: Value) -> Task {
        let task: NewTask = serde_json::from_value(task).expect("a task");
        let added = await_that("a task to be added", FORMS, async || {
            self.client().add(&task, None).await.ok()
        })
        .await;
        self.gateways().done(added.id).await
    }
}
