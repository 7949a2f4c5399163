//! HTTP clients of several gateways, with failover to the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::{HttpClient, HttpClientError, Stats, Task};
use model::TaskId;

use crate::{TestSystem, wait_until};

const DONE: Duration = Duration::from_secs(60);
/// A gateway that is stopped (SIGSTOP) or cut off accepts connections and never answers.
const ANSWERS: Duration = Duration::from_secs(20);

/// HTTP clients of all gateways of a system under test, one of which is current. Clones fail over independently.
#[derive(Debug)]
pub struct GatewayClients {
    clients: Arc<Vec<HttpClient>>,
    current: AtomicUsize,
}

impl GatewayClients {
    /// Connects to these addresses, for example `127.0.0.1:7000`.
    pub fn at(addresses: &[String]) -> GatewayClients {
        let connect = |address: &String| HttpClient::new(address, None).expect("an address of a gateway");
        GatewayClients::of(addresses.iter().map(connect).collect())
    }

    fn of(clients: Vec<HttpClient>) -> GatewayClients {
        assert!(!clients.is_empty(), "a system without a gateway");
        GatewayClients {
            clients: Arc::new(clients),
            current: AtomicUsize::new(0),
        }
    }

    pub fn client(&self) -> &HttpClient {
        let current = self.current.load(Ordering::Relaxed);
        &self.clients[current % self.clients.len()]
    }

    /// Makes the next gateway current.
    pub fn switch_to_next(&self) {
        self.current.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes one call with a deadline. If it fails, the next call goes to the next gateway.
    pub async fn call<T>(
        &self,
        call: impl AsyncFnOnce(&HttpClient) -> Result<T, HttpClientError>,
    ) -> Option<Result<T, HttpClientError>> {
        let answer = tokio::time::timeout(ANSWERS, call(self.client())).await;
        if !matches!(&answer, Ok(Ok(_))) {
            self.switch_to_next();
        }
        answer.ok()
    }

    /// Waits until the task is done, across restarts of nodes.
    pub async fn done(&self, id: TaskId) -> Task {
        wait_until(&format!("task {id} to be done"), DONE, async || {
            let wait = Some(Duration::from_secs(1));
            let task = self.call(async |client| client.get(id, wait).await).await?.ok()?;
            task.done.then_some(task)
        })
        .await
    }

    pub async fn stats(&self) -> Stats {
        wait_until("stats", DONE, async || {
            self.call(async |client| client.stats().await).await?.ok()
        })
        .await
    }
}

impl Clone for GatewayClients {
    fn clone(&self) -> GatewayClients {
        GatewayClients {
            clients: self.clients.clone(),
            current: AtomicUsize::new(self.current.load(Ordering::Relaxed)),
        }
    }
}

impl From<&TestSystem> for GatewayClients {
    fn from(system: &TestSystem) -> GatewayClients {
        GatewayClients::of(vec![system.client.clone()])
    }
}
