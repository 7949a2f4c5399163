//! Accepts connections and serves each of them until it ends or the gateway stops.

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

use crate::gateway::Gateway;
use crate::min_rate::MinTransferRate;
use crate::min_rate_stream::MinRateStream;
use crate::quota_key::{PeerAddress, QuotaKey};
use crate::quota_pool::QuotaPool;
use crate::request_error::RequestError;
use crate::routes::routes;

/// How long requests in progress may take to finish when the gateway stops.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

/// How long a client may take to send the headers of a request. It also ends idle connections.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);

/// The limit for the headers of a request; larger ones are refused with 431. A connection may hold twice as much, so it
/// is far below hyper's default of 400 KB.
const READ_BUFFER: usize = 64 << 10;

/// The pause after a failed accept. Without it, the loop would use a whole CPU when file descriptors run out.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

pub(crate) async fn run(listener: TcpListener, gateway: Arc<Gateway>) -> std::io::Result<()> {
    let permits = Arc::new(Semaphore::new(gateway.options.max_connections));
    let graceful = GracefulShutdown::new();
    let server = HttpServer {
        routes: routes(gateway.clone()),
        connections: gateway.connections.clone(),
        min_response_rate: gateway.min_response_rate(),
    };
    while let Some((stream, peer, permit)) = gateway
        .stop
        .run_until_cancelled(accept(&listener, &permits))
        .await
    {
        server.serve(stream, peer, permit, &graceful);
    }
    drop(listener);
    if tokio::time::timeout(SHUTDOWN_GRACE, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("some requests did not finish within {SHUTDOWN_GRACE:?} and were aborted");
    }
    Ok(())
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    // Without a permit, new connections wait in the kernel's accept queue.
    let Ok(permit) = permits.clone().acquire_owned().await else {
        return std::future::pending().await;
    };
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, permit),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; retrying");
                tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
            }
        }
    }
}

/// Serves the HTTP connections that one listener of the gateway accepts, within quotas and minimum rates.
struct HttpServer {
    routes: Router,
    connections: Arc<QuotaPool>,
    min_response_rate: MinTransferRate,
}

impl HttpServer {
    fn serve(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        permit: OwnedSemaphorePermit,
        graceful: &GracefulShutdown,
    ) {
        // The user is not known before the first request, so the address is charged.
        let share = match self.connections.acquire(&QuotaKey::from(peer.ip()), 1) {
            Ok(share) => share,
            Err(exceeded) => return refuse_connection(&stream, exceeded.into()),
        };
        // Without it, a small response may wait for the acknowledgement of the one before (Nagle's algorithm).
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let peer = PeerAddress(peer.ip());
        let routes = self
            .routes
            .clone()
            .map_request(move |mut request: hyper::Request<Incoming>| {
                request.extensions_mut().insert(peer);
                request.map(Body::new)
            });
        let stream = MinRateStream::new(stream, self.min_response_rate);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(READ_BUFFER)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
        let connection = graceful.watch(connection);
        #[expect(clippy::disallowed_methods, reason = "ends with its connection")]
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection failed");
            }
            drop((share, permit));
        });
    }
}

/// Sends the error without reading a request, and closes the connection. The response may be lost if the client is
/// sending at that time.
fn refuse_connection(stream: &TcpStream, error: RequestError) {
    let body = serde_json::to_string(&error.problem()).unwrap_or_default();
    let response = error.into_response();
    let mut text = format!("HTTP/1.1 {}\r\nConnection: close\r\n", response.status());
    for (name, value) in response.headers() {
        let value = String::from_utf8_lossy(value.as_bytes());
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    if let Err(error) = rustix::io::write(stream, text.as_bytes()) {
        tracing::debug!(%error, "cannot send the response to a refused connection");
    }
}
