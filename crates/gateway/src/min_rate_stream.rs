//! Connections with a minimum rate for responses.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::http_metrics;
use crate::min_rate::{MinTransferRate, TransferRateMonitor};

/// A client's TCP connection to the gateway, which fails if the client reads a response too slowly. The time without
/// anything to send does not count, so that waits and event streams may last.
pub(crate) struct MinRateStream {
    stream: TcpStream,
    monitor: TransferRateMonitor,
}

impl MinRateStream {
    pub(crate) fn new(stream: TcpStream, rate: MinTransferRate) -> MinRateStream {
        MinRateStream {
            stream,
            monitor: TransferRateMonitor::new(rate),
        }
    }

    /// `next` is the first slice to send, `length` the length of all slices.
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
                // The send buffer is filled before the wait begins, so bytes that fit later were received by the client.
                let waited = self.monitor.is_waiting();
                if waited {
                    ready!(self.monitor.poll_too_slow(context));
                }
                match self.write_now(next)? {
                    Some(written) => {
                        self.on_progress(written, next.len());
                        if self.monitor.is_too_slow() {
                            Poll::Ready(Err(self.too_slow()))
                        } else {
                            Poll::Ready(Ok(written))
                        }
                    }
                    None if waited => Poll::Ready(Err(self.too_slow())),
                    None => self.monitor.poll_too_slow(context).map(|()| Err(self.too_slow())),
                }
            }
        }
    }

    /// The kernel reports a socket as writable only when a third of its send buffer is free, which may be a megabyte: a
    /// client that reads 10 KB/s would look stalled. A direct write uses any free space.
    fn write_now(&self, next: &[u8]) -> Result<Option<usize>> {
        match rustix::io::write(&self.stream, next) {
            Ok(written) => Ok(Some(written)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn too_slow(&self) -> Error {
        http_metrics::count_too_slow("answer");
        // Otherwise the kernel would try for minutes to send the rest of its send buffer.
        if let Err(error) = self.stream.set_zero_linger() {
            tracing::debug!(%error, "could not set SO_LINGER");
        }
        Error::new(ErrorKind::TimedOut, "the client reads the response too slowly")
    }

    fn on_progress(&mut self, written: usize, length: usize) {
        if written == length {
            self.monitor.restart();
        } else {
            self.monitor.on_progress(written);
        }
    }
}

impl AsyncRead for MinRateStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for MinRateStream {
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

    async fn pair(window: Duration) -> (MinRateStream, TcpStream) {
        let rate = MinTransferRate {
            bytes_per_second: 1024,
            window,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        (MinRateStream::new(server, rate), client)
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_loses_its_connection() {
        let (mut server, _client) = pair(Duration::from_millis(200)).await;
        // Larger than any send buffer.
        let error = server.write_all(&vec![0; 256 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_reads_receives_everything() {
        // Long enough for the reader to run on a busy machine.
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
        // After everything is sent, the monitor does not wait.
        assert!(!server.monitor.is_waiting());
    }

    #[tokio::test]
    async fn a_connection_with_nothing_to_send_stays_open() {
        let window = Duration::from_millis(10);
        let (mut server, _client) = pair(window).await;
        // The send buffer holds this without a reader.
        server.write_all(b"x").await.unwrap();
        tokio::time::sleep(window * 2).await;
        server.write_all(b"x").await.unwrap();
    }
}
