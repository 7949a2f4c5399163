//! Results whose files are uploaded before they are reported.

use model::{ReportSeq, TaskStatus};

use super::fake_judicator::PendingUpload;
use super::loop_harness::{HEARTBEAT, LoopHarness, STOP_GRACE, acknowledge, assign, completed, named};
use super::*;

fn succeed(upload: PendingUpload) {
    upload.answer.send(Ok(())).expect("the upload is awaited");
}

fn upload_again(attempt_ids: &[AttemptId]) -> ReportAnswer {
    ReportAnswer::Done(ReportInstructions {
        upload_again: attempt_ids.to_vec(),
        ..ReportInstructions::default()
    })
}

/// The names of the files in the outgoing folder of an executor.
fn outgoing_names(data: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(data.join("outgoing")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[tokio::test(start_paused = true)]
async fn a_result_is_reported_after_its_upload_and_heartbeats_name_it_meanwhile() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    let blob = executor.finish_with_file(&attempt, "content");
    let upload = executor.next_upload().await;
    assert_eq!((upload.file.hash, upload.file.size), (blob, 7));
    assert_eq!(std::fs::read(&upload.file.path).unwrap(), b"content");
    let begun = now();
    let mut reports = 0;
    // An hour, as over a slow line.
    while now() - begun < Duration::from_secs(3600) {
        let pending = executor.next_report().await;
        assert_eq!(completed(&pending.report), []);
        let [executing] = pending.report.executing[..] else {
            panic!("{:?}", pending.report.executing);
        };
        assert_eq!(
            (executing.attempt_id, executing.status),
            (attempt.attempt_id, Some(TaskStatus::Running))
        );
        assert!(pending.report.vacant >= 2, "its slot is free");
        pending.answer(acknowledge(&[]));
        reports += 1;
    }
    assert!(reports >= 1800, "{reports}");
    let uploaded_at = now();
    succeed(upload);
    let pending = executor.next_report().await;
    assert!(pending.received_at - uploaded_at < HEARTBEAT / 2);
    assert_eq!(completed(&pending.report), [attempt.attempt_id]);
    assert_eq!(named(&pending.report), []);
    pending.answer(acknowledge(&[attempt.attempt_id]));
    let after = executor.next_report().await.report;
    assert_eq!((completed(&after), named(&after)), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn other_tasks_go_on_during_an_upload() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    executor.finish_with_file(&attempt, "large");
    let _never_answered = executor.next_upload().await;
    for _ in 0..10 {
        let pending = executor.next_report().await;
        let neighbour = attempt_id(pending.report.session);
        pending.answer(assign(&[neighbour]));
        let neighbour = executor.start_attempt().await.expect("a free slot");
        executor.finish(&neighbour);
        let pending = executor.next_report_with_results().await;
        assert_eq!(completed(&pending.report), [neighbour.attempt_id]);
        assert_eq!(named(&pending.report), [attempt.attempt_id]);
        pending.answer(acknowledge(&[neighbour.attempt_id]));
    }
    let other = {
        let pending = executor.next_report().await;
        let other = attempt_id(pending.report.session);
        pending.answer(assign(&[other]));
        executor.start_attempt().await.expect("a free slot")
    };
    executor.finish_with_file(&other, "small");
    succeed(executor.next_upload().await);
    let pending = executor.next_report_with_results().await;
    assert_eq!(completed(&pending.report), [other.attempt_id]);
}

/// On the real clock, because a thread removes the files; no heartbeat comes in time.
#[tokio::test]
async fn no_task_is_taken_while_the_outgoing_folder_has_no_room_for_another_result() {
    // A task may keep 5 MiB with these options.
    for (outgoing_bytes, content, why) in [
        (
            11 << 20,
            7 << 20,
            "the folder is larger than what a task may keep",
        ),
        (1 << 20, 600 << 10, "the folder is smaller than that"),
    ] {
        let mut executor = LoopHarness::start_with(tempfile::tempdir().unwrap(), |options| {
            options.outgoing_bytes = outgoing_bytes;
            options.heartbeat = Duration::from_secs(3600);
        });
        let first = executor.next_report().await;
        assert_eq!(first.report.vacant, 2, "{why}");
        let [one, two] = [(); 2].map(|()| attempt_id(first.report.session));
        first.answer(assign(&[one, two]));
        let mut started = Vec::new();
        for _ in [one, two] {
            started.push(executor.start_attempt().await.expect("the assigned attempt"));
        }
        let pending = executor.next_report().await;
        pending.answer(acknowledge(&[]));
        executor.finish_with_file(&started[0], &"x".repeat(content));
        let pending = executor.next_report().await;
        assert_eq!(pending.report.vacant, 0, "{why}");
        pending.answer(acknowledge(&[]));
        // A task in hand ends as usual.
        executor.finish(&started[1]);
        let pending = executor.next_report_with_results().await;
        assert_eq!(completed(&pending.report), [started[1].attempt_id]);
        assert_eq!(pending.report.vacant, 0, "{why}");
        pending.answer(acknowledge(&[started[1].attempt_id]));
        succeed(executor.next_upload().await);
        let pending = executor.next_report_with_results().await;
        assert_eq!(completed(&pending.report), [started[0].attempt_id]);
        assert_eq!(pending.report.vacant, 0, "{why}");
        pending.answer(acknowledge(&[started[0].attempt_id]));
        assert!(executor.next_report().await.report.vacant >= 2, "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_blob_that_the_store_has_is_not_uploaded_and_one_that_it_lost_is_uploaded_again() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    let stored = model::BlobHash::of("content");
    executor.fake_uploads.stored.lock().unwrap().insert(stored);
    executor.finish_with_file(&attempt, "content");
    let pending = executor.next_report_with_results().await;
    assert_eq!(completed(&pending.report), [attempt.attempt_id]);
    pending.answer(upload_again(&[attempt.attempt_id]));
    // Another executor has uploaded the same content meanwhile.
    let pending = executor.next_report_with_results().await;
    assert_eq!(completed(&pending.report), [attempt.attempt_id]);
    assert!(executor.uploads.is_empty());
    executor.fake_uploads.stored.lock().unwrap().clear();
    pending.answer(upload_again(&[attempt.attempt_id]));

    let upload = executor.next_upload().await;
    assert_eq!(upload.file.hash, stored);
    let pending = executor.next_report().await;
    assert_eq!(
        (completed(&pending.report), named(&pending.report)),
        (vec![], vec![attempt.attempt_id])
    );
    pending.answer(acknowledge(&[]));
    succeed(upload);
    let pending = executor.next_report().await;
    assert_eq!(completed(&pending.report), [attempt.attempt_id]);
    assert_eq!(*executor.fake_uploads.checked.lock().unwrap(), [stored; 3]);
}

/// A judicator that does not know the form of a task leaves its result to others.
#[tokio::test(start_paused = true)]
async fn a_result_that_the_answer_does_not_name_is_reported_again_at_the_heartbeat() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    executor.finish(&attempt);
    let mut pending = executor.next_report_with_results().await;
    for _ in 0..5 {
        let sent_at = pending.received_at;
        pending.answer(acknowledge(&[]));
        // Another change is reported at once, and does not carry the result.
        executor.slot_pool.send_event(SlotEvent::MemoryReserveChanged);
        let other = executor.next_report().await;
        assert!(other.received_at - sent_at < HEARTBEAT / 2);
        assert_eq!(
            (completed(&other.report), named(&other.report)),
            (vec![], vec![attempt.attempt_id])
        );
        other.answer(acknowledge(&[]));
        pending = executor.next_report().await;
        assert_eq!(pending.received_at - sent_at, HEARTBEAT);
        assert_eq!(completed(&pending.report), [attempt.attempt_id]);
    }
    pending.answer(acknowledge(&[attempt.attempt_id]));
    let after = executor.next_report().await.report;
    assert_eq!((completed(&after), named(&after)), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn an_upload_is_retried_until_it_succeeds() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    executor.finish_with_file(&attempt, "content");
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let upload = executor.next_upload().await;
        let failed_at = now();
        let error = CallError::Unavailable("connection refused".into());
        upload.answer.send(Err(error)).unwrap();
        while executor.uploads.is_empty() {
            executor.next_report().await.answer(acknowledge(&[]));
        }
        pauses.push(now() - failed_at);
    }
    assert!(pauses.is_sorted_by(|a, b| *a <= *b + HEARTBEAT), "{pauses:?}");
    assert!(
        pauses
            .iter()
            .all(|pause| *pause <= Duration::from_secs(30) + HEARTBEAT),
        "{pauses:?}"
    );
    succeed(executor.next_upload().await);
    let pending = executor.next_report_with_results().await;
    assert_eq!(completed(&pending.report), [attempt.attempt_id]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_drops_its_upload_and_its_file() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    let blob = executor.finish_with_file(&attempt, "content");
    let mut upload = executor.next_upload().await;
    let pending = executor.next_report().await;
    assert_eq!(named(&pending.report), [attempt.attempt_id]);
    pending.answer(acknowledge(&[attempt.attempt_id]));
    upload.answer.closed().await;
    assert_eq!(named(&executor.next_report().await.report), []);
    let deadline = Instant::now() + SOON;
    while executor.slot_pool.outgoing.source(&blob).is_some() {
        assert!(Instant::now() < deadline, "the file still exists");
        std::thread::yield_now();
    }
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_ends_after_the_stop_is_in_the_last_report() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    executor.finish_with_file(&attempt, "content");
    let upload = executor.next_upload().await;
    executor.stop.cancel();
    for _ in 0..3 {
        let pending = executor.next_report().await;
        assert_eq!(
            (pending.report.intent, named(&pending.report)),
            (ReportIntent::Stay, vec![attempt.attempt_id])
        );
        pending.answer(acknowledge(&[]));
    }
    succeed(upload);
    let last = executor.next_report().await;
    assert_eq!(last.report.intent, ReportIntent::Leave);
    assert_eq!(completed(&last.report), [attempt.attempt_id]);
    last.answer(acknowledge(&[attempt.attempt_id]));
    executor.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_a_stop_cuts_off_is_continued_by_the_next_process() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    let blob = executor.finish_with_file(&attempt, "content");
    let _never_answered = executor.next_upload().await;
    executor.stop.cancel();
    let stopped_at = now();
    let (last, folder) = executor.end_answering().await;
    assert!(now() - stopped_at >= STOP_GRACE);
    assert_eq!(
        (last.intent, named(&last)),
        (ReportIntent::Stay, vec![attempt.attempt_id]),
        "the session stays open, so that the task is not released"
    );
    assert_eq!(outgoing_names(folder.path()), [blob.to_string()]);

    let mut next = LoopHarness::start_in(folder, JudicatorLocation::Remote);
    let first = next.next_report().await;
    assert_eq!(first.report.seq, ReportSeq(1));
    assert_ne!(first.report.session, attempt.attempt_id.session);
    assert_eq!(
        (completed(&first.report), named(&first.report)),
        (vec![], vec![attempt.attempt_id]),
        "with its earlier session"
    );
    first.answer(acknowledge(&[]));
    let upload = next.next_upload().await;
    assert_eq!(upload.file.hash, blob);
    succeed(upload);
    let pending = next.next_report_with_results().await;
    assert_eq!(completed(&pending.report), [attempt.attempt_id]);
    let AttemptEnd::Result(result) = &pending.report.complete[0].end else {
        panic!("{:?}", pending.report.complete);
    };
    assert_eq!(result.blobs(), [blob]);
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_file_is_damaged_or_gone_after_a_restart_runs_again() {
    for damage in [Some("zeroes!"), None] {
        let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
        let blob = executor.finish_with_file(&attempt, "content");
        let _never_answered = executor.next_upload().await;
        executor.stop.cancel();
        let (_, folder) = executor.end_answering().await;
        let path = folder.path().join("outgoing").join(blob.to_string());
        match damage {
            Some(content) => std::fs::write(&path, content).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let mut next = LoopHarness::start_in(folder, JudicatorLocation::Remote);
        let pending = next.next_report_with_results().await;
        assert_eq!(completed(&pending.report), [attempt.attempt_id]);
        assert!(
            matches!(pending.report.complete[0].end, AttemptEnd::Broken(_)),
            "{damage:?}"
        );
        assert!(next.uploads.is_empty());
    }
}

/// The store's limit on blobs is not the executor's.
#[tokio::test(start_paused = true)]
async fn a_file_that_the_store_refuses_is_left_out_of_the_result() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    executor.finish_with_file(&attempt, "content");
    let upload = executor.next_upload().await;
    let error = CallError::TooLarge { limit: 1, actual: 7 };
    upload.answer.send(Err(error)).unwrap();
    let pending = executor.next_report_with_results().await;
    let AttemptEnd::Result(result) = &pending.report.complete[0].end else {
        panic!("{:?}", pending.report.complete);
    };
    assert_eq!((result.files.len(), result.files_left_out.count), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_file_can_no_longer_be_read_runs_again() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    executor.finish_with_file(&attempt, "content");
    let upload = executor.next_upload().await;
    // Reading a folder fails, like reading a bad sector.
    std::fs::remove_file(&upload.file.path).unwrap();
    std::fs::create_dir(&upload.file.path).unwrap();
    let error = CallError::Internal("could not read the file".into());
    upload.answer.send(Err(error)).unwrap();
    let pending = executor.next_report_with_results().await;
    assert_eq!(completed(&pending.report), [attempt.attempt_id]);
    assert!(matches!(pending.report.complete[0].end, AttemptEnd::Broken(_)));
    assert!(executor.uploads.is_empty(), "an unreadable file is not uploaded");
}
