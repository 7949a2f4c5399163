mod drain;
mod fake_judicator;
mod loop_harness;
mod lost_and_repeated_answers;
mod refused_reports;
mod slow_answers;
mod stopping;
mod uploads;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use model::{AttemptEnd, Capacity, CompletedAttempt, ExecutorName, Report, SessionId, TaskForm};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use self::fake_judicator::{
    FakeBlobDownload, FakeJudicatorCalls, FakeStore, MISSING, OneTaskAnswers, one_task_judicator,
};
use super::*;
use crate::fixtures::attempt_id;
use crate::spool::tests::{HangingJournalControl, spool_on_hanging_disk};

/// A generous timeout: the machine may be busy with other tests.
const SOON: Duration = Duration::from_secs(60);

/// Options without slots, because these tests need no warden.
fn options(data: &Path) -> ExecutorOptions {
    ExecutorOptions {
        name: None,
        data: data.to_path_buf(),
        slots: 0,
        reserve: 0,
        capacity: Capacity {
            memory: 1 << 30,
            processes: 512,
            open_files: 1024,
        },
        heartbeat: Duration::from_millis(20),
        self_kill: SOON,
        judicator_location: JudicatorLocation::Remote,
        stall: SOON,
        stop_grace: Duration::ZERO,
        cache_bytes: 1 << 20,
        keep_output: 1 << 20,
        keep_files: 1000,
        keep_bytes: 1 << 20,
        outgoing_bytes: 1 << 30,
        version: "test".into(),
        roots: roots::RootStore::open(&data.join("roots")),
        cells: None,
        pin: false,
        judge_without_cells: false,
        warden: ("/bin/false".into(), Vec::new()),
    }
}

fn data_folder(root: &Path) -> ExecutorDataFolder {
    ExecutorDataFolder {
        name: ExecutorName::new("e").unwrap(),
        host: "h".into(),
        root: root.to_path_buf(),
        lock: Arc::new(OwnedFd::from(std::fs::File::open(root).unwrap())),
        process_marker: ("CONCLAVE_EXECUTOR".into(), "test".into()),
        previous_sessions: vec![SessionId(uuid::Uuid::now_v7())],
        last_attempts: Vec::new(),
    }
}

/// A report loop with its spool and cache in the data folder of the options.
fn assemble(options: ExecutorOptions, calls: Arc<dyn Calls>) -> ReportLoop {
    let folder = options.data.clone();
    let data_folder = data_folder(&folder);
    let outgoing = OutgoingFolder::open(data_folder.outgoing(), options.outgoing_bytes).unwrap();
    let storage = ExecutorStorage {
        cache: BlobCache::open(folder.join("cache"), 1 << 20).unwrap(),
        spool: Spool::open(&folder.join("spool"), &[], &outgoing).unwrap(),
        outgoing,
    };
    ReportLoop::assemble(options, data_folder, CommandIsolation::None, calls, storage).unwrap()
}

/// Neither the spool nor the session file can be written; the result is reported all the same, and so are heartbeats.
#[tokio::test]
async fn reports_continue_while_the_disk_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, HangingJournalControl { resume, written }) = spool_on_hanging_disk();
    let storage = ExecutorStorage {
        cache: BlobCache::open(folder.path().join("cache"), 1 << 20).unwrap(),
        spool,
        outgoing: OutgoingFolder::open(folder.path().join("outgoing"), 1 << 20).unwrap(),
    };
    let (judicator, mut reports) = one_task_judicator(FakeBlobDownload::Missing, FakeStore::Answers, 0);
    let (options, data_folder) = (options(folder.path()), data_folder(folder.path()));
    let report_loop =
        ReportLoop::assemble(options, data_folder, CommandIsolation::None, judicator, storage).unwrap();
    // Opening a pipe for writing blocks until it has a reader.
    let sessions = folder.path().join("sessions.new");
    mkfifo(&sessions, Mode::S_IRWXU).unwrap();
    let stop = CancellationToken::new();
    let slots = report_loop.start_slots().unwrap();
    let running = tokio::spawn(report_loop.run(slots, stop.clone()));

    let mut next = async || {
        let report = tokio::time::timeout(SOON, reports.recv()).await;
        report
            .expect("a report while the disk hangs")
            .expect("an executor")
    };
    let result = loop {
        if let Some(complete) = next().await.complete.pop() {
            break complete;
        }
    };
    let is_expected = |why: &str| why.contains("does not exist") && !why.contains(&MISSING.to_string());
    assert!(
        matches!(&result.end, AttemptEnd::Broken(why) if is_expected(why)),
        "{:?}",
        result.end
    );
    for _ in 0..5 {
        assert_eq!(next().await.complete, std::slice::from_ref(&result));
    }
    let session = next().await.session.to_string();
    assert_eq!(*written.lock().unwrap(), []);

    drop(resume);
    let listed = tokio::task::spawn_blocking(move || std::fs::read_to_string(sessions)).await;
    assert_eq!(listed.unwrap().unwrap(), format!("{session}\n"));
    stop.cancel();
    tokio::time::timeout(SOON, running)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(*written.lock().unwrap(), [result]);
}

