//! Request bodies with a minimum rate.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use crate::min_rate::{MinTransferRate, TransferRateMonitor};

/// An HTTP request body that ends with an error if the client sends it to the gateway too slowly.
pub(crate) struct MinRateBody {
    body: Body,
    monitor: TransferRateMonitor,
    too_slow: bool,
}

impl MinRateBody {
    pub(crate) fn new(body: Body, rate: MinTransferRate) -> MinRateBody {
        MinRateBody {
            body,
            monitor: TransferRateMonitor::new(rate),
            too_slow: false,
        }
    }

    pub(crate) fn is_too_slow(&self) -> bool {
        self.too_slow
    }
}

impl HttpBody for MinRateBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if this.too_slow {
            return Poll::Ready(Some(Err(too_slow())));
        }
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(frame) => {
                if let Some(Ok(frame)) = &frame {
                    this.monitor.on_progress(frame.data_ref().map_or(0, Bytes::len));
                }
                Poll::Ready(frame)
            }
            Poll::Pending => match this.monitor.poll_too_slow(context) {
                Poll::Ready(()) => {
                    this.too_slow = true;
                    Poll::Ready(Some(Err(too_slow())))
                }
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn too_slow() -> axum::Error {
    axum::Error::new("the client sends the request body too slowly")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::{StreamExt, stream};

    use super::*;

    const RATE: MinTransferRate = MinTransferRate {
        bytes_per_second: 1024,
        window: Duration::from_millis(50),
    };

    #[tokio::test]
    async fn a_body_that_stalls_ends_with_an_error() {
        let first = stream::iter([Ok::<_, axum::Error>(Bytes::from_static(b"first"))]);
        let body = Body::from_stream(first.chain(stream::pending()));
        let mut stream = Body::new(MinRateBody::new(body, RATE)).into_data_stream();
        assert_eq!(stream.next().await.unwrap().unwrap(), "first");
        assert!(stream.next().await.unwrap().is_err());
        // Later polls fail, too: an incomplete body must not look complete.
        assert!(stream.next().await.unwrap().is_err());
    }

    #[tokio::test]
    async fn the_time_of_a_slow_reader_does_not_count() {
        let chunks = stream::iter(0..5).map(|_| Ok::<_, axum::Error>(Bytes::from_static(b"x")));
        let mut stream = Body::new(MinRateBody::new(Body::from_stream(chunks), RATE)).into_data_stream();
        let mut read = 0;
        while let Some(chunk) = stream.next().await {
            read += chunk.unwrap().len();
            tokio::time::sleep(RATE.window).await;
        }
        assert_eq!(read, 5);
    }
}
