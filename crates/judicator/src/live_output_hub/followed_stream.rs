//! One output stream of an attempt that somebody follows: the reader that all followers share, and each follower.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use model::{AttemptId, OutputContent, OutputPosition, OutputSource};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::output_connection::OutputConnection;
use super::ring_budget::RingReservation;
use super::stream_ring::{RingPiece, StreamRing, StreamTail};

/// The pause before an executor is asked again that did not know the attempt: it may not have received it yet.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(500);
/// If all permits for open reads are taken, each reader returns its permit after this time, so that others get one.
const PERMIT_TURN: Duration = Duration::from_secs(1);
/// Bytes that have left a ring exist at the executor, so it sends them at once.
const OWN_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// An output stream of an attempt that at least one call follows.
pub(super) struct FollowedStream {
    state: Mutex<FollowedState>,
    /// Changes whenever the ring does.
    changes: watch::Sender<()>,
    /// Wakes the reader: a follower waits for more, or the place to read has changed.
    wanted: Notify,
    /// Cancelled when the last follower has left.
    stop: CancellationToken,
}

/// The state that the followers of an output stream share with its reader.
struct FollowedState {
    ring: StreamRing,
    reservation: RingReservation,
    followers: usize,
    /// Whether a follower has waited at the end of the ring since the last bytes came.
    is_wanted: bool,
    /// Counts how often the place of the reader was changed.
    moves: u64,
}

/// One follower of an output stream of an attempt. When the last one is dropped, nothing is read any more.
pub(crate) struct StreamFollower {
    connection: Arc<OutputConnection>,
    stream: Arc<FollowedStream>,
    changes: watch::Receiver<()>,
    attempt_id: AttemptId,
    source: OutputSource,
}

/// What comes next in an output stream that is followed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StreamPiece {
    Bytes(Bytes),
    Ended { truncated: bool },
}

impl StreamFollower {
    /// Begins to follow a stream. The first follower starts the reader.
    pub(crate) fn new(
        connection: Arc<OutputConnection>,
        attempt_id: AttemptId,
        at: OutputPosition,
    ) -> StreamFollower {
        let key = (attempt_id, at.source);
        let mut streams = connection.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = streams.entry(key).or_insert_with(|| {
            let stream = FollowedStream::new(at.offset, connection.ring_budget.reservation());
            let reader = stream
                .clone()
                .read_while_followed(connection.clone(), attempt_id, at.source);
            #[expect(
                clippy::disallowed_methods,
                reason = "ends with its last follower or its connection"
            )]
            tokio::spawn(reader);
            stream
        });
        let stream = stream.clone();
        let changes = stream.changes.subscribe();
        stream.on_follower(at.offset);
        drop(streams);
        StreamFollower {
            connection,
            stream,
            changes,
            attempt_id,
            source: at.source,
        }
    }

    /// Waits for bytes at the offset, or for the end of the stream. Never returns if the connection ends.
    pub(crate) async fn next(&mut self, offset: u64) -> StreamPiece {
        loop {
            self.changes.mark_unchanged();
            match self.stream.piece_at(offset) {
                RingPiece::Bytes(bytes) => return StreamPiece::Bytes(bytes),
                RingPiece::Ended(StreamTail { truncated }) => return StreamPiece::Ended { truncated },
                RingPiece::Behind => {
                    if let Some(piece) = self.read_behind(offset).await {
                        return piece;
                    }
                }
                RingPiece::NotYet => {
                    // The sender lives as long as this follower.
                    let _ = self.changes.changed().await;
                }
            }
        }
    }

    /// Reads bytes that have left the ring.
    ///
    /// In a task of its own, which ends with the caller: a follower whose client does not read is not polled, and would
    /// otherwise hold a permit that others wait for.
    async fn read_behind(&self, offset: u64) -> Option<StreamPiece> {
        let (connection, attempt_id) = (self.connection.clone(), self.attempt_id);
        let at = OutputPosition {
            source: self.source,
            offset,
        };
        let mut reading = JoinSet::new();
        reading.spawn(async move {
            let _permit = connection.own_read_permit().await;
            timeout(OWN_READ_TIMEOUT, connection.read(attempt_id, at)).await
        });
        match reading.join_next().await {
            Some(Ok(Ok(OutputContent::Bytes(bytes)))) => Some(StreamPiece::Bytes(bytes)),
            Some(Ok(Ok(OutputContent::Ended { truncated }))) => Some(StreamPiece::Ended { truncated }),
            // The executor has forgotten the attempt. The task is done, or will be tried again.
            Some(Ok(Ok(OutputContent::Unknown) | Err(_)) | Err(_)) | None => {
                sleep(MAX_PAUSE).await;
                None
            }
        }
    }
}

