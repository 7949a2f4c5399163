//! The connections to each judicator, made when they are first needed.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::order::{News, Order};
use super::verdict::{Cause, Verdict, of_error};
use crate::server::MESSAGE_LIMIT;
use crate::wire::proto::judicator_client::JudicatorClient;
use crate::{CallError, Secret};

/// What a stream may send ahead of its reader. All streams of a connection share one window, so a few that nobody
/// reads would fill it: this is so much smaller that thousands do not.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 30;

/// A judicator. Blobs have a connection of their own: the bytes of one that is read slowly, or not at all, stand in
/// the way of no other call.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) calls: Connection,
    pub(super) blobs: Connection,
}

type Connection = JudicatorClient<InterceptedService<Channel, ShowSecret>>;

#[derive(Clone)]
pub(super) struct ShowSecret(Option<Secret>);

impl tonic::service::Interceptor for ShowSecret {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(secret) = &self.0 {
            secret.show(&mut request);
        }
        Ok(request)
    }
}

#[derive(Clone)]
pub(super) struct Channels {
    judicators: watch::Receiver<Vec<String>>,
    secret: Option<Secret>,
    peers: Arc<Mutex<HashMap<String, Peer>>>,
    order: Arc<Mutex<Order>>,
    /// The one to ask first.
    preferred: Arc<watch::Sender<Option<String>>>,
}

/// How long a judicator may take, beyond a wait that the caller asked for, before a dropped call counts against it.
const EXPECTED: Duration = Duration::from_secs(1);

/// A judicator that was asked. A caller that does not want to wait any longer drops the call. If the answer was due by
/// then, that counts as no answer; a user who hangs up earlier says nothing about the judicator.
pub(super) struct Asked<'a> {
    channels: &'a Channels,
    address: &'a str,
    due: Instant,
    answered: bool,
}

impl Asked<'_> {
    pub(super) fn on_answered(mut self) {
        self.answered = true;
        self.channels.order(|order| order.on_answered(self.address));
    }

    /// It cannot do the call, and others are asked first for a while.
    pub(super) fn leave(mut self, cause: Cause, why: &CallError) {
        self.answered = true;
        self.channels.leave(self.address, Some(cause), &why.to_string());
    }

    /// It has too much to do, and is asked again next time.
    pub(super) fn try_next(mut self) {
        self.answered = true;
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.answered && Instant::now() >= self.due {
            self.channels
                .leave(self.address, None, "the caller waited in vain");
        }
    }
}

/// A number that differs from process to process.
fn anywhere() -> usize {
    // The standard library seeds its hashers from the system's randomness.
    RandomState::new().hash_one(()) as usize
}

impl Channels {
    pub(super) fn new(judicators: watch::Receiver<Vec<String>>, secret: Option<Secret>) -> Channels {
        Channels {
            judicators,
            secret,
            peers: Arc::default(),
            order: Arc::default(),
            preferred: Arc::new(watch::Sender::new(None)),
        }
    }

    /// Who is asked first, as that changes.
    pub(super) fn preferred(&self) -> watch::Receiver<Option<String>> {
        self.preferred.subscribe()
    }

    /// Every judicator once, the preferred first, those that could not do a call a moment ago last.
    pub(super) fn in_turn(&self) -> Vec<(String, Peer)> {
        let known = self.judicators.borrow().clone();
        let addresses = self.order(|order| order.arrange(known, Instant::now(), anywhere));
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|address, _| addresses.contains(address));
        addresses
            .into_iter()
            .filter_map(|address| {
                let peer = self.peer(&mut peers, &address)?;
                Some((address, peer))
            })
            .collect()
    }

    /// To be held until this one has answered, which may take as long as the caller asked it to wait.
    pub(super) fn ask<'a>(&'a self, address: &'a str, wait: Duration) -> Asked<'a> {
        Asked {
            channels: self,
            address,
            due: Instant::now() + wait.saturating_add(EXPECTED),
            answered: false,
        }
    }

    /// A stream that a judicator had begun has failed: another judicator is asked first for a while, unless the
    /// failure would be the same everywhere.
    pub(super) fn on_stream_failed(&self, address: &str, error: &CallError) {
        if let Verdict::Leave(cause) = of_error(error) {
            self.leave(address, Some(cause), &error.to_string());
        }
    }

    /// A judicator to which this client would like to come back: it is to be asked whether it works again, and
    /// [`Channels::on_probed`] to be told.
    pub(super) fn take_probe(&self) -> Option<(String, Peer)> {
        let address = self.order(|order| order.take_probe(Instant::now()))?;
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = self.peer(&mut peers, &address)?;
        Some((address, peer))
    }

    pub(super) fn on_probed(&self, address: &str, answer: Result<(), (Cause, CallError)>) {
        match answer {
            Ok(()) => {
                if self.order(|order| order.on_probe_answered(address, Instant::now())) {
                    tracing::info!(
                        judicator = address,
                        "the judicator answers again and is asked first"
                    );
                }
            }
            Err((cause, why)) => self.leave(address, Some(cause), &why.to_string()),
        }
    }

    fn leave(&self, address: &str, cause: Option<Cause>, why: &str) {
        if matches!(cause, None | Some(Cause::Unreachable)) {
            // It may be the connection that is dead, which would otherwise show only after several keep-alives.
            let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
            peers.remove(address);
        }
        let known = self.judicators.borrow().clone();
        match self.order(|order| order.on_failed(address, cause, &known, Instant::now())) {
            News::LeftFor(pause) => {
                tracing::warn!(
                    judicator = address,
                    why,
                    "others are asked before this judicator for {pause:?}"
                );
            }
            News::Nothing => tracing::debug!(judicator = address, why, "the judicator did not do a call"),
        }
    }

    /// Looks at the order or changes it, and tells whoever follows who is asked first.
    fn order<T>(&self, work: impl FnOnce(&mut Order) -> T) -> T {
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let done = work(&mut order);
        self.preferred.send_if_modified(|told| {
            let changed = told.as_ref() != order.preferred();
            if changed {
                *told = order.preferred().cloned();
            }
            changed
        });
        done
    }

    fn peer(&self, peers: &mut HashMap<String, Peer>, address: &str) -> Option<Peer> {
        if let Some(peer) = peers.get(address) {
            return Some(peer.clone());
        }
        let peer = self.connect(address)?;
        peers.insert(address.to_string(), peer.clone());
        Some(peer)
    }

    fn connect(&self, address: &str) -> Option<Peer> {
        let endpoint = match Endpoint::from_shared(format!("http://{address}")) {
            Ok(endpoint) => endpoint,
            Err(wrong) => {
                tracing::warn!(address, %wrong, "not a judicator's address; want host:port");
                return None;
            }
        };
        let endpoint = endpoint
            // Without this each exchange may lose 40 ms to delayed acknowledgements.
            .tcp_nodelay(true)
            .connect_timeout(Duration::from_secs(2))
            // A judicator that hangs or is cut off keeps its connections open: it is left after 5 seconds.
            .http2_keep_alive_interval(Duration::from_secs(2))
            .keep_alive_timeout(Duration::from_secs(3))
            .keep_alive_while_idle(true);
        let connection = |endpoint: Endpoint| {
            JudicatorClient::with_interceptor(endpoint.connect_lazy(), ShowSecret(self.secret.clone()))
                .max_decoding_message_size(MESSAGE_LIMIT)
                .max_encoding_message_size(MESSAGE_LIMIT)
        };
        let for_streams = endpoint
            .clone()
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        Some(Peer {
            calls: connection(endpoint),
            blobs: connection(for_streams),
        })
    }
}
