//! Decides which blob is uploaded next.
//!
//! A pure state machine: callers pass the time in. Results take turns, so that a result with many or large blobs does not
//! delay the others. Blobs of different sizes are uploaded beside each other: a blob never waits for one that is much
//! larger, which may take hours on a slow line. A blob that several results name is uploaded once.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use model::{AttemptId, BlobHash};
use tokio_util::sync::CancellationToken;

/// A blob with more bytes than this is large.
const SMALL_BYTES: u64 = 1 << 20;
/// The bounds between the classes of large blobs.
const LARGE_BYTES: [u64; 3] = [8 << 20, 64 << 20, 512 << 20];
const LARGE_CLASSES: usize = LARGE_BYTES.len() + 1;
/// How many large blobs of each class are uploaded at the same time.
const MAX_LARGE_UPLOADS: usize = 4;
/// How many of them may belong to one result while another result has a large blob to upload.
const MAX_LARGE_UPLOADS_OF_RESULT: usize = 3;
/// How many small blobs are uploaded at the same time, because a store syncs many of them together.
const MAX_SMALL_UPLOADS: usize = 64;
/// How many bytes the small blobs that are being uploaded have together at most.
const MAX_SMALL_BYTES: u64 = 8 << 20;
/// A file that could not be read this often counts as lost; that is after more than a minute.
const MAX_READ_FAILURES: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The blobs that an executor has to upload before it can report the results that name them.
#[derive(Default)]
pub(crate) struct UploadQueue {
    results: HashMap<AttemptId, PendingUploads>,
    blobs: HashMap<BlobHash, PendingBlob>,
    /// Blobs that can be uploaded now and whose size is not known yet. Some of them may no longer be needed.
    unsized_blobs: Vec<BlobHash>,
    /// The results that have a small blob to upload now, in the order of their turns.
    small_turns: VecDeque<AttemptId>,
    /// The same for each class of large blobs, with those that are being uploaded.
    large: [LargeUploads; LARGE_CLASSES],
    /// Blobs that the store may already have. Some of them may no longer be needed.
    unchecked: VecDeque<BlobHash>,
    /// Blobs whose upload has failed, with the time of the next try.
    retries: BTreeSet<(Instant, BlobHash)>,
    small_uploads: usize,
    /// The size of the small blobs that are being uploaded.
    small_bytes: u64,
    /// Calls that have failed since the last one that succeeded.
    failures: u32,
    /// No upload and no check starts before this time.
    paused_until: Option<Instant>,
}

/// One class of large blobs in an [`UploadQueue`].
#[derive(Default)]
struct LargeUploads {
    /// The results that have such a blob to upload now, in the order of their turns.
    turns: VecDeque<AttemptId>,
    /// The blobs that are being uploaded, with the result whose turn it was.
    running: Vec<(BlobHash, AttemptId)>,
}

/// The blobs of one result in an [`UploadQueue`].
#[derive(Default)]
struct PendingUploads {
    missing: BTreeSet<BlobHash>,
    /// Those of the missing ones that can be uploaded now, in this result's turn.
    small: VecDeque<BlobHash>,
    large: [VecDeque<BlobHash>; LARGE_CLASSES],
}

/// One blob in an [`UploadQueue`].
struct PendingBlob {
    /// Empty if the results were dropped while the blob was being uploaded.
    needed_by: Vec<AttemptId>,
    phase: UploadPhase,
    /// Known once it waits for the turn of a result.
    size: u64,
    failures: u32,
    /// How often its file could not be read.
    read_failures: u32,
}

/// What happens with a blob in an [`UploadQueue`].
enum UploadPhase {
    /// It waits for a check whether the store has it, or the check is under way.
    Unchecked,
    /// It can be uploaded, and its size is not known yet.
    Unsized,
    /// It waits for the turn of this result.
    Ready(AttemptId),
    Uploading(CancellationToken),
    /// It waits for the next try.
    Retrying(Instant),
}

