mod fake_judicator;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use model::{Capacity, Complete, End, ExecutorName, SessionId};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use self::fake_judicator::{Blob, FakeJudicator, Store};
use super::*;
use crate::fixtures::handout;
use crate::spool::tests::{Hold, hanging};

/// Generous: the machine may be busy with other tests.
const SOON: Duration = Duration::from_secs(60);

/// No slot: what is tested here needs no warden.
fn options(data: &Path) -> Options {
    Options {
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
        contact: Contact::Remote,
        stall: SOON,
        stop_grace: Duration::ZERO,
        cache_bytes: 1 << 20,
        keep_output: 1 << 20,
        version: "test".into(),
        cells: None,
        warden: ("/bin/false".into(), Vec::new()),
    }
}

fn home(root: &Path) -> Home {
    Home {
        name: ExecutorName::new("e").unwrap(),
        host: "h".into(),
        root: root.to_path_buf(),
        lock: Arc::new(OwnedFd::from(std::fs::File::open(root).unwrap())),
        mark: ("CONCLAVE_EXECUTOR".into(), "test".into()),
        former_sessions: vec![SessionId::generate()],
        interrupted: Vec::new(),
    }
}

/// With a spool and a cache in the options' folder.
fn assemble(options: Options, calls: Arc<dyn Calls>) -> Reporter {
    let folder = options.data.clone();
    let spool = Spool::open(&folder.join("spool"), &[]).unwrap();
    let cache = Cache::open(folder.join("cache"), 1 << 20).unwrap();
    let home = home(&folder);
    Reporter::assemble(options, home, Isolation::None, calls, (cache, spool)).unwrap()
}

