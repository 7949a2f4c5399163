//! The connections to the judicators, opened when they are first needed.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::classify::{FailoverDecision, FailureCause, classify_error};
use super::failover_order::{FailoverOrder, SuspensionChange};
use crate::server::MESSAGE_LIMIT;
use crate::stall_timeout::STALL_TIMEOUT;
use crate::wire::proto::judicator_client::JudicatorClient;
use crate::{CallError, ClusterSecret};

/// How much a stream may send ahead of its reader. All streams of a connection share the connection window, which streams
/// without a reader would fill. The stream window is so much smaller that it takes thousands of them.
const STREAM_WINDOW: u32 = 256 << 10;
/// The same for live output. It is smaller, because a gateway has a stream for each follower at each judicator, and cannot
/// make the followers read.
const OUTPUT_STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 1 << 30;

/// The gRPC connections of the RPC client to one judicator: one for blobs, one for files that are put as blobs, one for live
/// output, and one for all other calls. What is sent or read slowly, or not at all, delays no other call.
#[derive(Clone)]
pub(super) struct JudicatorConnections {
    pub(super) calls: AuthenticatedClient,
    pub(super) blobs: AuthenticatedClient,
    pub(super) files: AuthenticatedClient,
    pub(super) output: AuthenticatedClient,
}

/// A gRPC client of a judicator that sends the cluster secret with each request.
pub(super) type AuthenticatedClient = JudicatorClient<InterceptedService<Channel, SecretInterceptor>>;

/// A tonic interceptor that adds the cluster secret to each request of the RPC client.
#[derive(Clone)]
pub(super) struct SecretInterceptor(Option<ClusterSecret>);

impl tonic::service::Interceptor for SecretInterceptor {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(secret) = &self.0 {
            secret.attach(&mut request);
        }
        Ok(request)
    }
}

/// The RPC client's connections to all judicators, and the order in which they are asked.
#[derive(Clone)]
pub(super) struct JudicatorChannels {
    judicators: watch::Receiver<Vec<String>>,
    secret: Option<ClusterSecret>,
    connections: Arc<Mutex<HashMap<String, JudicatorConnections>>>,
    order: Arc<Mutex<FailoverOrder>>,
    /// The judicator to ask first.
    preferred: Arc<watch::Sender<Option<String>>>,
}

/// How long a judicator may take, beyond the wait that the caller requested, before a dropped call counts as a failure.
const EXPECTED_ANSWER_TIME: Duration = Duration::from_secs(1);

/// A call of the RPC client under way at one judicator, whose outcome changes the failover order. If the caller drops
/// it when the answer was overdue, that counts as a failure of the judicator. If a user disconnects earlier, it does
/// not.
pub(super) struct PendingCall<'a> {
    channels: &'a JudicatorChannels,
    address: &'a str,
    due: Instant,
    answered: bool,
}

impl PendingCall<'_> {
    pub(super) fn on_answered(mut self) {
        self.answered = true;
        self.channels.with_order(|order| order.on_answered(self.address));
    }

    /// The judicator failed the call, so others are asked first for a while.
    pub(super) fn suspend(mut self, cause: FailureCause, why: &CallError) {
        self.answered = true;
        self.channels.suspend(self.address, Some(cause), &why.to_string());
    }

    /// The judicator is busy. It keeps its place in the order.
    pub(super) fn on_busy(mut self) {
        self.answered = true;
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        if !self.answered && Instant::now() >= self.due {
            self.channels
                .suspend(self.address, None, "the caller gave up waiting for an answer");
        }
    }
}

/// A number that differs between processes.
fn random_index() -> usize {
    // The standard library seeds its hashers with random numbers of the system.
    RandomState::new().hash_one(()) as usize
}

impl JudicatorChannels {
    pub(super) fn new(
        judicators: watch::Receiver<Vec<String>>,
        secret: Option<ClusterSecret>,
    ) -> JudicatorChannels {
        JudicatorChannels {
            judicators,
            secret,
            connections: Arc::default(),
            order: Arc::default(),
            preferred: Arc::new(watch::Sender::new(None)),
        }
    }

    /// Follows which judicator is asked first.
    pub(super) fn preferred(&self) -> watch::Receiver<Option<String>> {
        self.preferred.subscribe()
    }

    /// Follows the list of judicators.
    pub(super) fn judicators(&self) -> watch::Receiver<Vec<String>> {
        self.judicators.clone()
    }

