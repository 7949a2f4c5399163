//! A stream of bytes that can be sent again from its beginning, as long as it is small.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::Mutex;

use crate::ByteStream;

/// What is remembered. Most blobs are smaller; a larger one that fails midway is its sender's to repeat.
const REMEMBERED: usize = 8 << 20;

#[derive(Clone)]
pub(super) struct Repeatable(Arc<Mutex<State>>);

struct State {
    sent: Vec<Bytes>,
    bytes: usize,
    rest: ByteStream,
}

impl Repeatable {
    pub(super) fn new(rest: ByteStream) -> Repeatable {
        Repeatable(Arc::new(Mutex::new(State {
            sent: Vec::new(),
            bytes: 0,
            rest,
        })))
    }

    /// Whether all that was sent so far is remembered.
    pub(super) async fn may_repeat(&self) -> bool {
        self.0.lock().await.bytes <= REMEMBERED
    }

    /// From the beginning. If the stream itself fails it ends early.
    pub(super) fn replay(&self) -> BoxStream<'static, Bytes> {
        let state = self.0.clone();
        stream::unfold((state, 0), |(state, at)| async move {
            let part = state.lock().await.part(at).await?;
            Some((part, (state, at + 1)))
        })
        .boxed()
    }
}

impl State {
    async fn part(&mut self, at: usize) -> Option<Bytes> {
        if let Some(part) = self.sent.get(at) {
            return Some(part.clone());
        }
        let part = self.rest.next().await?.ok()?;
        self.bytes += part.len();
        if self.bytes > REMEMBERED {
            self.sent.clear();
            self.sent.shrink_to_fit();
        } else {
            self.sent.push(part.clone());
        }
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(sizes: Vec<usize>) -> Repeatable {
        Repeatable::new(
            stream::iter(sizes)
                .map(|size| Ok(Bytes::from(vec![7; size])))
                .boxed(),
        )
    }

    async fn sizes(stream: BoxStream<'static, Bytes>) -> Vec<usize> {
        stream.map(|part| part.len()).collect().await
    }

    #[tokio::test]
    async fn what_was_sent_is_sent_again_and_then_the_rest() {
        let repeatable = parts(vec![1, 2, 3]);
        let mut first = repeatable.replay();
        assert_eq!(first.next().await.map(|part| part.len()), Some(1));
        drop(first);
        assert!(repeatable.may_repeat().await);
        assert_eq!(sizes(repeatable.replay()).await, [1, 2, 3]);
    }

    #[tokio::test]
    async fn what_is_large_goes_once() {
        let repeatable = parts(vec![REMEMBERED, 1, 1]);
        assert_eq!(sizes(repeatable.replay()).await, [REMEMBERED, 1, 1]);
        assert!(!repeatable.may_repeat().await);
    }
}
