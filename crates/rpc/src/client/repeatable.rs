//! A stream of bytes that can be sent again from its beginning, as long as it is small.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::Mutex;

use crate::ByteStream;

/// What is remembered. Most blobs are smaller; a larger one that fails midway is its sender's to repeat.
const REMEMBERED: usize = 8 << 20;
/// What all transfers of a client together remember. Those beyond it go once, like large ones.
const REMEMBERED_BY_ALL: usize = 64 << 20;

/// How many bytes the transfers of one client remember now.
#[derive(Clone, Default)]
pub(super) struct Memory(Arc<AtomicUsize>);

impl Memory {
    fn take(&self, bytes: usize) -> bool {
        let more = |used: usize| Some(used + bytes).filter(|used| *used <= REMEMBERED_BY_ALL);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[derive(Clone)]
pub(super) struct Repeatable(Arc<Mutex<State>>);

struct State {
    sent: Vec<Bytes>,
    /// Of those in `sent`.
    remembered: usize,
    /// A part was sent and not remembered.
    forgot: bool,
    memory: Memory,
    rest: ByteStream,
}

impl Repeatable {
    pub(super) fn new(rest: ByteStream, memory: Memory) -> Repeatable {
        Repeatable(Arc::new(Mutex::new(State {
            sent: Vec::new(),
            remembered: 0,
            forgot: false,
            memory,
            rest,
        })))
    }

    /// Whether all that was sent so far is remembered.
    pub(super) async fn may_repeat(&self) -> bool {
        !self.0.lock().await.forgot
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
        self.remember(&part);
        Some(part)
    }

    fn remember(&mut self, part: &Bytes) {
        let fits = self.remembered + part.len() <= REMEMBERED;
        if !self.forgot && fits && self.memory.take(part.len()) {
            self.remembered += part.len();
            self.sent.push(part.clone());
        } else {
            self.forgot = true;
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.sent = Vec::new();
        self.memory.give_back(std::mem::take(&mut self.remembered));
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(sizes: Vec<usize>) -> Repeatable {
        parts_in(&Memory::default(), sizes)
    }

    fn parts_in(memory: &Memory, sizes: Vec<usize>) -> Repeatable {
        let parts = stream::iter(sizes).map(|size| Ok(Bytes::from(vec![7; size])));
        Repeatable::new(parts.boxed(), memory.clone())
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

    #[tokio::test]
    async fn all_transfers_together_remember_no_more_than_their_bound() {
        let memory = Memory::default();
        let mut transfers = Vec::new();
        for number in 0..REMEMBERED_BY_ALL / REMEMBERED + 2 {
            let repeatable = parts_in(&memory, vec![REMEMBERED]);
            assert_eq!(sizes(repeatable.replay()).await, [REMEMBERED]);
            let is_within = number < REMEMBERED_BY_ALL / REMEMBERED;
            assert_eq!(repeatable.may_repeat().await, is_within, "{number}");
            transfers.push(repeatable);
        }
        drop(transfers);
        let later = parts_in(&memory, vec![1]);
        assert_eq!(sizes(later.replay()).await, [1]);
        assert!(later.may_repeat().await);
    }
}
