//! Shows this node's proposal on the port for peers, as long as etcd does not need it.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::peer::{Acceptor, PATH, PROPOSAL, Request, Response};
use super::plan::Proposal;

/// A question is asked within milliseconds of connecting.
const ASK: Duration = Duration::from_secs(2);

/// Dropping it takes the proposal away.
pub(crate) struct Proposer {
    shown: watch::Sender<Proposal>,
    task: JoinHandle<()>,
}

impl Proposer {
    pub(crate) async fn start(
        ip: IpAddr,
        port: u16,
        tls: Option<Acceptor>,
        proposal: Proposal,
    ) -> io::Result<Proposer> {
        let listener = TcpListener::bind((ip, port)).await?;
        let (shown, now) = watch::channel(proposal);
        let task = tokio::spawn(answer_all(listener, tls, now));
        Ok(Proposer { shown, task })
    }

    pub(crate) fn show(&self, proposal: Proposal) {
        self.shown.send_replace(proposal);
    }

    /// False if its task has panicked; then the port is free again.
    pub(crate) fn is_serving(&self) -> bool {
        !self.task.is_finished()
    }

    /// Returns when the port is free again.
    pub(crate) async fn end(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Proposer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer_all(listener: TcpListener, tls: Option<Acceptor>, shown: watch::Receiver<Proposal>) {
    let mut answers = JoinSet::new();
    loop {
        tokio::select! {
            connected = listener.accept() => match connected {
                Ok((stream, _)) => {
                    let (tls, shown) = (tls.clone(), shown.clone());
                    // Whoever asks badly gets no answer, and asks again.
                    answers.spawn(async move {
                        let _ = tokio::time::timeout(ASK, answer(stream, tls, shown)).await;
                    });
                }
                // Out of descriptors, most likely: it passes.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            Some(_) = answers.join_next() => {}
        }
    }
}

async fn answer(
    stream: TcpStream,
    tls: Option<Acceptor>,
    shown: watch::Receiver<Proposal>,
) -> io::Result<()> {
    let mut stream: Box<dyn Stream> = match tls {
        Some(tls) => Box::new(tls.accept(stream).await?),
        None => Box::new(stream),
    };
    let path = Request::receive(&mut stream).await?;
    if path != PATH {
        return Response::send("404 Not Found", &[], b"", stream).await;
    }
    let body = serde_json::to_vec(&*shown.borrow())?;
    let headers = [("Content-Type", "application/json"), (PROPOSAL, "1")];
    Response::send("200 OK", &headers, &body, stream).await
}

trait Stream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> Stream for T {}
