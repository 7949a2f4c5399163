//! A request's body that ends with an error when the client sends it too slowly.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use crate::pace::{LeastRate, Pacer};

pub(crate) struct PacedBody {
    body: Body,
    pacer: Pacer,
    too_slow: bool,
}

impl PacedBody {
    pub(crate) fn new(body: Body, rate: LeastRate) -> PacedBody {
        PacedBody {
            body,
            pacer: Pacer::new(rate),
            too_slow: false,
        }
    }

    pub(crate) fn is_too_slow(&self) -> bool {
        self.too_slow
    }
}

impl HttpBody for PacedBody {
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
                    this.pacer.on_progress(frame.data_ref().map_or(0, Bytes::len));
                }
                Poll::Ready(frame)
            }
            Poll::Pending => match this.pacer.poll_too_slow(context) {
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
    axum::Error::new("the client sends too slowly")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::{StreamExt, stream};

    use super::*;

    const RATE: LeastRate = LeastRate {
        bytes_per_second: 1024,
        window: Duration::from_millis(50),
    };

    #[tokio::test]
    async fn a_body_that_stops_coming_ends_with_an_error() {
        let first = stream::iter([Ok::<_, axum::Error>(Bytes::from_static(b"first"))]);
        let body = Body::from_stream(first.chain(stream::pending()));
        let mut stream = Body::new(PacedBody::new(body, RATE)).into_data_stream();
        assert_eq!(stream.next().await.unwrap().unwrap(), "first");
        assert!(stream.next().await.unwrap().is_err());
        // It stays broken: half a body must not look whole.
        assert!(stream.next().await.unwrap().is_err());
    }

    #[tokio::test]
    async fn a_reader_that_takes_its_time_is_not_the_client_being_slow() {
        let chunks = stream::iter(0..5).map(|_| Ok::<_, axum::Error>(Bytes::from_static(b"x")));
        let mut stream = Body::new(PacedBody::new(Body::from_stream(chunks), RATE)).into_data_stream();
        let mut read = 0;
        while let Some(chunk) = stream.next().await {
            read += chunk.unwrap().len();
            tokio::time::sleep(RATE.window).await;
        }
        assert_eq!(read, 5);
    }
}
