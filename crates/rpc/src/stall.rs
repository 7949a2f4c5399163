//! Ends a transfer that does not go on, so that neither side is held by the other for ever.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::{ByteStream, CallError};

/// For how long no byte may come, or be taken. More than a judicator needs to sync what it was sent.
pub(crate) const STALL: Duration = Duration::from_secs(60);

fn stalled(what: &str, stall: Duration) -> CallError {
    CallError::Unavailable(format!("{what} for {stall:?}; the transfer was ended"))
}

/// The same bytes, and an error in place of a wait that is too long.
pub(crate) fn bound_sender(
    bytes: impl Stream<Item = Result<Bytes, CallError>> + Send + 'static,
    stall: Duration,
) -> ByteStream {
    stream::unfold(Some(bytes.boxed()), move |bytes| async move {
        let mut bytes = bytes?;
        match timeout(stall, bytes.next()).await {
            Ok(None) => None,
            Ok(Some(Ok(part))) => Some((Ok(part), Some(bytes))),
            Ok(Some(Err(error))) => Some((Err(error), None)),
            Err(_) => Some((Err(stalled("no byte came", stall)), None)),
        }
    })
    .boxed()
}

/// The same bytes for a peer that may stop taking them: their source is let go then. What was already passed on, a few
/// parts, is held until the peer hangs up.
pub(crate) fn bound_receiver(mut bytes: ByteStream, stall: Duration) -> ByteStream {
    let (sender, mut parts) = mpsc::channel(1);
    let (told, over) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        loop {
            let part = tokio::select! {
                part = bytes.next() => part,
                // The peer is gone, and the source may hang for long.
                () = sender.closed() => return,
            };
            let Some(part) = part else { return };
            match timeout(stall, sender.send(part)).await {
                Ok(Ok(())) => {}
                // The peer is gone.
                Ok(Err(_)) => return,
                Err(_) => {
                    let _ = told.send(stalled("no byte was taken", stall));
                    return;
                }
            }
        }
    });
    let parts = stream::poll_fn(move |context| parts.poll_recv(context));
    // Else a peer that goes on after all would take what it got for the whole.
    let error = stream::once(over).filter_map(|told| async move { told.ok().map(Err) });
    parts.chain(error.boxed()).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    /// No transfer stands still for so long, even on a busy machine.
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
    async fn what_goes_on_is_passed_on_whole() {
        assert_eq!(text(bound_sender(whole(), LONG)).await, b"abcd");
        assert_eq!(text(bound_receiver(whole().boxed(), LONG)).await, b"abcd");
    }

    #[tokio::test]
    async fn a_sender_that_falls_silent_is_an_error() {
        let mut bytes = bound_sender(whole().chain(stream::pending()), SHORT);
        for expected in [b"a", b"b", b"c", b"d"] {
            assert_eq!(bytes.next().await.unwrap().unwrap(), &expected[..]);
        }
        let end = bytes.next().await;
        assert!(matches!(end, Some(Err(CallError::Unavailable(_)))), "{end:?}");
        assert!(bytes.next().await.is_none());
    }

    #[tokio::test]
    async fn a_receiver_that_is_gone_lets_a_source_go_that_hangs() {
        let (held, released) = tokio::sync::oneshot::channel::<()>();
        let source = stream::once(async move {
            let _held = held;
            futures::future::pending().await
        });
        drop(bound_receiver(source.boxed(), LONG));
        let released = timeout(LONG / 6, released).await;
        assert!(released.expect("the source is held").is_err());
    }

    #[tokio::test]
    async fn a_receiver_that_stops_lets_the_source_go_and_sees_an_error() {
        let (held, released) = tokio::sync::oneshot::channel::<()>();
        let source = whole().chain(stream::once(async move {
            let _held = held;
            part(b"e")
        }));
        let bytes = bound_receiver(source.boxed(), SHORT);
        // The source goes although nobody takes anything.
        assert!(released.await.is_err());
        let rest: Vec<_> = bytes.collect().await;
        assert!(
            matches!(rest.last(), Some(Err(CallError::Unavailable(_)))),
            "{rest:?}"
        );
        assert!(rest.len() < 5, "{rest:?}");
    }
}