impl UploadQueue {
    /// Adds the blobs of a result. The store may already have some of them.
    pub(crate) fn add(&mut self, attempt_id: AttemptId, blobs: impl IntoIterator<Item = BlobHash>) {
        self.remove(&attempt_id);
        self.results.insert(attempt_id, PendingUploads::default());
        for hash in blobs {
            if let Some(result) = self.results.get_mut(&attempt_id) {
                result.missing.insert(hash);
            }
            let blob = self.blobs.entry(hash).or_insert_with(|| {
                self.unchecked.push_back(hash);
                PendingBlob {
                    needed_by: Vec::new(),
                    phase: UploadPhase::Unchecked,
                    size: 0,
                    failures: 0,
                    read_failures: 0,
                }
            });
            blob.needed_by.push(attempt_id);
        }
    }

    /// Drops the uploads of a result, because the judicator no longer wants it.
    pub(crate) fn remove(&mut self, attempt_id: &AttemptId) {
        let Some(result) = self.results.remove(attempt_id) else {
            return;
        };
        let large_turns = self.large.iter_mut().map(|class| &mut class.turns);
        let small = std::iter::once((&result.small, &mut self.small_turns));
        for (ready, turns) in small.chain(result.large.iter().zip(large_turns)) {
            if !ready.is_empty() {
                turns.retain(|turn| turn != attempt_id);
            }
        }
        for hash in result.missing {
            let Some(blob) = self.blobs.get_mut(&hash) else {
                continue;
            };
            blob.needed_by.retain(|needed_by| needed_by != attempt_id);
            match (&blob.phase, blob.needed_by.is_empty()) {
                // It stays in the table until the call has ended.
                (UploadPhase::Uploading(cancelled), true) => cancelled.cancel(),
                (UploadPhase::Retrying(at), true) => {
                    self.retries.remove(&(*at, hash));
                    self.blobs.remove(&hash);
                }
                (UploadPhase::Unchecked | UploadPhase::Unsized | UploadPhase::Ready(_), true) => {
                    self.blobs.remove(&hash);
                }
                (UploadPhase::Ready(turn), false) if turn == attempt_id => self.make_ready(hash),
                (_, false) => {}
            }
        }
    }

    /// Blobs to look for in the store, at most this many.
    pub(crate) fn take_unchecked(&mut self, max: usize, now: Instant) -> Vec<BlobHash> {
        let mut taken = Vec::new();
        while !self.is_paused(now)
            && taken.len() < max
            && let Some(hash) = self.unchecked.pop_front()
        {
            if self.is_unchecked(&hash) {
                taken.push(hash);
            }
        }
        taken
    }

    /// The store was asked for this blob. Returns the results that have all their blobs there now.
    pub(crate) fn on_checked(&mut self, hash: BlobHash, is_stored: bool) -> Vec<AttemptId> {
        self.on_call_succeeded();
        if !self.is_unchecked(&hash) {
            return Vec::new();
        }
        if is_stored {
            return self.on_stored(hash);
        }
        self.make_ready(hash);
        Vec::new()
    }

    /// The store could not be asked.
    pub(crate) fn on_check_failed(&mut self, hashes: Vec<BlobHash>, now: Instant) {
        self.unchecked.extend(hashes);
        self.on_call_failed(now);
    }

    /// The next blob to upload, if one can start now. The token is cancelled when nobody needs the blob any more.
    pub(crate) fn next_upload(
        &mut self,
        now: Instant,
        size_of: impl Fn(&BlobHash) -> u64,
    ) -> Option<(BlobHash, CancellationToken)> {
        if self.is_paused(now) {
            return None;
        }
        while let Some(first) = self.retries.first().copied().filter(|(at, _)| *at <= now) {
            self.retries.remove(&first);
            self.make_ready(first.1);
        }
        for hash in std::mem::take(&mut self.unsized_blobs) {
            self.await_turn(hash, &size_of);
        }
        let hash = self.take_small().or_else(|| self.take_large())?;
        let cancelled = CancellationToken::new();
        let blob = self.blobs.get_mut(&hash)?;
        blob.phase = UploadPhase::Uploading(cancelled.clone());
        Some((hash, cancelled))
    }

