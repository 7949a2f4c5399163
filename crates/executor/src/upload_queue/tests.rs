use model::SessionId;

use super::*;
use crate::fixtures;

fn attempt_id() -> AttemptId {
    fixtures::attempt_id(SessionId(uuid::Uuid::now_v7()))
}

fn hash(number: u8) -> BlobHash {
    BlobHash([number; 32])
}

/// The size of a blob beside which only a few other large ones are uploaded.
fn large(_: &BlobHash) -> u64 {
    SMALL_BYTES + 1
}

/// A queue whose blobs are known to be missing in the store.
fn queue(results: &[(AttemptId, &[u8])]) -> UploadQueue {
    let mut queue = UploadQueue::default();
    for (attempt_id, blobs) in results {
        queue.add(*attempt_id, blobs.iter().copied().map(hash));
        for hash in queue.take_unchecked(usize::MAX, Instant::now()) {
            queue.on_checked(hash, false);
        }
    }
    queue
}

/// Starts uploads until no other can start.
fn start_all(queue: &mut UploadQueue, now: Instant) -> Vec<BlobHash> {
    std::iter::from_fn(|| queue.next_upload(now, large))
        .map(|(hash, _)| hash)
        .collect()
}

#[test]
fn results_take_turns_and_few_uploads_run_at_once() {
    let (one, two, three) = (attempt_id(), attempt_id(), attempt_id());
    let mut queue = queue(&[(one, &[1, 2, 3, 4, 5]), (two, &[11, 12]), (three, &[21])]);
    let now = Instant::now();
    assert_eq!(start_all(&mut queue, now), [1, 11, 21, 2].map(hash));
    assert_eq!(queue.on_uploaded(hash(21)), [three]);
    assert_eq!(start_all(&mut queue, now), [hash(12)]);
    assert_eq!(queue.on_uploaded(hash(11)), []);
    assert_eq!(queue.on_uploaded(hash(12)), [two]);
    assert_eq!(start_all(&mut queue, now), [3, 4].map(hash));
    for number in 1..5 {
        assert_eq!(queue.on_uploaded(hash(number)), []);
    }
    assert_eq!(start_all(&mut queue, now), [hash(5)]);
    assert_eq!(queue.on_uploaded(hash(5)), [one]);
    assert!(queue.blobs.is_empty() && queue.results.is_empty());
    assert!(
        queue
            .large
            .iter()
            .all(|class| class.turns.is_empty() && class.running.is_empty())
    );
}

#[test]
fn many_small_blobs_are_uploaded_at_once_beside_few_large_ones() {
    let blobs: Vec<u8> = (0..200).collect();
    let started = |size_of: fn(&BlobHash) -> u64| {
        let mut queue = queue(&[(attempt_id(), &blobs)]);
        let started = std::iter::from_fn(|| queue.next_upload(Instant::now(), size_of)).count();
        queue.on_uploaded(hash(0));
        (started, queue.next_upload(Instant::now(), size_of).is_some())
    };
    assert_eq!(started(|_| 100), (MAX_SMALL_UPLOADS, true));
    assert_eq!(started(|_| MAX_SMALL_BYTES / 10), (10, true));
    assert_eq!(started(|_| SMALL_BYTES), (8, true));
    assert_eq!(started(large), (MAX_LARGE_UPLOADS, true));
    assert_eq!(
        started(|hash| if hash.0[0] < 100 { u64::MAX } else { 1 }),
        (MAX_LARGE_UPLOADS + MAX_SMALL_UPLOADS, true)
    );
}

#[test]
fn large_blobs_of_one_result_do_not_stop_other_results() {
    let now = Instant::now();
    let (one, two, three) = (attempt_id(), attempt_id(), attempt_id());
    let size_of = |hash: &BlobHash| if hash.0[0] < 100 { 1 << 30 } else { 5 };
    let start = |queue: &mut UploadQueue| {
        std::iter::from_fn(|| queue.next_upload(now, size_of))
            .map(|(hash, _)| hash)
            .collect::<Vec<_>>()
    };
    let mut alone = queue(&[(one, &[1, 2, 3, 4, 5, 6])]);
    assert_eq!(start(&mut alone), [1, 2, 3, 4].map(hash));
    for (attempt_id, blob) in [(two, 101), (three, 11)] {
        alone.add(attempt_id, [hash(blob)]);
        assert_eq!(alone.take_unchecked(10, now), [hash(blob)]);
        alone.on_checked(hash(blob), false);
    }
    assert_eq!(start(&mut alone), [hash(101)], "a small blob does not wait");
    assert_eq!(alone.on_uploaded(hash(101)), [two]);
    assert_eq!(alone.on_uploaded(hash(1)), []);
    assert_eq!(start(&mut alone), [hash(11)], "the first result has three");
    assert_eq!(alone.on_uploaded(hash(2)), []);
    assert_eq!(start(&mut alone), [hash(5)]);

    let mut blocked = queue(&[(one, &[1, 2, 3, 4, 5]), (two, &[11, 12])]);
    assert_eq!(start(&mut blocked), [1, 11, 2, 12].map(hash));
    assert_eq!(blocked.on_uploaded(hash(12)), []);
    assert_eq!(start(&mut blocked), [hash(3)]);
    assert_eq!(blocked.on_uploaded(hash(11)), [two]);
    assert_eq!(start(&mut blocked), [hash(4)], "no other result waits");
}

