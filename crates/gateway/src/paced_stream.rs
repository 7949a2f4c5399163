//! A connection that breaks when the client takes its answers too slowly.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::measure;
use crate::pace::{LeastRate, Pacer};

/// Nothing is asked of a client while there is nothing to send, so waits and event streams may last.
pub(crate) struct PacedStream {
    stream: TcpStream,
    pacer: Pacer,
}

impl PacedStream {
    pub(crate) fn new(stream: TcpStream, rate: LeastRate) -> PacedStream {
        PacedStream {
            stream,
            pacer: Pacer::new(rate),
        }
    }

    /// `next` is what is sent first, `length` the length of everything offered.
    fn on_write(
        &mut self,
        written: Poll<Result<usize>>,
        next: &[u8],
        length: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize>> {
        match written {
            Poll::Ready(Ok(written)) => {
                self.on_progress(written, length);
                Poll::Ready(Ok(written))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                // The buffer is filled up before the wait begins: what fits in afterwards, the client has taken.
                let waited = self.pacer.is_waiting();
                if waited {
                    ready!(self.pacer.poll_too_slow(context));
                }
                match self.write_now(next)? {
                    Some(written) => {
                        self.on_progress(written, next.len());
                        if self.pacer.is_too_slow() {
                            Poll::Ready(Err(self.too_slow()))
                        } else {
                            Poll::Ready(Ok(written))
                        }
                    }
                    None if waited => Poll::Ready(Err(self.too_slow())),
                    None => self.pacer.poll_too_slow(context).map(|()| Err(self.too_slow())),
                }
            }
        }
    }

    /// The kernel reports room only once a third of its buffer is free, which may be a megabyte: a client that
    /// takes 10 KB/s would look as if it took nothing. This takes whatever room there is.
    fn write_now(&self, next: &[u8]) -> Result<Option<usize>> {
        match rustix::io::write(&self.stream, next) {
            Ok(written) => Ok(Some(written)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn too_slow(&self) -> Error {
        measure::too_slow("answer");
        // Otherwise the kernel would go on offering what it has, megabytes, for minutes.
        if let Err(error) = self.stream.set_zero_linger() {
            tracing::debug!(%error, "could not set SO_LINGER");
        }
        Error::new(ErrorKind::TimedOut, "the client takes its answer too slowly")
    }

    fn on_progress(&mut self, written: usize, length: usize) {
        if written == length {
            self.pacer.restart();
        } else {
            self.pacer.on_progress(written);
        }
    }
}

impl AsyncRead for PacedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PacedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.on_write(written, bytes, bytes.len(), context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        let next = slices.iter().find(|slice| !slice.is_empty());
        let length = slices.iter().map(|slice| slice.len()).sum();
        self.on_write(written, next.map_or(&[], |next| &**next), length, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn pair(window: Duration) -> (PacedStream, TcpStream) {
        let rate = LeastRate {
            bytes_per_second: 1024,
            window,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        (PacedStream::new(server, rate), client)
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_loses_its_connection() {
        let (mut server, _client) = pair(Duration::from_millis(200)).await;
        // More than any kernel buffers.
        let error = server.write_all(&vec![0; 256 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_reads_gets_everything() {
        // Long enough for a busy machine to run the reader in it.
        let (mut server, mut client) = pair(Duration::from_secs(30)).await;
        let size = 64 << 20;
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; 64 << 10];
            let mut read = 0;
            while read < size {
                read += client.read(&mut buffer).await.unwrap();
            }
        });
        server.write_all(&vec![0; size]).await.unwrap();
        reading.await.unwrap();
        // The time counts only while there is something to send.
        assert!(!server.pacer.is_waiting());
    }

    #[tokio::test]
    async fn a_connection_with_nothing_to_send_stays() {
        let window = Duration::from_millis(10);
        let (mut server, _client) = pair(window).await;
        // The kernel buffers this much without a reader.
        server.write_all(b"x").await.unwrap();
        tokio::time::sleep(window * 2).await;
        server.write_all(b"x").await.unwrap();
    }
}
