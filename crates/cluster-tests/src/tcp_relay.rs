//! A TCP relay between two nodes that can be slow, cut, or silent without closing connections.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

/// Small, so that the kernel does not take megabytes from the sender that a slow link could not have carried.
const BUFFER: u32 = 32 << 10;
/// The bytes that the relay forwards at once.
const PIECE: usize = 8 << 10;

/// A TCP relay between two nodes under test that can be slow, cut, or silent without closing connections. It runs as
/// long as the test's runtime.
pub struct TcpRelay {
    pub address: String,
    state: watch::Sender<RelayState>,
    link: Arc<RelayLink>,
}

/// Which connections a test's TCP relay forwards.
#[derive(Clone, Copy)]
struct RelayState {
    /// How often the current connections were silenced. Later connections are forwarded.
    silenced: u32,
    /// How often the current connections were closed.
    closed: u32,
    accepts: RelayAccepts,
}

/// What a test's TCP relay does with new connections.
#[derive(Clone, Copy, PartialEq)]
enum RelayAccepts {
    All,
    /// It closes them at once.
    None,
    /// It leaves them to the kernel, which completes the handshake.
    Silence,
}

/// The link that all connections of a test's TCP relay share.
struct RelayLink {
    /// Bytes in a second for each direction; 0 is unlimited.
    rate: AtomicU64,
    /// How many bytes the clients have sent through the link.
    sent: AtomicU64,
    upstream: LinkDirection,
    downstream: LinkDirection,
}

/// When the link of a test's TCP relay has carried all bytes that it took in one direction.
struct LinkDirection(Mutex<Instant>);

impl TcpRelay {
    pub async fn start(target: &str) -> Result<TcpRelay> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(BUFFER)?;
        socket.bind("127.0.0.1:0".parse()?)?;
        let listener = socket.listen(128)?;
        let address = listener.local_addr()?.to_string();
        let (state, changes) = watch::channel(RelayState {
            silenced: 0,
            closed: 0,
            accepts: RelayAccepts::All,
        });
        let link = Arc::new(RelayLink {
            rate: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            upstream: LinkDirection(Mutex::new(Instant::now())),
            downstream: LinkDirection(Mutex::new(Instant::now())),
        });
        tokio::spawn(accept(listener, target.to_string(), changes, link.clone()));
        Ok(TcpRelay { address, state, link })
    }

    /// Stops forwarding on current connections without closing them. Later connections are forwarded.
    pub fn silence_connections(&self) {
        self.state.send_modify(|state| state.silenced += 1);
    }

    /// Stops forwarding on all connections, and accepts no further ones; the kernel still completes handshakes.
    pub fn silence(&self) {
        self.state.send_modify(|state| {
            state.silenced += 1;
            state.accepts = RelayAccepts::Silence;
        });
    }

    /// Closes all connections, and refuses further ones.
    pub fn disconnect(&self) {
        self.state.send_modify(|state| {
            state.closed += 1;
            state.accepts = RelayAccepts::None;
        });
    }

    /// Accepts connections again.
    pub fn reconnect(&self) {
        self.state.send_modify(|state| state.accepts = RelayAccepts::All);
    }

    /// All connections together carry this many bytes in a second in each direction; 0 is unlimited.
    pub fn limit_rate(&self, bytes_per_second: u64) {
        self.link.rate.store(bytes_per_second, Ordering::Relaxed);
    }

    /// How many bytes the relay has forwarded from clients to the target.
    pub fn sent_bytes(&self) -> u64 {
        self.link.sent.load(Ordering::Relaxed)
    }
}

async fn accept(
    listener: TcpListener,
    target: String,
    mut changes: watch::Receiver<RelayState>,
    link: Arc<RelayLink>,
) {
    loop {
        let state = *changes.borrow_and_update();
        if state.accepts == RelayAccepts::Silence {
            // The listener stays open.
            pending::<()>().await;
        }
        tokio::select! {
            Ok((near, _)) = listener.accept() => {
                if state.accepts == RelayAccepts::All {
                    tokio::spawn(forward(near, target.clone(), changes.clone(), link.clone()));
                }
            }
            _ = changes.changed() => {}
        }
    }
}

async fn forward(
    near: TcpStream,
    target: String,
    mut changes: watch::Receiver<RelayState>,
    link: Arc<RelayLink>,
) {
    let begun = *changes.borrow_and_update();
    let Ok(far) = TcpStream::connect(&target).await else {
        return;
    };
    for side in [&near, &far] {
        // The relay must not add a delay of its own.
        let _ = side.set_nodelay(true);
    }
    let (from_near, to_near) = near.into_split();
    let (from_far, to_far) = far.into_split();
    // Each half is kept open until the relay closes the connection or both ends have ended.
    let carry = async {
        tokio::join!(
            copy(from_near, to_far, &link, &link.upstream),
            copy(from_far, to_near, &link, &link.downstream),
        )
    };
    tokio::pin!(carry);
    let changed = |now: &RelayState| now.closed != begun.closed || now.silenced != begun.silenced;
    let ended = tokio::select! {
        _ = &mut carry => true,
        now = changes.wait_for(changed) => now.is_err(),
    };
    if !ended {
        // Silent connections stay open until they are closed.
        let _ = changes.wait_for(|now| now.closed != begun.closed).await;
    }
}

/// Forwards one direction of a connection until it ends.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, link: &RelayLink, direction: &LinkDirection) {
    let mut piece = [0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        direction.carry(length, link.rate.load(Ordering::Relaxed)).await;
        if std::ptr::eq(direction, &raw const link.upstream) {
            link.sent.fetch_add(length as u64, Ordering::Relaxed);
        }
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

impl LinkDirection {
    /// Waits until the link has carried this many bytes after all that it took before.
    async fn carry(&self, bytes: usize, rate: u64) {
        if rate == 0 {
            return;
        }
        let end = {
            let mut free = self.0.lock().await;
            *free = (*free).max(Instant::now()) + Duration::from_secs_f64(bytes as f64 / rate as f64);
            *free
        };
        tokio::time::sleep_until(end).await;
    }
}
