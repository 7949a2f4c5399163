//! Ends a transfer that does not go on, so that neither side is held by the other for ever.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::{ByteStream, CallError};

/// For how long no byte may come, or be taken. More than a judicator needs to sync what it was sent.
pub(crate) const STALL: Duration = Duration::from_secs(60);

fn stalled(what: &str) -> CallError {
    CallError::Unavailable(format!("{what} for {}s; the transfer was ended", STALL.as_secs()))
}

/// The same bytes, and an error in place of a wait that is too long.
pub(crate) fn bound_sender(
    bytes: impl Stream<Item = Result<Bytes, CallError>> + Send + 'static,
) -> ByteStream {
    stream::unfold(Some(bytes.boxed()), |bytes| async move {
        let mut bytes = bytes?;
        match timeout(STALL, bytes.next()).await {
            Ok(None) => None,
            Ok(Some(Ok(part))) => Some((Ok(part), Some(bytes))),
            Ok(Some(Err(error))) => Some((Err(error), None)),
            Err(_) => Some((Err(stalled("no byte came")), None)),
        }
    })
    .boxed()
}

/// The same bytes for a peer that may stop taking them: their source is let go then. What was already passed on, a few
/// parts, is held until the peer hangs up.
pub(crate) fn bound_receiver(mut bytes: ByteStream) -> ByteStream {
    let (sender, mut parts) = mpsc::channel(1);
    let (told, over) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        while let Some(part) = bytes.next().await {
            match timeout(STALL, sender.send(part)).await {
                Ok(Ok(())) => {}
                // The peer is gone.
                Ok(Err(_)) => return,
                Err(_) => {
                    let _ = told.send(stalled("no byte was taken"));
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

    fn part(bytes: &'static [u8]) -> Result<Bytes, CallError> {
        Ok(Bytes::from_static(bytes))
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_may_be_slow_but_not_silent() {
        let slow = stream::iter([b"a", b"b", b"c"]).then(async |bytes| {
            tokio::time::sleep(STALL * 9 / 10).await;
            part(bytes)
        });
        let mut bytes = bound_sender(slow.chain(stream::pending()));
        for expected in [b"a", b"b", b"c"] {
            assert_eq!(bytes.next().await.unwrap().unwrap(), &expected[..]);
        }
        let end = bytes.next().await;
        assert!(matches!(end, Some(Err(CallError::Unavailable(_)))), "{end:?}");
        assert!(bytes.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_receiver_may_be_slow_but_not_stop() {
        let whole = || stream::iter([part(b"a"), part(b"b"), part(b"c"), part(b"d")]);
        let mut bytes = bound_receiver(whole().boxed());
        for expected in [b"a", b"b", b"c", b"d"] {
            tokio::time::sleep(STALL * 9 / 10).await;
            assert_eq!(bytes.next().await.unwrap().unwrap(), &expected[..]);
        }
        assert!(bytes.next().await.is_none());

        let (held, released) = tokio::sync::oneshot::channel::<()>();
        let source = whole().chain(stream::once(async move {
            let _held = held;
            part(b"e")
        }));
        let mut bytes = bound_receiver(source.boxed());
        assert_eq!(bytes.next().await.unwrap().unwrap(), &b"a"[..]);
        // The source goes although nobody takes anything.
        assert!(released.await.is_err());
        let rest: Vec<_> = bytes.collect().await;
        assert!(
            matches!(rest.last(), Some(Err(CallError::Unavailable(_)))),
            "{rest:?}"
        );
        assert!(rest.len() < 4, "{rest:?}");
    }
}