    /// The connections to this judicator, whatever its place in the order. `None` if the address is not valid.
    pub(super) fn connections_of(&self, address: &str) -> Option<JudicatorConnections> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        self.connections_to(&mut connections, address)
    }

    /// Every judicator once: the preferred first, the suspended last.
    pub(super) fn in_failover_order(&self) -> Vec<(String, JudicatorConnections)> {
        let known = self.judicators.borrow().clone();
        let addresses = self.with_order(|order| order.arrange(known, Instant::now(), random_index));
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|address, _| addresses.contains(address));
        addresses
            .into_iter()
            .filter_map(|address| {
                let judicator = self.connections_to(&mut connections, &address)?;
                Some((address, judicator))
            })
            .collect()
    }

    /// Begins a call to this judicator. The answer may take as long as the wait that the caller requested.
    pub(super) fn begin_call<'a>(&'a self, address: &'a str, wait: Duration) -> PendingCall<'a> {
        PendingCall {
            channels: self,
            address,
            due: Instant::now() + wait.saturating_add(EXPECTED_ANSWER_TIME),
            answered: false,
        }
    }

    /// A stream failed after the judicator had begun it. Another judicator is asked first for a while, unless every
    /// judicator would fail in the same way.
    pub(super) fn on_stream_failed(&self, address: &str, error: &CallError) {
        if let FailoverDecision::Suspend(cause) = classify_error(error) {
            self.suspend(address, Some(cause), &error.to_string());
        }
    }

    /// Returns the home judicator if it is due for a probe. The caller must probe it and pass the result to
    /// [`JudicatorChannels::on_probed`].
    pub(super) fn take_probe(&self) -> Option<(String, JudicatorConnections)> {
        let address = self.with_order(|order| order.take_probe(Instant::now()))?;
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let judicator = self.connections_to(&mut connections, &address)?;
        Some((address, judicator))
    }

    pub(super) fn on_probed(&self, address: &str, answer: Result<(), (FailureCause, CallError)>) {
        match answer {
            Ok(()) => {
                if self.with_order(|order| order.on_probe_answered(address, Instant::now())) {
                    tracing::info!(judicator = address, "judicator answers again; preferring it");
                }
            }
            Err((cause, why)) => self.suspend(address, Some(cause), &why.to_string()),
        }
    }

    fn suspend(&self, address: &str, cause: Option<FailureCause>, why: &str) {
        if matches!(cause, None | Some(FailureCause::Unreachable)) {
            // The connection itself may be dead. Keep-alives would detect that only later.
            let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
            connections.remove(address);
        }
        let known = self.judicators.borrow().clone();
        match self.with_order(|order| order.on_failed(address, cause, &known, Instant::now())) {
            SuspensionChange::SuspendedFor(pause) => {
                tracing::warn!(
                    judicator = address,
                    why,
                    "judicator failed a call; preferring others for {pause:?}"
                );
            }
            SuspensionChange::Unchanged => {
                tracing::debug!(judicator = address, why, "judicator failed a call")
            }
        }
    }

    /// Reads or changes the order, and publishes which judicator is asked first.
    fn with_order<T>(&self, work: impl FnOnce(&mut FailoverOrder) -> T) -> T {
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut order);
        self.preferred.send_if_modified(|published| {
            let changed = published.as_ref() != order.preferred();
            if changed {
                *published = order.preferred().cloned();
            }
            changed
        });
        result
    }

    fn connections_to(
        &self,
        connections: &mut HashMap<String, JudicatorConnections>,
        address: &str,
    ) -> Option<JudicatorConnections> {
        if let Some(judicator) = connections.get(address) {
            return Some(judicator.clone());
        }
        let judicator = self.connect(address)?;
        connections.insert(address.to_string(), judicator.clone());
        Some(judicator)
    }

    fn connect(&self, address: &str) -> Option<JudicatorConnections> {
        let endpoint = match Endpoint::from_shared(format!("http://{address}")) {
            Ok(endpoint) => endpoint,
            Err(error) => {
                tracing::warn!(address, %error, "invalid address of a judicator; expected host:port");
                return None;
            }
        };
        let endpoint = endpoint
            // Otherwise each exchange may lose 40 ms to delayed acknowledgements.
            .tcp_nodelay(true)
            .connect_timeout(Duration::from_secs(2))
            // A judicator that hangs or is cut off keeps its connections open. Keep-alives close them after 5 seconds.
            .http2_keep_alive_interval(Duration::from_secs(2))
            .keep_alive_timeout(Duration::from_secs(3))
            .keep_alive_while_idle(true);
        let connection = |endpoint: Endpoint| {
            JudicatorClient::with_interceptor(endpoint.connect_lazy(), SecretInterceptor(self.secret.clone()))
                .max_decoding_message_size(MESSAGE_LIMIT)
                .max_encoding_message_size(MESSAGE_LIMIT)
        };
        let blob_endpoint = endpoint
            .clone()
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        let output_endpoint = blob_endpoint
            .clone()
            .initial_stream_window_size(OUTPUT_STREAM_WINDOW);
        // On a slow line a keep-alive waits behind the bytes of files, whose calls have their own limit on the time
        // without progress.
        let file_endpoint = blob_endpoint.clone().keep_alive_timeout(STALL_TIMEOUT);
        Some(JudicatorConnections {
            calls: connection(endpoint),
            blobs: connection(blob_endpoint),
            files: connection(file_endpoint),
            output: connection(output_endpoint),
        })
    }
}
