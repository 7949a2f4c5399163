//! Ends a transfer that makes no progress, so that neither side waits for the other for ever.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::{ByteStream, CallError};

/// How long a transfer may go without progress. It is longer than a judicator needs to sync a blob to disk.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(60);

fn stall_error(what: &str, stall: Duration) -> CallError {
    CallError::Unavailable(format!("{what} for {stall:?}; the transfer was aborted"))
}

/// Passes the bytes on, and ends with an error if the sender stalls.
pub(crate) fn fail_if_sender_stalls(
    bytes: impl Stream<Item = Result<Bytes, CallError>> + Send + 'static,
    stall: Duration,
) -> ByteStream {
    stream::unfold(Some(bytes.boxed()), move |bytes| async move {
        let mut bytes = bytes?;
        match timeout(stall, bytes.next()).await {
            Ok(None) => None,
            Ok(Some(Ok(part))) => Some((Ok(part), Some(bytes))),
            Ok(Some(Err(error))) => Some((Err(error), None)),
            Err(_) => Some((Err(stall_error("received no bytes", stall)), None)),
        }
    })
    .boxed()
}

/// Passes the bytes on, and drops their source if the receiver stalls. The few chunks that were already passed on stay in
/// memory until the receiver disconnects.
pub(crate) fn fail_if_receiver_stalls(mut bytes: ByteStream, stall: Duration) -> ByteStream {
    let (sender, mut parts) = mpsc::channel(1);
    let (send_error, stalled) = tokio::sync::oneshot::channel();
    #[expect(clippy::disallowed_methods, reason = "ends with the stream")]
    tokio::spawn(async move {
        loop {
            let part = tokio::select! {
                part = bytes.next() => part,
                // The receiver is gone, and the source may hang for long.
                () = sender.closed() => return,
            };
            let Some(part) = part else { return };
            match timeout(stall, sender.send(part)).await {
                Ok(Ok(())) => {}
                // The receiver is gone.
                Ok(Err(_)) => return,
                Err(_) => {
                    let _ = send_error.send(stall_error("the receiver took no bytes", stall));
                    return;
                }
            }
        }
    });
    let parts = stream::poll_fn(move |context| parts.poll_recv(context));
    // Without this error a receiver that continues later would treat the partial content as complete.
    let error = stream::once(stalled).filter_map(|error| async move { error.ok().map(Err) });
    parts.chain(error.boxed()).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    /// No transfer stalls for this long, even on a busy machine.
    const LONG: Duration = Duration::from_secs(60);

    fn part(bytes: &'static [u8]) -> Result<Bytes, CallError> {
        Ok(Bytes::from_static(bytes))
    }

    fn whole() -> impl Stream<Item = Result<Bytes, CallError>> {
        stream::iter([part(b"a"), part(b"b"), part(b"c"), part(b"d")])
    }

    async fn text(bytes: ByteStream) -> Vec<u8> {
        let parts: Vec<_> = bytes.map(Result::unwrap).collect().await;
        parts.concat()
    }

    #[tokio::test]
    async fn a_transfer_with_progress_is_passed_on_completely() {
        assert_eq!(text(fail_if_sender_stalls(whole(), LONG)).await, b"abcd");
        assert_eq!(
            text(fail_if_receiver_stalls(whole().boxed(), LONG)).await,
            b"abcd"
        );
    }

    #[tokio::test]
    async fn a_sender_that_stalls_is_an_error() {
        let mut bytes = fail_if_sender_stalls(whole().chain(stream::pending()), SHORT);
        for expected in [b"a", b"b", b"c", b"d"] {
            assert_eq!(bytes.next().await.unwrap().unwrap(), &expected[..]);
        }
        let end = bytes.next().await;
        assert!(matches!(end, Some(Err(CallError::Unavailable(_)))), "{end:?}");
        assert!(bytes.next().await.is_none());
    }

    #[tokio::test]
    async fn a_source_that_hangs_is_dropped_when_the_receiver_is_gone() {
        let (held, released) = tokio::sync::oneshot::channel::<()>();
        let source = stream::once(async move {
            let _held = held;
            futures::future::pending().await
        });
        drop(fail_if_receiver_stalls(source.boxed(), LONG));
        let released = timeout(LONG / 6, released).await;
        assert!(released.expect("the source is not dropped").is_err());
    }

    #[tokio::test]
    async fn a_receiver_that_stalls_frees_the_source_and_gets_an_error() {
        let (held, released) = tokio::sync::oneshot::channel::<()>();
        let source = whole().chain(stream::once(async move {
            let _held = held;
            part(b"e")
        }));
        let bytes = fail_if_receiver_stalls(source.boxed(), SHORT);
        // The source is dropped although the receiver takes nothing.
        assert!(released.await.is_err());
        let rest: Vec<_> = bytes.collect().await;
        assert!(
            matches!(rest.last(), Some(Err(CallError::Unavailable(_)))),
            "{rest:?}"
        );
        assert!(rest.len() < 5, "{rest:?}");
    }
}
