//! Accepts connections and serves each until it ends or the gateway stops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::ServiceExt;

use crate::account::{Account, Peer};
use crate::gateway::Gateway;
use crate::pace::LeastRate;
use crate::paced_stream::PacedStream;
use crate::pool::Pool;
use crate::refusal::Refusal;
use crate::routes::routes;

/// How long requests under way have to finish once the gateway is told to stop.
const GRACE: Duration = Duration::from_secs(3);

/// How long a client may take to say what it wants; one that says nothing at all is let go as well.
const HEADERS: Duration = Duration::from_secs(75);

/// A head that is not complete when this much of it is there is answered with 431; no more is read at once. Every
/// connection may hold twice as much, so it is far below hyper's own bound of 400 KB.
const READ_BUFFER: usize = 64 << 10;

/// When the process is out of file descriptors, accepting at once again would only burn the CPU.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) async fn run(listener: TcpListener, gateway: Arc<Gateway>) -> std::io::Result<()> {
    let places = Arc::new(Semaphore::new(gateway.options.max_connections));
    let graceful = GracefulShutdown::new();
    let server = Server {
        routes: routes(gateway.clone()),
        connections: gateway.connections.clone(),
        answer_rate: gateway.answer_rate(),
    };
    while let Some((stream, peer, place)) = gateway.stop.run_until_cancelled(accept(&listener, &places)).await
    {
        server.serve(stream, peer, place, &graceful);
    }
    drop(listener);
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish within {GRACE:?} and were cut off");
    }
    Ok(())
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    // Whoever comes when all places are taken waits in the kernel's queue.
    let Ok(place) = places.clone().acquire_owned().await else {
        return std::future::pending().await;
    };
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, place),
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

struct Server {
    routes: Router,
    connections: Arc<Pool>,
    answer_rate: LeastRate,
}

impl Server {
    fn serve(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        place: OwnedSemaphorePermit,
        graceful: &GracefulShutdown,
    ) {
        // Who is behind it is not known before its first request.
        let share = match self.connections.take(&Account::from(peer.ip()), 1) {
            Ok(share) => share,
            Err(exhausted) => return turn_away(&stream, exhausted.into()),
        };
        // Without this, small answers wait for the client's acknowledgement of the one before.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not set TCP_NODELAY");
        }
        let peer = Peer(peer.ip());
        let routes = self
            .routes
            .clone()
            .map_request(move |mut request: hyper::Request<Incoming>| {
                request.extensions_mut().insert(peer);
                request.map(Body::new)
            });
        let stream = PacedStream::new(stream, self.answer_rate);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS)
            .max_buf_size(READ_BUFFER)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection broke");
            }
            drop((share, place));
        });
    }
}

/// Says why without reading a request. The answer may be lost when the client is just sending; the connection is
/// closed in any case.
fn turn_away(stream: &TcpStream, refusal: Refusal) {
    let body = serde_json::to_string(&refusal.problem()).unwrap_or_default();
    let response = refusal.into_response();
    let mut text = format!("HTTP/1.1 {}\r\nConnection: close\r\n", response.status());
    for (name, value) in response.headers() {
        let value = String::from_utf8_lossy(value.as_bytes());
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    if let Err(error) = rustix::io::write(stream, text.as_bytes()) {
        tracing::debug!(%error, "could not say that there are too many connections");
    }
}