    /// Returns the results that have all their blobs in the store now.
    pub(crate) fn on_uploaded(&mut self, hash: BlobHash) -> Vec<AttemptId> {
        self.on_upload_ended(&hash);
        self.on_call_succeeded();
        self.on_stored(hash)
    }

    pub(crate) fn on_failed(&mut self, hash: BlobHash, now: Instant) {
        self.on_upload_ended(&hash);
        self.on_call_failed(now);
        self.retry_later(hash, now);
    }

    /// The file of the blob could not be read; other uploads go on. Returns false if there is no further try: then the
    /// file is lost.
    pub(crate) fn on_unreadable(&mut self, hash: BlobHash, now: Instant) -> bool {
        if let Some(blob) = self.blobs.get_mut(&hash) {
            blob.read_failures += 1;
            if blob.read_failures >= MAX_READ_FAILURES {
                return false;
            }
        }
        self.on_upload_ended(&hash);
        self.retry_later(hash, now);
        true
    }

    pub(crate) fn on_cancelled(&mut self, hash: BlobHash) {
        self.on_upload_ended(&hash);
        // Another result may need it by now.
        if self.needed_blob(hash).is_some() {
            self.make_ready(hash);
        }
    }

    /// The file of the blob is lost. Drops the results that need it, and returns them.
    pub(crate) fn on_lost(&mut self, hash: BlobHash) -> Vec<AttemptId> {
        self.on_upload_ended(&hash);
        let lost = self.blobs.remove(&hash).map_or(Vec::new(), |blob| blob.needed_by);
        for attempt_id in &lost {
            self.remove(attempt_id);
        }
        lost
    }

    /// The results that need a blob.
    pub(crate) fn needed_by(&self, hash: &BlobHash) -> Vec<AttemptId> {
        self.blobs
            .get(hash)
            .map_or(Vec::new(), |blob| blob.needed_by.clone())
    }