impl Drop for StreamFollower {
    fn drop(&mut self) {
        let mut streams = self
            .connection
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut state = self.stream.lock();
        state.followers -= 1;
        if state.followers == 0 {
            streams.remove(&(self.attempt_id, self.source));
            self.stream.stop.cancel();
        }
    }
}

impl FollowedStream {
    fn new(offset: u64, reservation: RingReservation) -> Arc<FollowedStream> {
        Arc::new(FollowedStream {
            state: Mutex::new(FollowedState {
                ring: StreamRing::starting_at(offset),
                reservation,
                followers: 0,
                is_wanted: false,
                moves: 0,
            }),
            changes: watch::Sender::default(),
            wanted: Notify::new(),
            stop: CancellationToken::new(),
        })
    }

    fn on_follower(&self, offset: u64) {
        let mut state = self.lock();
        state.followers += 1;
        if state.ring.on_follower(offset) {
            state.moves += 1;
            self.wanted.notify_one();
        }
    }

    fn piece_at(&self, offset: u64) -> RingPiece {
        let mut state = self.lock();
        // The only follower does not need what it has read. One that comes later reads it for itself.
        if state.followers == 1 {
            state.ring.forget_before(offset);
            state.return_unused();
        }
        let piece = state.ring.piece_at(offset);
        if piece == RingPiece::NotYet && !state.is_wanted {
            state.is_wanted = true;
            self.wanted.notify_one();
        }
        piece
    }

    /// Reads at the end of the ring while a follower waits there.
    async fn read_while_followed(
        self: Arc<Self>,
        connection: Arc<OutputConnection>,
        attempt_id: AttemptId,
        source: OutputSource,
    ) {
        tokio::select! {
            () = self.read_to_the_end(&connection, attempt_id, source) => {}
            () = self.stop.cancelled() => {}
            () = connection.closed() => {}
        }
    }

    async fn read_to_the_end(
        &self,
        connection: &OutputConnection,
        attempt_id: AttemptId,
        source: OutputSource,
    ) {
        let mut pause = FIRST_PAUSE;
        loop {
            let Some((offset, moves)) = self.wanted_place() else {
                self.wanted.notified().await;
                continue;
            };
            let permit = connection.shared_read_permit().await;
            let at = OutputPosition { source, offset };
            let content = tokio::select! {
                content = connection.read(attempt_id, at) => content,
                () = self.moved_from(moves) => continue,
                () = others_wait(connection) => continue,
            };
            drop(permit);
            match content {
                OutputContent::Unknown => {
                    sleep(pause).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                    continue;
                }
                content => pause = self.on_content(content, moves),
            }
            if self.lock().ring.is_complete() {
                return;
            }
        }
    }

    /// Where to read next, if a follower waits there, and how often this place was changed.
    fn wanted_place(&self) -> Option<(u64, u64)> {
        let state = self.lock();
        state.is_wanted.then(|| (state.ring.end(), state.moves))
    }

    async fn moved_from(&self, moves: u64) {
        while self.lock().moves == moves {
            self.wanted.notified().await;
        }
    }

    /// Returns the pause after the next failure.
    fn on_content(&self, content: OutputContent, moves: u64) -> Duration {
        let mut state = self.lock();
        if state.moves == moves {
            match content {
                OutputContent::Bytes(bytes) => state.push(&bytes),
                OutputContent::Ended { truncated } => state.ring.on_ended(StreamTail { truncated }),
                OutputContent::Unknown => {}
            }
            state.is_wanted = false;
            self.changes.send_replace(());
        }
        FIRST_PAUSE
    }

    fn lock(&self) -> MutexGuard<'_, FollowedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FollowedState {
    /// Appends bytes to the ring, which gets as much room as the budget allows.
    fn push(&mut self, bytes: &[u8]) {
        let wanted = (self.ring.len() + bytes.len()).min(StreamRing::CAPACITY);
        let capacity = self.reservation.resize(wanted);
        self.ring.push(bytes, capacity);
        self.return_unused();
    }

    fn return_unused(&mut self) {
        self.reservation.resize(self.ring.len());
    }
}

/// Returns after a while if other readers wait for a permit.
async fn others_wait(connection: &OutputConnection) {
    loop {
        sleep(PERMIT_TURN).await;
        if connection.shared_reads.available_permits() == 0 {
            return;
        }
    }
}
