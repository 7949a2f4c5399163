//! The newest bytes of an output stream that is followed: pure state, without waiting.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// The newest bytes of an output stream, which all of its followers share.
#[derive(Debug, Default)]
pub(super) struct StreamRing {
    start: u64,
    end: u64,
    chunks: VecDeque<Bytes>,
    /// Whether bytes have been read. Until then `start` is only what a follower has asked for, and the stream may be shorter.
    is_confirmed: bool,
    ended: Option<StreamTail>,
}

/// How an output stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamTail {
    /// Whether the step wrote more than is kept.
    pub(super) truncated: bool,
}

/// What the ring of a stream has for a follower.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RingPiece {
    Bytes(Bytes),
    Ended(StreamTail),
    /// The bytes have left the ring. The follower has to read them itself.
    Behind,
    /// The bytes are not read yet.
    NotYet,
}

impl StreamRing {
    pub(super) const CAPACITY: usize = 256 << 10;
    /// Smaller chunks are joined, so that many short writes need little memory.
    const MIN_CHUNK: usize = 4 << 10;

    pub(super) fn starting_at(offset: u64) -> StreamRing {
        StreamRing {
            start: offset,
            end: offset,
            ..StreamRing::default()
        }
    }

    /// Where the reader continues.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// How many bytes the ring has.
    pub(super) fn len(&self) -> usize {
        usize::try_from(self.end - self.start).unwrap_or(usize::MAX)
    }

    /// Whether the stream was read to its end, so that the place of the reader never changes again.
    pub(super) fn is_complete(&self) -> bool {
        self.is_confirmed && self.ended.is_some()
    }

    /// A follower begins at this offset. If no bytes have been read yet, the reader has to begin there, also when the stream
    /// has ended before the place where another follower began. Returns whether the place of the reader has changed.
    pub(super) fn on_follower(&mut self, offset: u64) -> bool {
        let moves = !self.is_confirmed && offset < self.start;
        if moves {
            (self.start, self.end) = (offset, offset);
            self.ended = None;
        }
        moves
    }

    /// Drops the chunks before this offset, which no follower needs any more.
    pub(super) fn forget_before(&mut self, offset: u64) {
        while let Some(oldest) = self.chunks.front()
            && self.start + oldest.len() as u64 <= offset
        {
            self.drop_oldest();
        }
    }

    pub(super) fn piece_at(&self, offset: u64) -> RingPiece {
        if offset < self.start {
            return RingPiece::Behind;
        }
        if offset >= self.end {
            return match self.ended {
                Some(tail) => RingPiece::Ended(tail),
                None => RingPiece::NotYet,
            };
        }
        let mut chunk_start = self.start;
        for chunk in &self.chunks {
            let chunk_end = chunk_start + chunk.len() as u64;
            if offset < chunk_end {
                let skipped = usize::try_from(offset - chunk_start).unwrap_or(chunk.len());
                return RingPiece::Bytes(chunk.slice(skipped..));
            }
            chunk_start = chunk_end;
        }
        RingPiece::Behind
    }

    /// Appends bytes that were read at the end, and drops the oldest chunks beyond the capacity.
    pub(super) fn push(&mut self, bytes: &[u8], capacity: usize) {
        self.is_confirmed = true;
        self.end += bytes.len() as u64;
        // The bytes are copied, because they may share memory with a larger message.
        match self.chunks.back_mut() {
            Some(last) if last.len() < StreamRing::MIN_CHUNK => {
                let mut joined = BytesMut::with_capacity(last.len() + bytes.len());
                joined.extend_from_slice(last);
                joined.extend_from_slice(bytes);
                *last = joined.freeze();
            }
            _ => self.chunks.push_back(Bytes::copy_from_slice(bytes)),
        }
        while self.len() > capacity && !self.chunks.is_empty() {
            self.drop_oldest();
        }
    }

    /// The stream has no bytes at the end of the ring, and never will.
    pub(super) fn on_ended(&mut self, tail: StreamTail) {
        self.ended = Some(tail);
    }