/// On a slow line four uploads of 256 MiB take hours.
#[test]
fn a_blob_does_not_wait_for_much_larger_ones() {
    const MIB: u64 = 1 << 20;
    let size_of = |hash: &BlobHash| match hash.0[0] {
        0..10 => 256 * MIB,
        10..20 => 2 * MIB,
        20..30 => 40 * MIB,
        30..40 => 1 << 40,
        _ => 1,
    };
    let now = Instant::now();
    let start = |queue: &mut UploadQueue| {
        let mut started: Vec<_> = std::iter::from_fn(|| queue.next_upload(now, size_of))
            .map(|(hash, _)| hash.0[0])
            .collect();
        started.sort_unstable();
        started
    };
    let results: Vec<[u8; 1]> = (0..8).map(|number| [number]).collect();
    let large: Vec<_> = results.iter().map(|blobs| (attempt_id(), &blobs[..])).collect();
    let mut queue = queue(&large);
    assert_eq!(start(&mut queue), [0, 1, 2, 3]);
    let neighbour = attempt_id();
    for (attempt_id, blobs) in [
        (neighbour, &[10][..]),
        (attempt_id(), &[20, 21, 22, 23, 24]),
        (attempt_id(), &[30, 40]),
    ] {
        queue.add(attempt_id, blobs.iter().copied().map(hash));
    }
    for unchecked in queue.take_unchecked(usize::MAX, now) {
        queue.on_checked(unchecked, false);
    }
    assert_eq!(start(&mut queue), [10, 20, 21, 22, 23, 30, 40]);
    assert_eq!(queue.on_uploaded(hash(10)), [neighbour]);
    assert_eq!(
        start(&mut queue),
        [] as [u8; 0],
        "each class has four uploads at most"
    );
    queue.on_uploaded(hash(1));
    assert_eq!(start(&mut queue), [4]);
}

#[test]
fn a_blob_that_is_dropped_and_added_again_waits_once() {
    let now = Instant::now();
    let (one, two) = (attempt_id(), attempt_id());
    let mut queue = queue(&[(one, &[1])]);
    queue.remove(&one);
    queue.add(two, [hash(1)]);
    for taken in queue.take_unchecked(10, now) {
        queue.on_checked(taken, false);
    }
    assert_eq!(start_all(&mut queue, now), [hash(1)]);
    assert_eq!(queue.on_uploaded(hash(1)), [two]);
    assert_eq!(start_all(&mut queue, now), []);
}

#[test]
fn a_blob_that_the_store_has_is_not_uploaded() {
    let now = Instant::now();
    let (one, two) = (attempt_id(), attempt_id());
    let mut queue = UploadQueue::default();
    queue.add(one, [1, 2].map(hash));
    queue.add(two, [2, 3].map(hash));
    assert_eq!(start_all(&mut queue, now), []);
    assert_eq!(queue.take_unchecked(2, now), [1, 2].map(hash));
    assert_eq!(queue.take_unchecked(2, now), [hash(3)]);
    assert_eq!(queue.on_checked(hash(1), true), []);
    assert_eq!(queue.on_checked(hash(2), true), [one]);
    assert_eq!(queue.on_checked(hash(3), false), []);
    assert_eq!(start_all(&mut queue, now), [hash(3)]);
    assert_eq!(queue.on_uploaded(hash(3)), [two]);
}

#[test]
fn a_blob_of_two_results_is_uploaded_once_and_survives_the_end_of_one() {
    let now = Instant::now();
    let (one, two) = (attempt_id(), attempt_id());
    let mut both = queue(&[(one, &[1]), (two, &[1])]);
    assert_eq!(start_all(&mut both, now), [hash(1)]);
    assert_eq!(both.on_uploaded(hash(1)), [one, two]);

    let mut before_its_turn = queue(&[(one, &[1, 2]), (two, &[1])]);
    before_its_turn.remove(&one);
    assert_eq!(start_all(&mut before_its_turn, now), [hash(1)]);
    assert_eq!(before_its_turn.on_uploaded(hash(1)), [two]);

    let mut during_its_upload = queue(&[(one, &[1]), (two, &[1])]);
    let (_, cancelled) = during_its_upload.next_upload(now, large).unwrap();
    during_its_upload.remove(&one);
    assert!(!cancelled.is_cancelled());
    assert_eq!(during_its_upload.on_uploaded(hash(1)), [two]);
}