/// Neither the spool nor the list of sessions can be written, and yet the judicator hears of the result and goes on
/// hearing from the executor.
#[tokio::test]
async fn reports_go_on_while_the_disk_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, Hold { go_on, written }) = hanging();
    let cache = Cache::open(folder.path().join("cache"), 1 << 20).unwrap();
    let (judicator, mut reports) = FakeJudicator::new(Blob::Missing, Store::Answers);
    let judicator = Arc::new(judicator);
    let (options, home) = (options(folder.path()), home(folder.path()));
    let reporter = Reporter::assemble(options, home, Isolation::None, judicator, (cache, spool)).unwrap();
    // A pipe that nobody reads from: whoever opens it to write waits.
    let sessions = folder.path().join("sessions.new");
    mkfifo(&sessions, Mode::S_IRWXU).unwrap();
    let stop = CancellationToken::new();
    let slots = reporter.start_slots().unwrap();
    let running = tokio::spawn(reporter.run(slots, stop.clone()));

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
    assert!(matches!(&result.end, End::Broken(why) if why.contains("does not exist")));
    for _ in 0..5 {
        assert_eq!(next().await.complete, std::slice::from_ref(&result));
    }
    let session = next().await.session.to_string();
    assert_eq!(*written.lock().unwrap(), []);

    drop(go_on);
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
async fn a_blob_that_does_not_come_is_given_up_while_reports_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (judicator, mut reports) = FakeJudicator::new(Blob::Stalls, Store::Answers);
    let judicator = Arc::new(judicator);
    let options = Options {
        stall: Duration::from_millis(300),
        ..options(folder.path())
    };
    let reporter = assemble(options, judicator);
    let stop = CancellationToken::new();
    let slots = reporter.start_slots().unwrap();
    let running = tokio::spawn(reporter.run(slots, stop.clone()));
    let mut named = 0;
    let end = loop {
        let report = tokio::time::timeout(SOON, reports.recv()).await.unwrap().unwrap();
        named += report.executing.len();
        if let Some(complete) = report.complete.into_iter().next() {
            break complete.end;
        }
    };
    assert!(
        matches!(&end, End::PlatformFailure(why) if why.contains("executor.stall")),
        "{end:?}"
    );
    assert!(named > 0, "it is held until then");
    stop.cancel();
    tokio::time::timeout(SOON, running)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    // The removal of what had come was not waited for.
    let cache = folder.path().join("cache");
    let deadline = Instant::now() + SOON;
    while std::fs::read_dir(&cache).unwrap().count() > 0 {
        assert!(Instant::now() < deadline, "a part of the blob is left");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Another report would only wait behind the first, and dropping that one would say that nobody reports any more.
#[tokio::test]
async fn a_report_to_a_judicator_in_this_process_is_waited_for_until_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let (judicator, mut reports) = FakeJudicator::new(Blob::Missing, Store::Hangs);
    let judicator = Arc::new(judicator);
    let self_kill = Duration::from_millis(300);
    let options = Options {
        self_kill,
        contact: Contact::SameProcess,
        ..options(folder.path())
    };
    let reporter = assemble(options, judicator);
    let stop = CancellationToken::new();
    let slots = reporter.start_slots().unwrap();
    let running = tokio::spawn(reporter.run(slots, stop.clone()));
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

/// An executor that runs, and cannot get the blob of the one task that it is handed.
struct Failing {
    judicator: Arc<FakeJudicator>,
    reports: mpsc::UnboundedReceiver<Report>,
    bench: Arc<Bench>,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<Result<(), ExecutorError>>,
    _folder: tempfile::TempDir,
}

impl Failing {
    fn start(platform_losses: u32) -> Failing {
        let folder = tempfile::tempdir().unwrap();
        let (judicator, reports) = FakeJudicator::new(Blob::Unreadable, Store::Answers);
        let judicator = Arc::new(FakeJudicator {
            platform_losses,
            ..judicator
        });
        let reporter = assemble(options(folder.path()), judicator.clone());
        let (bench, stop) = (reporter.bench.clone(), CancellationToken::new());
        let slots = reporter.start_slots().unwrap();
        Failing {
            running: tokio::spawn(reporter.run(slots, stop.clone())),
            judicator,
            reports,
            bench,
            stop,
            _folder: folder,
        }
    }

    async fn next(&mut self) -> Report {
        let report = tokio::time::timeout(SOON, self.reports.recv()).await;
        report.expect("a report").expect("an executor")
    }

    /// The attempt, when it has failed: reports from now on say so, or that it pauses.
    async fn failed(&mut self) -> Handout {
        loop {
            let report = self.next().await;
            let executing = report.executing.iter().map(|one| one.handout);
            let complete = report.complete.iter().map(|one| one.handout);
            if let Some(handout) = executing
                .chain(complete)
                .find(|handout| self.bench.spool.contains(handout))
            {
                return handout;
            }
        }
    }

    /// Every report that is left to be read when the executor has ended.
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
async fn a_platform_failure_is_reported_after_its_pause_and_named_as_executing_until_then() {
    let mut failing = Failing::start(2);
    let begun = Instant::now();
    let handout = failing.failed().await;
    let mut named = 0;
    let complete = loop {
        let mut report = failing.next().await;
        if let Some(complete) = report.complete.pop() {
            break complete;
        }
        assert!(report.executing.iter().any(|one| one.handout == handout));
        named += 1;
    };
    assert!(begun.elapsed() >= Duration::from_millis(400));
    assert!(named > 0, "the judicator must not take it for given back");
    assert_eq!(complete.handout, handout);
    assert!(matches!(&complete.end, End::PlatformFailure(why) if why.contains("a bad sector")));
    failing.stop().await;
}

/// The pause would be 25.6 s, and a goodbye is given up after 3 s.
#[tokio::test]
async fn a_platform_failure_that_pauses_is_reported_with_the_goodbye() {
    let mut failing = Failing::start(8);
    let handout = failing.failed().await;
    let reports = failing.stop().await;
    let last = reports.last().expect("a goodbye");
    assert_eq!((last.intent, last.executing.len()), (Intent::Leave, 0));
    assert!(last.complete.iter().any(|complete| complete.handout == handout));
}

#[tokio::test]
async fn a_platform_failure_that_pauses_is_forgotten_when_its_task_is_cancelled() {
    let mut failing = Failing::start(8);
    let handout = failing.failed().await;
    failing.judicator.cancelled.store(true, Ordering::Relaxed);
    while !failing.next().await.executing.is_empty() {}
    assert!(!failing.bench.spool.contains(&handout));
    let reports = failing.stop().await;
    assert!(reports.iter().all(|report| report.complete.is_empty()));
}

#[tokio::test]
async fn failures_that_pause_are_no_results_that_pile_up() {
    let folder = tempfile::tempdir().unwrap();
    let (judicator, _reports) = FakeJudicator::new(Blob::Missing, Store::Answers);
    let options = Options {
        slots: 4,
        ..options(folder.path())
    };
    let mut reporter = assemble(options, Arc::new(judicator));
    let handout = handout(reporter.session.id);
    let end = End::PlatformFailure("no warden".into());
    let pause = Duration::from_secs(60);
    reporter.bench.spool.keep(Complete { handout, end }, pause);
    let report = reporter.compose(Instant::now());
    assert_eq!((report.executing.len(), report.complete.len()), (1, 0));
    assert_eq!(report.vacant, 4);
    assert!(!reporter.left_over, "the next report would follow at once");
}

/// Its slot may hang because so much has to be freed.
#[tokio::test]
async fn a_task_ended_for_memory_whose_slot_hangs_is_no_loss_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (judicator, _reports) = FakeJudicator::new(Blob::Missing, Store::Answers);
    let options = options(folder.path());
    let mut reporter = assemble(options, Arc::new(judicator));
    let short = "the machine was short of memory";
    let hang = |reporter: &mut Reporter, lost: Option<&str>| {
        let handout = handout(reporter.session.id);
        let control = Arc::new(Control::new(Duration::ZERO));
        if let Some(why) = lost {
            control.lose(why.into()).unwrap();
        }
        control.on_progress("end the command");
        let now = Instant::now();
        assert!(control.look(now).is_some());
        reporter.controls.insert(handout, control);
        reporter.give_up(&handout, now);
        let kept = reporter.bench.spool.carry(1 << 20, 100).complete;
        let end = kept.into_iter().find(|complete| complete.handout == handout);
        end.map(|end| end.end)
    };
    assert_eq!(
        hang(&mut reporter, Some(short)),
        Some(End::PlatformFailure(short.into()))
    );
    assert_eq!(reporter.rest.ends(), None, "others would have to wait");
    assert!(matches!(hang(&mut reporter, None), Some(End::Broken(_))));
    assert!(reporter.rest.ends().is_some());
}

/// One task that makes the machine short of memory again and again must not stop all others.
#[tokio::test]
async fn a_task_ended_for_memory_is_no_reason_to_pause() {
    let folder = tempfile::tempdir().unwrap();
    let (judicator, _reports) = FakeJudicator::new(Blob::Missing, Store::Answers);
    let options = Options {
        slots: 4,
        ..options(folder.path())
    };
    let mut reporter = assemble(options, Arc::new(judicator));
    let mut offered = |ending: Ending| {
        let handout = handout(reporter.session.id);
        let now = Instant::now();
        reporter.slots.on_assigned(handout, now);
        reporter.on_event((now, Event::Ended(handout, ending)));
        reporter.compose(now).vacant
    };
    assert_eq!(offered(Ending::EndedForMemory), 4);
    assert_eq!(offered(Ending::Broken), 0);
}