    /// When something can start that cannot start now, other than after the end of a call.
    pub(crate) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let retry = self.retries.first().map(|(at, _)| *at);
        if self.is_paused(now) {
            let has_ready = !self.unsized_blobs.is_empty()
                || !self.small_turns.is_empty()
                || self.large.iter().any(|class| !class.turns.is_empty());
            let is_waiting = has_ready || !self.unchecked.is_empty() || retry.is_some();
            return self.paused_until.filter(|_| is_waiting);
        }
        retry.filter(|at| *at > now)
    }

    /// The next small blob, if it may start.
    fn take_small(&mut self) -> Option<BlobHash> {
        let attempt_id = *self.small_turns.front()?;
        let result = self.results.get_mut(&attempt_id)?;
        let hash = *result.small.front()?;
        let bytes = self.small_bytes + self.blobs.get(&hash)?.size;
        if self.small_uploads >= MAX_SMALL_UPLOADS || bytes > MAX_SMALL_BYTES {
            return None;
        }
        (self.small_uploads, self.small_bytes) = (self.small_uploads + 1, bytes);
        result.small.pop_front();
        self.small_turns.pop_front();
        if !result.small.is_empty() {
            self.small_turns.push_back(attempt_id);
        }
        Some(hash)
    }

    /// The next large blob, smaller classes first.
    fn take_large(&mut self) -> Option<BlobHash> {
        (0..LARGE_CLASSES).find_map(|class| self.take_of_class(class))
    }

    /// The large blob of the first result that may upload another one of this class.
    fn take_of_class(&mut self, class: usize) -> Option<BlobHash> {
        let LargeUploads { turns, running } = &mut self.large[class];
        if running.len() >= MAX_LARGE_UPLOADS {
            return None;
        }
        let is_alone = turns.len() == 1;
        let uploads_of = |turn| running.iter().filter(|(_, of)| of == turn).count();
        let mut waiting = turns.iter();
        let turn = waiting.position(|turn| is_alone || uploads_of(turn) < MAX_LARGE_UPLOADS_OF_RESULT)?;
        let attempt_id = turns.remove(turn)?;
        let ready = &mut self.results.get_mut(&attempt_id)?.large[class];
        let hash = ready.pop_front()?;
        if !ready.is_empty() {
            turns.push_back(attempt_id);
        }
        running.push((hash, attempt_id));
        Some(hash)
    }

    fn on_upload_ended(&mut self, hash: &BlobHash) {
        for LargeUploads { running, .. } in &mut self.large {
            if let Some(large) = running.iter().position(|(large, _)| large == hash) {
                running.remove(large);
                return;
            }
        }
        let size = self.blobs.get(hash).map_or(0, |blob| blob.size);
        self.small_uploads -= 1;
        self.small_bytes = self.small_bytes.saturating_sub(size);
    }

    fn is_unchecked(&self, hash: &BlobHash) -> bool {
        let blob = self.blobs.get(hash);
        blob.is_some_and(|blob| matches!(blob.phase, UploadPhase::Unchecked))
    }

    fn is_paused(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    fn on_call_succeeded(&mut self) {
        (self.failures, self.paused_until) = (0, None);
    }

    /// A judicator that cannot be reached is asked less and less often, however many blobs wait.
    fn on_call_failed(&mut self, now: Instant) {
        self.failures += 1;
        self.paused_until = Some(now + pause_after(self.failures));
    }

    fn on_stored(&mut self, hash: BlobHash) -> Vec<AttemptId> {
        let needed_by = self.blobs.remove(&hash).map_or(Vec::new(), |blob| blob.needed_by);
        let mut complete = Vec::new();
        for attempt_id in needed_by {
            if let Some(result) = self.results.get_mut(&attempt_id) {
                result.missing.remove(&hash);
                if result.missing.is_empty() {
                    self.results.remove(&attempt_id);
                    complete.push(attempt_id);
                }
            }
        }
        complete
    }

    fn retry_later(&mut self, hash: BlobHash, now: Instant) {
        if let Some(blob) = self.needed_blob(hash) {
            blob.failures += 1;
            let at = now + pause_after(blob.failures);
            blob.phase = UploadPhase::Retrying(at);
            self.retries.insert((at, hash));
        }
    }

    /// The blob, if a result needs it; otherwise it is dropped.
    fn needed_blob(&mut self, hash: BlobHash) -> Option<&mut PendingBlob> {
        if self.blobs.get(&hash)?.needed_by.is_empty() {
            self.blobs.remove(&hash);
        }
        self.blobs.get_mut(&hash)
    }

    fn make_ready(&mut self, hash: BlobHash) {
        if let Some(blob) = self.blobs.get_mut(&hash) {
            blob.phase = UploadPhase::Unsized;
            self.unsized_blobs.push(hash);
        }
    }

    /// Lets a blob wait for the turn of the first result that needs it.
    fn await_turn(&mut self, hash: BlobHash, size_of: impl Fn(&BlobHash) -> u64) {
        let blob = self.blobs.get_mut(&hash);
        let Some(blob) = blob.filter(|blob| matches!(blob.phase, UploadPhase::Unsized)) else {
            return;
        };
        let Some(attempt_id) = blob.needed_by.first().copied() else {
            return;
        };
        let Some(result) = self.results.get_mut(&attempt_id) else {
            return;
        };
        (blob.phase, blob.size) = (UploadPhase::Ready(attempt_id), size_of(&hash));
        let (ready, turns) = match large_class(blob.size) {
            None => (&mut result.small, &mut self.small_turns),
            Some(class) => (&mut result.large[class], &mut self.large[class].turns),
        };
        if ready.is_empty() {
            turns.push_back(attempt_id);
        }
        ready.push_back(hash);
    }
}

/// The class of a blob with this size, if it is large.
fn large_class(size: u64) -> Option<usize> {
    let class = LARGE_BYTES.iter().position(|bound| size <= *bound);
    (size > SMALL_BYTES).then_some(class.unwrap_or(LARGE_BYTES.len()))
}

fn pause_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    (FIRST_PAUSE * 2_u32.pow(doublings)).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests;