#[test]
fn an_upload_that_nobody_needs_is_cancelled_and_may_be_needed_again() {
    let now = Instant::now();
    let (one, two) = (attempt_id(), attempt_id());
    let mut queue = queue(&[(one, &[1])]);
    let (_, cancelled) = queue.next_upload(now, large).unwrap();
    queue.remove(&one);
    assert!(cancelled.is_cancelled());
    queue.add(two, [hash(1)]);
    assert_eq!(start_all(&mut queue, now), [], "the cancelled call has not ended");
    queue.on_cancelled(hash(1));
    assert_eq!(start_all(&mut queue, now), [hash(1)]);
    queue.remove(&two);
    queue.on_cancelled(hash(1));
    assert!(queue.blobs.is_empty() && queue.large.iter().all(|class| class.running.is_empty()));
}

#[test]
fn failed_uploads_are_retried_for_ever_with_growing_pauses() {
    let mut now = Instant::now();
    let one = attempt_id();
    let mut queue = queue(&[(one, &[1, 2])]);
    for pause in [100, 200, 400, 800].map(Duration::from_millis) {
        let (hash, _) = queue.next_upload(now, large).unwrap();
        queue.on_failed(hash, now);
        assert!(
            queue.next_upload(now, large).is_none(),
            "the other blob waits, too"
        );
        assert_eq!(queue.wakes_at(now), Some(now + pause));
        now += pause;
    }
    for _ in 0..40 {
        let (hash, _) = queue.next_upload(now, large).expect("retried for ever");
        queue.on_failed(hash, now);
        now += MAX_PAUSE;
    }
    let [(first, _), (second, _)] = [(); 2].map(|()| queue.next_upload(now, large).unwrap());
    assert_eq!(queue.on_uploaded(first), []);
    assert_eq!(queue.on_uploaded(second), [one]);
    assert_eq!(queue.wakes_at(now), None);
}

#[test]
fn one_blob_that_fails_does_not_stop_the_others() {
    let mut now = Instant::now();
    let (one, two) = (attempt_id(), attempt_id());
    let mut queue = queue(&[(one, &[1]), (two, &[11, 12, 13])]);
    queue.next_upload(now, large).unwrap();
    queue.on_failed(hash(1), now);
    now += FIRST_PAUSE;
    assert_eq!(start_all(&mut queue, now), [11, 1, 12, 13].map(hash));
    queue.on_failed(hash(1), now);
    assert_eq!(queue.on_uploaded(hash(11)), []);
    assert_eq!(queue.wakes_at(now), Some(now + FIRST_PAUSE * 2));
    assert_eq!(queue.on_uploaded(hash(12)), []);
    assert_eq!(queue.on_uploaded(hash(13)), [two]);
}

#[test]
fn a_file_that_cannot_be_read_is_given_up_after_some_tries_and_stops_no_other() {
    let mut now = Instant::now();
    let (one, two) = (attempt_id(), attempt_id());
    let mut queue = queue(&[(one, &[1]), (two, &[11, 12])]);
    assert_eq!(start_all(&mut queue, now), [1, 11, 12].map(hash));
    for _ in 1..MAX_READ_FAILURES {
        assert!(queue.on_unreadable(hash(1), now));
        assert_eq!(start_all(&mut queue, now), [], "it is not read again at once");
        assert!(!queue.is_paused(now), "other uploads may start");
        now = queue.wakes_at(now).expect("another try");
        assert_eq!(start_all(&mut queue, now), [hash(1)]);
    }
    assert!(!queue.on_unreadable(hash(1), now));
    assert_eq!(queue.on_lost(hash(1)), [one]);
    assert_eq!(queue.on_uploaded(hash(11)), []);
    assert_eq!(queue.on_uploaded(hash(12)), [two]);
}

#[test]
fn a_failed_check_is_repeated_after_a_pause() {
    let now = Instant::now();
    let one = attempt_id();
    let mut queue = UploadQueue::default();
    queue.add(one, [hash(1)]);
    let taken = queue.take_unchecked(10, now);
    queue.on_check_failed(taken, now);
    assert_eq!(queue.take_unchecked(10, now), []);
    assert_eq!(queue.wakes_at(now), Some(now + FIRST_PAUSE));
    assert_eq!(queue.take_unchecked(10, now + FIRST_PAUSE), [hash(1)]);
}

#[test]
fn a_lost_file_ends_the_uploads_of_all_results_that_need_it() {
    let now = Instant::now();
    let (one, two, three) = (attempt_id(), attempt_id(), attempt_id());
    let mut queue = queue(&[(one, &[1, 2]), (two, &[1]), (three, &[2])]);
    let (first, _) = queue.next_upload(now, large).unwrap();
    assert_eq!(first, hash(1));
    assert_eq!(queue.on_lost(hash(1)), [one, two]);
    assert_eq!(start_all(&mut queue, now), [hash(2)]);
    assert_eq!(queue.on_uploaded(hash(2)), [three]);
}
