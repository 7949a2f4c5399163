//! A byte stream that can be sent again from the beginning, as long as it is small.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::Mutex;

use crate::ByteStream;

/// The most that one stream keeps for a replay. Most blobs are smaller. If a larger one fails midway, its sender must
/// send it again.
const MAX_REPLAY_BYTES: usize = 8 << 20;
/// The most that all streams of a client keep together. Streams beyond it cannot be replayed.
const MAX_TOTAL_REPLAY_BYTES: usize = 64 << 20;

/// Counts and limits the bytes of sent blobs that one RPC client keeps to send them again to another judicator.
#[derive(Clone, Default)]
pub(super) struct ReplayBudget(Arc<AtomicUsize>);

impl ReplayBudget {
    fn reserve(&self, bytes: usize) -> bool {
        let more = |used: usize| Some(used + bytes).filter(|used| *used <= MAX_TOTAL_REPLAY_BYTES);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    fn release(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A blob that the RPC client sends, of which it keeps the sent part to send it again to another judicator.
#[derive(Clone)]
pub(super) struct ReplayableStream(Arc<Mutex<ReplayState>>);

/// The sent part of a blob that the RPC client keeps for another judicator, and the rest of the stream.
struct ReplayState {
    sent: Vec<Bytes>,
    /// The bytes in `sent`.
    kept: usize,
    /// A chunk was sent that is not kept, so the stream cannot be replayed.
    dropped: bool,
    replay_budget: ReplayBudget,
    rest: ByteStream,
}

impl ReplayableStream {
    pub(super) fn new(rest: ByteStream, replay_budget: ReplayBudget) -> ReplayableStream {
        ReplayableStream(Arc::new(Mutex::new(ReplayState {
            sent: Vec::new(),
            kept: 0,
            dropped: false,
            replay_budget,
            rest,
        })))
    }

    /// Whether everything sent until now is kept.
    pub(super) async fn can_replay(&self) -> bool {
        !self.0.lock().await.dropped
    }

    /// Streams the bytes from the beginning. If the source fails, the stream ends early.
    pub(super) fn replay(&self) -> BoxStream<'static, Bytes> {
        let state = self.0.clone();
        stream::unfold((state, 0), |(state, at)| async move {
            let part = state.lock().await.part(at).await?;
            Some((part, (state, at + 1)))
        })
        .boxed()
    }
}

impl ReplayState {
    async fn part(&mut self, at: usize) -> Option<Bytes> {
        if let Some(part) = self.sent.get(at) {
            return Some(part.clone());
        }
        let part = self.rest.next().await?.ok()?;
        self.keep(&part);
        Some(part)
    }

    fn keep(&mut self, part: &Bytes) {
        let fits = self.kept + part.len() <= MAX_REPLAY_BYTES;
        if !self.dropped && fits && self.replay_budget.reserve(part.len()) {
            self.kept += part.len();
            self.sent.push(part.clone());
        } else {
            self.dropped = true;
            self.drop_kept();
        }
    }

    fn drop_kept(&mut self) {
        self.sent = Vec::new();
        self.replay_budget.release(std::mem::take(&mut self.kept));
    }
}

impl Drop for ReplayState {
    fn drop(&mut self) {
        self.drop_kept();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(sizes: Vec<usize>) -> ReplayableStream {
        parts_in(&ReplayBudget::default(), sizes)
    }

    fn parts_in(replay_budget: &ReplayBudget, sizes: Vec<usize>) -> ReplayableStream {
        let parts = stream::iter(sizes).map(|size| Ok(Bytes::from(vec![7; size])));
        ReplayableStream::new(parts.boxed(), replay_budget.clone())
    }

    async fn sizes(stream: BoxStream<'static, Bytes>) -> Vec<usize> {
        stream.map(|part| part.len()).collect().await
    }

    #[tokio::test]
    async fn a_replay_sends_the_kept_chunks_and_then_the_rest() {
        let stream = parts(vec![1, 2, 3]);
        let mut first = stream.replay();
        assert_eq!(first.next().await.map(|part| part.len()), Some(1));
        drop(first);
        assert!(stream.can_replay().await);
        assert_eq!(sizes(stream.replay()).await, [1, 2, 3]);
    }

    #[tokio::test]
    async fn a_large_stream_cannot_be_replayed() {
        let stream = parts(vec![MAX_REPLAY_BYTES, 1, 1]);
        assert_eq!(sizes(stream.replay()).await, [MAX_REPLAY_BYTES, 1, 1]);
        assert!(!stream.can_replay().await);
    }

    #[tokio::test]
    async fn all_streams_together_stay_within_the_replay_budget() {
        let replay_budget = ReplayBudget::default();
        let mut transfers = Vec::new();
        for number in 0..MAX_TOTAL_REPLAY_BYTES / MAX_REPLAY_BYTES + 2 {
            let stream = parts_in(&replay_budget, vec![MAX_REPLAY_BYTES]);
            assert_eq!(sizes(stream.replay()).await, [MAX_REPLAY_BYTES]);
            let is_within = number < MAX_TOTAL_REPLAY_BYTES / MAX_REPLAY_BYTES;
            assert_eq!(stream.can_replay().await, is_within, "{number}");
            transfers.push(stream);
        }
        drop(transfers);
        let later = parts_in(&replay_budget, vec![1]);
        assert_eq!(sizes(later.replay()).await, [1]);
        assert!(later.can_replay().await);
    }
}
