use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use model::{
    Add, Added, Assignment, Attempt, BlobHash, Command, End, ExecuteStep, ExecutorName, ExecutorState,
    JudicatorState, Limits, Page, Query, SessionId, Stats, Task, TaskId, TaskSpec, UserName,
};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use rpc::{ByteStream, EventStream, HintStream, Ready};

use super::*;
use crate::spool::tests::{Hold, hanging};

/// Generous: the machine may be busy with other tests.
const SOON: Duration = Duration::from_secs(60);

/// A judicator that hands out one task with the first answer, and never answers for its result.
struct FakeJudicator {
    reports: mpsc::UnboundedSender<Report>,
    blob: Blob,
    store: Store,
}

#[derive(PartialEq)]
enum Store {
    Answers,
    Hangs,
}

enum Blob {
    Missing,
    /// Its first byte comes, and no other.
    Stalls,
}

const MISSING: BlobHash = BlobHash([7; 32]);

fn with_blob() -> TaskSpec {
    TaskSpec {
        user: UserName::new("ada").unwrap(),
        priority: 0,
        compile: None,
        execute: ExecuteStep {
            command: Command::Shell("true".into()),
            args: Vec::new(),
            env: BTreeMap::new(),
            input: Content::Blob(MISSING),
            network: None,
            limits: Limits::default(),
        },
        source: BTreeMap::new(),
        data: BTreeMap::new(),
    }
}

#[async_trait]
impl Calls for FakeJudicator {
    async fn report(&self, report: Report) -> Result<ReportAnswer, CallError> {
        let mut answer = Answer::default();
        if report.seq == model::Seq(1) {
            let handout = Handout {
                task: TaskId::generate(),
                session: report.session,
                attempt: Attempt(1),
            };
            let spec = with_blob();
            answer.assign.push(Assignment { handout, spec });
        }
        let _ = self.reports.send(report);
        if self.store == Store::Hangs {
            std::future::pending::<()>().await;
        }
        Ok(ReportAnswer::Done(answer))
    }

    async fn get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError> {
        match self.blob {
            Blob::Missing => Err(CallError::NoBlob(hash)),
            Blob::Stalls => {
                let first = futures::stream::iter([Ok(bytes::Bytes::from_static(b"x"))]);
                Ok(first.chain(futures::stream::pending()).boxed())
            }
        }
    }

    async fn watch(&self, _: ExecutorName, _: SessionId) -> Result<HintStream, CallError> {
        Ok(Box::pin(futures::stream::pending()))
    }

    async fn add(&self, _: Vec<Add>) -> Result<Vec<Added>, CallError> {
        unreachable!()
    }

    async fn cancel(&self, _: TaskId) -> Result<Task, CallError> {
        unreachable!()
    }

    async fn get(&self, _: TaskId, _: Option<Duration>) -> Result<Task, CallError> {
        unreachable!()
    }

    async fn search(&self, _: Query) -> Result<Page, CallError> {
        unreachable!()
    }

    async fn stats(&self) -> Result<Stats, CallError> {
        unreachable!()
    }
    async fn check(&self) -> Result<Ready, CallError> {
        unreachable!()
    }

    async fn events(&self, _: TaskId) -> Result<EventStream, CallError> {
        unreachable!()
    }

    async fn executors(&self) -> Result<Vec<ExecutorState>, CallError> {
        unreachable!()
    }

    async fn judicators(&self) -> Result<Vec<JudicatorState>, CallError> {
        unreachable!()
    }

    async fn put_blob(&self, _: BlobHash, _: ByteStream) -> Result<u64, CallError> {
        unreachable!()
    }

    async fn has_blobs(&self, _: Vec<BlobHash>) -> Result<Vec<Option<u64>>, CallError> {
        unreachable!()
    }
}

/// No slot: what is tested here needs no warden.
fn options(data: &Path) -> Options {
    Options {
        name: None,
        data: data.to_path_buf(),
        slots: 0,
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

/// Neither the spool nor the list of sessions can be written, and yet the judicator hears of the result and goes on
/// hearing from the executor.
#[tokio::test]
async fn reports_go_on_while_the_disk_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, Hold { go_on, written }) = hanging();
    let cache = Cache::open(folder.path().join("cache"), 1 << 20).unwrap();
    let (sender, mut reports) = mpsc::unbounded_channel();
    let judicator = Arc::new(FakeJudicator {
        reports: sender,
        blob: Blob::Missing,
        store: Store::Answers,
    });
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
    let spool = Spool::open(&folder.path().join("spool"), &[]).unwrap();
    let cache = Cache::open(folder.path().join("cache"), 1 << 20).unwrap();
    let (sender, mut reports) = mpsc::unbounded_channel();
    let judicator = Arc::new(FakeJudicator {
        reports: sender,
        blob: Blob::Stalls,
        store: Store::Answers,
    });
    let options = Options {
        stall: Duration::from_millis(300),
        ..options(folder.path())
    };
    let home = home(folder.path());
    let reporter = Reporter::assemble(options, home, Isolation::None, judicator, (cache, spool)).unwrap();
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
        matches!(&end, End::Broken(why) if why.contains("executor.stall")),
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
    let spool = Spool::open(&folder.path().join("spool"), &[]).unwrap();
    let cache = Cache::open(folder.path().join("cache"), 1 << 20).unwrap();
    let (sender, mut reports) = mpsc::unbounded_channel();
    let judicator = Arc::new(FakeJudicator {
        reports: sender,
        blob: Blob::Missing,
        store: Store::Hangs,
    });
    let self_kill = Duration::from_millis(300);
    let options = Options {
        self_kill,
        contact: Contact::SameProcess,
        ..options(folder.path())
    };
    let home = home(folder.path());
    let reporter = Reporter::assemble(options, home, Isolation::None, judicator, (cache, spool)).unwrap();
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
