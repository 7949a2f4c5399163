//! Serves this node's founding proposal on the peer port until etcd needs the port.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::decision::FoundingProposal;
use super::peer::{MEMBERS_PATH, PROPOSAL_HEADER, PeerTlsAcceptor};

/// For one connection from accept to close. A peer sends its request within milliseconds of connecting.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(2);
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// How long a stop waits for the port to become free.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// An HTTP server on the etcd peer port that shows this node's founding proposal until etcd needs the port. It answers
/// `GET /members` with the current proposal. Dropping it stops it.
pub(crate) struct ProposalServer {
    address: SocketAddr,
    proposal: watch::Sender<FoundingProposal>,
    task: JoinHandle<()>,
}

impl ProposalServer {
    pub(crate) async fn start(
        ip: IpAddr,
        port: u16,
        tls: Option<PeerTlsAcceptor>,
        proposal: FoundingProposal,
    ) -> io::Result<ProposalServer> {
        let address = SocketAddr::new(ip, port);
        let listener = TcpListener::bind(address).await?;
        let (sender, receiver) = watch::channel(proposal);
        #[expect(clippy::disallowed_methods, reason = "the handle is aborted with the server")]
        let task = tokio::spawn(accept_loop(listener, tls, receiver));
        Ok(ProposalServer {
            address,
            proposal: sender,
            task,
        })
    }

    pub(crate) fn show(&self, proposal: FoundingProposal) {
        self.proposal.send_replace(proposal);
    }

    /// False if its task has panicked; the port is free then.
    pub(crate) fn is_serving(&self) -> bool {
        !self.task.is_finished()
    }

    /// Returns when the port is free. If this process has just forked, the child holds a copy of the listening socket
    /// for a few milliseconds, until it executes its program.
    pub(crate) async fn stop(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
        let port_is_free = async {
            while TcpListener::bind(self.address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        // If another program has taken the port, the check before etcd's start reports it.
        let _ = tokio::time::timeout(STOP_TIMEOUT, port_is_free).await;
    }
}

impl Drop for ProposalServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept_loop(
    listener: TcpListener,
    tls: Option<PeerTlsAcceptor>,
    proposal: watch::Receiver<FoundingProposal>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (tls, proposal) = (tls.clone(), proposal.clone());
                    // A failed connection concerns only its peer, which queries again.
                    connections.spawn(async move {
                        let _ = tokio::time::timeout(CONNECTION_TIMEOUT, serve(stream, tls, proposal)).await;
                    });
                }
                // Usually the process is out of file descriptors for a moment.
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(
    stream: TcpStream,
    tls: Option<PeerTlsAcceptor>,
    proposal: watch::Receiver<FoundingProposal>,
) -> io::Result<()> {
    match tls {
        Some(tls) => serve_http(tls.accept(stream).await?, proposal).await,
        None => serve_http(stream, proposal).await,
    }
}

/// Answers one request and closes the connection.
async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    proposal: watch::Receiver<FoundingProposal>,
) -> io::Result<()> {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(request.uri().path(), &proposal.borrow());
        async move { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
        .map_err(io::Error::other)
}

fn respond(path: &str, proposal: &FoundingProposal) -> Response<Full<Bytes>> {
    let body = match path {
        MEMBERS_PATH => serde_json::to_vec(proposal).ok(),
        _ => None,
    };
    let Some(body) = body else {
        let mut not_found = Response::new(Full::default());
        *not_found.status_mut() = StatusCode::NOT_FOUND;
        return not_found;
    };
    let mut response = Response::new(Full::from(body));
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    let present = header::HeaderValue::from_static("1");
    response.headers_mut().insert(PROPOSAL_HEADER, present);
    response
}
