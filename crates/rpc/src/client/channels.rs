//! One connection for each judicator, made when it is first needed.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::Secret;
use crate::server::MESSAGE_LIMIT;
use crate::wire::proto::judicator_client::JudicatorClient;

pub(super) type Peer = JudicatorClient<InterceptedService<Channel, ShowSecret>>;

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
    /// The one to ask first: it answered last.
    preferred: Arc<watch::Sender<Option<String>>>,
}

/// A judicator that was asked. A caller that does not want to wait any longer just drops the call: that too tells
/// that there was no answer.
pub(super) struct Asked<'a> {
    channels: &'a Channels,
    address: &'a str,
    answered: bool,
}

impl Asked<'_> {
    pub(super) fn on_answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.channels.on_unanswered(self.address);
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
            preferred: Arc::new(watch::Sender::new(None)),
        }
    }

    /// Who is asked first, as that changes.
    pub(super) fn preferred(&self) -> watch::Receiver<Option<String>> {
        self.preferred.subscribe()
    }

    /// Every judicator once, the preferred first.
    pub(super) fn in_turn(&self) -> Vec<(String, Peer)> {
        let mut addresses = self.judicators.borrow().clone();
        if addresses.is_empty() {
            return Vec::new();
        }
        self.preferred.send_if_modified(|preferred| {
            let position = |preferred: &String| addresses.iter().position(|address| address == preferred);
            let first = preferred.as_ref().and_then(position);
            // Nobody is preferred yet, or the one that was is gone: begin anywhere, so that callers spread.
            let known = addresses.len();
            addresses.rotate_left(first.unwrap_or_else(|| anywhere() % known));
            if first.is_none() {
                *preferred = addresses.first().cloned();
            }
            first.is_none()
        });
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|address, _| addresses.contains(address));
        addresses
            .into_iter()
            .filter_map(|address| {
                if let Some(peer) = peers.get(&address) {
                    return Some((address, peer.clone()));
                }
                let peer = self.connect(&address)?;
                peers.insert(address.clone(), peer.clone());
                Some((address, peer))
            })
            .collect()
    }

    /// To be held until this one has answered.
    pub(super) fn ask<'a>(&'a self, address: &'a str) -> Asked<'a> {
        Asked {
            channels: self,
            address,
            answered: false,
        }
    }

    /// This one did not answer: begin with the one after it next time, and with a new connection to this one. It
    /// may be the connection that is dead, which would otherwise show only after several keep-alives.
    fn on_unanswered(&self, address: &str) {
        let addresses = self.judicators.borrow().clone();
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.remove(address);
        drop(peers);
        if let Some(at) = addresses.iter().position(|known| known == address) {
            let next = Some(addresses[(at + 1) % addresses.len()].clone());
            self.preferred
                .send_if_modified(|preferred| std::mem::replace(preferred, next.clone()) != next);
        }
    }

    fn connect(&self, address: &str) -> Option<Peer> {
        let endpoint = match Endpoint::from_shared(format!("http://{address}")) {
            Ok(endpoint) => endpoint,
            Err(wrong) => {
                tracing::warn!(address, %wrong, "not a judicator's address; want host:port");
                return None;
            }
        };
        let channel = endpoint
            // Without this each exchange may lose 40 ms to delayed acknowledgements.
            .tcp_nodelay(true)
            .connect_timeout(Duration::from_secs(2))
            // A judicator that hangs or is cut off keeps its connections open: it is left after 5 seconds.
            .http2_keep_alive_interval(Duration::from_secs(2))
            .keep_alive_timeout(Duration::from_secs(3))
            .keep_alive_while_idle(true)
            .connect_lazy();
        let peer = JudicatorClient::with_interceptor(channel, ShowSecret(self.secret.clone()))
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        Some(peer)
    }
}