#[tokio::test]
async fn a_stalled_download_fails_the_attempt_while_reports_continue() {
    let folder = tempfile::tempdir().unwrap();
    let (judicator, mut reports) = one_task_judicator(FakeBlobDownload::Stalls, FakeStore::Answers, 0);
    let options = ExecutorOptions {
        stall: Duration::from_millis(300),
        ..options(folder.path())
    };
    let report_loop = assemble(options, judicator);
    let stop = CancellationToken::new();
    let slots = report_loop.start_slots().unwrap();
    let running = tokio::spawn(report_loop.run(slots, stop.clone()));
    let mut named = 0;
    let end = loop {
        let report = tokio::time::timeout(SOON, reports.recv()).await.unwrap().unwrap();
        named += report.executing.len();
        if let Some(complete) = report.complete.into_iter().next() {
            break complete.end;
        }
    };
    assert!(
        matches!(&end, AttemptEnd::PlatformFailure(why) if why.contains("executor.stall") && !why.contains(&MISSING.to_string())),
        "{end:?}"
    );
    assert!(named > 0, "the attempt is reported until it fails");
    stop.cancel();
    tokio::time::timeout(SOON, running)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    // The partial file is removed in the background.
    let cache = folder.path().join("cache");
    let deadline = Instant::now() + SOON;
    while std::fs::read_dir(&cache).unwrap().count() > 0 {
        assert!(Instant::now() < deadline, "the partial file still exists");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A second report would only wait behind the first, and a dropped report lets the judicator expire the session.
#[tokio::test]
async fn a_report_to_a_judicator_in_the_same_process_has_no_timeout_until_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let (judicator, mut reports) = one_task_judicator(FakeBlobDownload::Missing, FakeStore::Hangs, 0);
    let self_kill = Duration::from_millis(300);
    let options = ExecutorOptions {
        self_kill,
        judicator_location: JudicatorLocation::SameProcess,
        ..options(folder.path())
    };
    let report_loop = assemble(options, judicator);
    let stop = CancellationToken::new();
    let slots = report_loop.start_slots().unwrap();
    let running = tokio::spawn(report_loop.run(slots, stop.clone()));
    tokio::time::timeout(SOON, reports.recv()).await.unwrap().unwrap();
    let second = tokio::time::timeout(self_kill * 3, reports.recv()).await;
    assert!(second.is_err(), "the first report was dropped: {second:?}");
    stop.cancel();
    tokio::time::timeout(SOON, running)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

/// In tests of the report loop: a running executor that cannot download the blob of its only task.
struct FailingExecutor {
    judicator: Arc<FakeJudicatorCalls<OneTaskAnswers>>,
    reports: mpsc::UnboundedReceiver<Report>,
    slot_pool: Arc<SlotPool>,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<Result<(), ExecutorError>>,
    _folder: tempfile::TempDir,
}

impl FailingExecutor {
    fn start(platform_losses: u32) -> FailingExecutor {
        let folder = tempfile::tempdir().unwrap();
        let (judicator, reports) =
            one_task_judicator(FakeBlobDownload::Unreadable, FakeStore::Answers, platform_losses);
        let report_loop = assemble(options(folder.path()), judicator.clone());
        let (slot_pool, stop) = (report_loop.slot_pool.clone(), CancellationToken::new());
        let slots = report_loop.start_slots().unwrap();
        FailingExecutor {
            running: tokio::spawn(report_loop.run(slots, stop.clone())),
            judicator,
            reports,
            slot_pool,
            stop,
            _folder: folder,
        }
    }

    async fn next(&mut self) -> Report {
        let report = tokio::time::timeout(SOON, self.reports.recv()).await;
        report.expect("a report").expect("an executor")
    }

    /// Waits until the attempt has failed and is in the spool.
    async fn failed(&mut self) -> AttemptId {
        loop {
            let report = self.next().await;
            let executing = report.executing.iter().map(|one| one.attempt_id);
            let complete = report.complete.iter().map(|one| one.attempt_id);
            if let Some(attempt_id) = executing
                .chain(complete)
                .find(|attempt_id| self.slot_pool.spool.contains(attempt_id))
            {
                return attempt_id;
            }
        }
    }

    /// Stops the executor and returns the reports that were not read yet.
    async fn stop(mut self) -> Vec<Report> {
        self.stop.cancel();
        tokio::time::timeout(SOON, self.running)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        std::iter::from_fn(|| self.reports.try_recv().ok()).collect()
    }
}

#[tokio::test]
async fn a_platform_failure_is_reported_after_its_pause_and_as_executing_until_then() {
    let mut failing = FailingExecutor::start(2);
    let begun = Instant::now();
    let attempt_id = failing.failed().await;
    let mut named = 0;
    let complete = loop {
        let mut report = failing.next().await;
        if let Some(complete) = report.complete.pop() {
            break complete;
        }
        assert!(report.executing.iter().any(|one| one.attempt_id == attempt_id));
        named += 1;
    };
    assert!(begun.elapsed() >= Duration::from_millis(400));
    assert!(named > 0, "the judicator must not release the attempt");
    assert_eq!(complete.attempt_id, attempt_id);
    let AttemptEnd::PlatformFailure(why) = &complete.end else {
        panic!("{:?}", complete.end);
    };
    assert!(why.contains("the store cannot read it"), "{why}");
    assert!(!why.contains(&MISSING.to_string()), "{why}");
    failing.stop().await;
}

/// The pause would be 25.6 s, and the last report times out after 3 s.
#[tokio::test]
async fn a_paused_platform_failure_is_in_the_last_report() {
    let mut failing = FailingExecutor::start(8);
    let attempt_id = failing.failed().await;
    let reports = failing.stop().await;
    let last = reports.last().expect("a last report");
    assert_eq!((last.intent, last.executing.len()), (ReportIntent::Leave, 0));
    assert!(
        last.complete
            .iter()
            .any(|complete| complete.attempt_id == attempt_id)
    );
}

#[tokio::test]
async fn a_paused_platform_failure_is_dropped_when_its_task_is_cancelled() {
    let mut failing = FailingExecutor::start(8);
    let attempt_id = failing.failed().await;
    failing.judicator.answers.cancelled.store(true, Ordering::Relaxed);
    while !failing.next().await.executing.is_empty() {}
    assert!(!failing.slot_pool.spool.contains(&attempt_id));
    let reports = failing.stop().await;
    assert!(reports.iter().all(|report| report.complete.is_empty()));
}

#[tokio::test]
async fn paused_failures_do_not_count_as_results_left_over() {
    let folder = tempfile::tempdir().unwrap();
    let (judicator, _reports) = one_task_judicator(FakeBlobDownload::Missing, FakeStore::Answers, 0);
    let options = ExecutorOptions {
        slots: 4,
        ..options(folder.path())
    };
    let mut report_loop = assemble(options, judicator);
    let attempt_id = attempt_id(report_loop.session.id);
    let end = AttemptEnd::PlatformFailure("no warden".into());
    let pause = Duration::from_secs(60);
    let complete = CompletedAttempt {
        attempt_id,
        form: TaskForm::CURRENT,
        end,
    };
    report_loop.slot_pool.spool.add(complete, None, pause);
    let report = report_loop.compose_report(Instant::now());
    assert_eq!((report.executing.len(), report.complete.len()), (1, 0));
    assert_eq!(report.vacant, 4);
    assert!(
        !report_loop.results_left_over,
        "the next report would follow at once"
    );
}

/// The slot may hang because the kernel has much memory to free.
#[tokio::test]
async fn an_attempt_killed_for_memory_whose_slot_hangs_is_a_platform_failure() {
    let folder = tempfile::tempdir().unwrap();
    let (judicator, _reports) = one_task_judicator(FakeBlobDownload::Missing, FakeStore::Answers, 0);
    let options = options(folder.path());
    let mut report_loop = assemble(options, judicator);
    let short = "the machine was short of memory";
    let hang = |report_loop: &mut ReportLoop, lost: Option<&str>| {
        let attempt_id = attempt_id(report_loop.session.id);
        let control = Arc::new(AttemptControl::new(TaskForm::CURRENT, Duration::ZERO));
        if let Some(why) = lost {
            control.fail_as_platform(why.into()).unwrap();
        }
        control.on_operation("end the command");
        let now = Instant::now();
        assert!(control.check_progress(now).is_some());
        report_loop.controls.insert(attempt_id, control);
        report_loop.give_up(&attempt_id, now);
        let kept = report_loop.slot_pool.spool.next_batch(1 << 20, 100).complete;
        let end = kept
            .into_iter()
            .find(|complete| complete.attempt_id == attempt_id);
        end.map(|end| end.end)
    };
    assert_eq!(
        hang(&mut report_loop, Some(short)),
        Some(AttemptEnd::PlatformFailure(short.into()))
    );
    assert_eq!(
        report_loop.failure_backoff.ends_at(),
        None,
        "others would have to wait"
    );
    assert!(matches!(
        hang(&mut report_loop, None),
        Some(AttemptEnd::Broken(_))
    ));
    assert!(report_loop.failure_backoff.ends_at().is_some());
}

/// Otherwise one task that uses up the memory again and again would stop all others.
#[tokio::test]
async fn an_attempt_killed_for_memory_causes_no_backoff() {
    let folder = tempfile::tempdir().unwrap();
    let (judicator, _reports) = one_task_judicator(FakeBlobDownload::Missing, FakeStore::Answers, 0);
    let options = ExecutorOptions {
        slots: 4,
        ..options(folder.path())
    };
    let mut report_loop = assemble(options, judicator);
    let mut offered = |cause: AttemptEndCause| {
        let attempt_id = attempt_id(report_loop.session.id);
        let now = Instant::now();
        report_loop.attempts.on_assigned(attempt_id, now);
        report_loop.on_event((now, SlotEvent::AttemptEnded(attempt_id, cause)));
        report_loop.compose_report(now).vacant
    };
    assert_eq!(offered(AttemptEndCause::KilledForMemory), 4);
    assert_eq!(offered(AttemptEndCause::ExecutorFailure), 0);
}