    fn drop_oldest(&mut self) {
        let length = self.chunks.pop_front().map_or(0, |oldest| oldest.len());
        self.start += length as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(ring: &StreamRing, offset: u64) -> String {
        match ring.piece_at(offset) {
            RingPiece::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn followers_find_their_place() {
        let mut ring = StreamRing::starting_at(10);
        ring.push(b"abc", StreamRing::CAPACITY);
        ring.push(b"de", StreamRing::CAPACITY);
        assert_eq!((text(&ring, 10), text(&ring, 14)), ("abcde".into(), "e".into()));
        assert_eq!(ring.piece_at(15), RingPiece::NotYet);
        assert_eq!(ring.piece_at(99), RingPiece::NotYet);
        assert_eq!(ring.piece_at(9), RingPiece::Behind);
        let tail = StreamTail { truncated: true };
        ring.on_ended(tail);
        assert_eq!(text(&ring, 10), "abcde");
        for offset in [15, 99] {
            assert_eq!(ring.piece_at(offset), RingPiece::Ended(tail));
        }
    }

    #[test]
    fn the_oldest_bytes_leave_the_ring() {
        let mut ring = StreamRing::default();
        let chunk = vec![7; 64 << 10];
        for _ in 0..100 {
            ring.push(&chunk, StreamRing::CAPACITY);
        }
        assert_eq!(ring.end(), 100 * (64 << 10));
        assert_eq!(ring.end() - ring.start, StreamRing::CAPACITY as u64);
        assert_eq!(ring.piece_at(ring.start - 1), RingPiece::Behind);
        assert!(matches!(ring.piece_at(ring.start), RingPiece::Bytes(_)));
        // A chunk that is larger than the ring leaves it empty, and its followers read for themselves.
        let mut small = StreamRing::default();
        small.push(&vec![1; StreamRing::CAPACITY + 1], StreamRing::CAPACITY);
        assert_eq!(small.piece_at(0), RingPiece::Behind);
    }

    #[test]
    fn short_writes_are_joined() {
        let mut ring = StreamRing::default();
        for _ in 0..StreamRing::CAPACITY {
            ring.push(b"x", StreamRing::CAPACITY);
        }
        assert!(ring.chunks.len() <= StreamRing::CAPACITY / StreamRing::MIN_CHUNK);
        assert_eq!(text(&ring, 5).len(), StreamRing::MIN_CHUNK - 5);
    }

    #[test]
    fn a_ring_keeps_the_chunk_that_its_only_follower_reads() {
        let mut ring = StreamRing::default();
        for _ in 0..3 {
            ring.push(&[7; 5000], StreamRing::CAPACITY);
        }
        ring.forget_before(4999);
        assert_eq!(ring.len(), 15_000);
        ring.forget_before(10_001);
        assert_eq!((ring.start, ring.len()), (10_000, 5000));
        assert!(matches!(ring.piece_at(10_001), RingPiece::Bytes(_)));
        ring.forget_before(99_999);
        assert_eq!((ring.start, ring.end(), ring.len()), (15_000, 15_000, 0));
        ring.push(b"abc", StreamRing::CAPACITY);
        assert_eq!(text(&ring, 15_000), "abc");
    }

    #[test]
    fn a_ring_without_capacity_only_knows_its_place() {
        let mut ring = StreamRing::default();
        ring.push(b"abc", 0);
        assert_eq!((ring.end(), ring.len()), (3, 0));
        assert_eq!(ring.piece_at(0), RingPiece::Behind);
        assert_eq!(ring.piece_at(3), RingPiece::NotYet);
    }

    /// A follower may ask for an offset that the stream never reaches. It must not keep the others from the stream.
    #[test]
    fn a_ring_without_bytes_moves_to_the_lowest_follower() {
        let mut ring = StreamRing::starting_at(1000);
        assert!(!ring.on_follower(2000));
        // The stream has fewer bytes.
        ring.on_ended(StreamTail { truncated: false });
        assert!(matches!(ring.piece_at(1000), RingPiece::Ended(_)));
        assert!(!ring.is_complete());
        assert!(ring.on_follower(5));
        assert_eq!(ring.end(), 5);
        ring.push(b"abc", StreamRing::CAPACITY);
        assert!(!ring.on_follower(2));
        assert_eq!(ring.piece_at(2), RingPiece::Behind);
    }
}
