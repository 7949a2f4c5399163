//! Accepts connections and serves each until it ends or the gateway stops.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// How long requests under way have to finish once the gateway is told to stop.
const GRACE: Duration = Duration::from_secs(3);

/// How long a client may take to say what it wants; one that says nothing at all is let go as well.
const HEADERS: Duration = Duration::from_secs(75);

/// When the process is out of file descriptors, accepting at once again would only burn the CPU.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) async fn run(
    listener: TcpListener,
    routes: Router,
    max_connections: usize,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let places = Arc::new(Semaphore::new(max_connections));
    let graceful = GracefulShutdown::new();
    while let Some((stream, place)) = stop.run_until_cancelled(accept(&listener, &places)).await {
        serve(stream, place, routes.clone(), &graceful);
    }
    drop(listener);
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish within {GRACE:?} and were cut off");
    }
    Ok(())
}

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> (TcpStream, OwnedSemaphorePermit) {
    // Whoever comes when all places are taken waits in the kernel's queue.
    let Ok(place) = places.clone().acquire_owned().await else {
        return std::future::pending().await;
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn serve(stream: TcpStream, place: OwnedSemaphorePermit, routes: Router, graceful: &GracefulShutdown) {
    // Without this, small answers wait for the client's acknowledgement of the one before.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "could not set TCP_NODELAY");
    }
    let routes = routes.map_request(|request: hyper::Request<Incoming>| request.map(Body::new));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection broke");
        }
        drop(place);
    });
}
