//! Ways into a system. A client that gets no answer at one gateway goes to the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::{Client, ClientError, Stats, Task};
use model::TaskId;

use crate::{System, await_that};

const DONE: Duration = Duration::from_secs(60);
/// A gateway that was stopped or cut off takes connections and says nothing.
const ANSWERS: Duration = Duration::from_secs(20);

/// Clones go their own ways from the same gateway on.
#[derive(Debug)]
pub struct Gateways {
    clients: Arc<Vec<Client>>,
    current: AtomicUsize,
}

impl Gateways {
    /// By their addresses, like `127.0.0.1:7000`.
    pub fn at(addresses: &[String]) -> Gateways {
        let connect = |address: &String| Client::new(address, None).expect("an address of a gateway");
        Gateways::of(addresses.iter().map(connect).collect())
    }

    fn of(clients: Vec<Client>) -> Gateways {
        assert!(!clients.is_empty(), "a system without a gateway");
        Gateways {
            clients: Arc::new(clients),
            current: AtomicUsize::new(0),
        }
    }

    pub fn client(&self) -> &Client {
        let current = self.current.load(Ordering::Relaxed);
        &self.clients[current % self.clients.len()]
    }

    /// Another gateway is asked from now on, if there is one.
    pub fn turn(&self) {
        self.current.fetch_add(1, Ordering::Relaxed);
    }

    /// One call. Without an answer that is worth something, the next will be made elsewhere.
    pub async fn call<T>(
        &self,
        call: impl AsyncFnOnce(&Client) -> Result<T, ClientError>,
    ) -> Option<Result<T, ClientError>> {
        let answer = tokio::time::timeout(ANSWERS, call(self.client())).await;
        if !matches!(&answer, Ok(Ok(_))) {
            self.turn();
        }
        answer.ok()
    }

    /// Waits until the task is done, over restarts of whatever there is.
    pub async fn done(&self, id: TaskId) -> Task {
        await_that(&format!("task {id} to be done"), DONE, async || {
            let wait = Some(Duration::from_secs(1));
            let task = self.call(async |client| client.get(id, wait).await).await?.ok()?;
            task.done.then_some(task)
        })
        .await
    }

    pub async fn stats(&self) -> Stats {
        await_that("stats", DONE, async || {
            self.call(async |client| client.stats().await).await?.ok()
        })
        .await
    }
}

impl Clone for Gateways {
    fn clone(&self) -> Gateways {
        Gateways {
            clients: self.clients.clone(),
            current: AtomicUsize::new(self.current.load(Ordering::Relaxed)),
        }
    }
}

impl From<&System> for Gateways {
    fn from(system: &System) -> Gateways {
        Gateways::of(vec![system.client.clone()])
    }
}
