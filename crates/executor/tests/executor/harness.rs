//! Helpers of all tests: an executor with a fake judicator, tasks, and waiting with a deadline.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use executor::{ExecutorError, ExecutorOptions, ExecutorService, JudicatorLocation};
use futures::StreamExt;
use model::{
    Assignment, AttemptEnd, AttemptId, AttemptNumber, Capacity, CompileStep, Content, ExecuteStep, Labels,
    Limits, OutputAnswer, OutputContent, OutputPosition, OutputRead, OutputRequest, OutputSource, Report,
    SessionId, StepCommand, TaskId, TaskSpec, UserName,
};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fake_judicator::{FakeOutputConnection, FakeTestJudicator};

/// A generous timeout: the machine may be busy with other tests.
const SOON: Duration = Duration::from_secs(60);

/// An executor with one slot and real wardens, whose judicator is a fake.
pub(crate) struct ExecutorHarness {
    pub(crate) judicator: Arc<FakeTestJudicator>,
    reports: mpsc::UnboundedReceiver<Report>,
    connections: mpsc::UnboundedReceiver<FakeOutputConnection>,
    running: JoinHandle<Result<(), ExecutorError>>,
    stop: CancellationToken,
    folder: tempfile::TempDir,
}

/// The judicator's end of a connection on which the executor serves output, for a test that asks for output.
pub(crate) struct OutputClient {
    pub(crate) session: SessionId,
    connection: FakeOutputConnection,
    last_id: u64,
}

/// A place where a task waits until the test lets it continue.
pub(crate) struct TaskGate(PathBuf);

impl ExecutorHarness {
    pub(crate) async fn start() -> ExecutorHarness {
        ExecutorHarness::start_with(|_| ()).await
    }

    /// Starts an executor that keeps this much of each output stream.
    pub(crate) async fn start_keeping(keep_output: u64) -> ExecutorHarness {
        ExecutorHarness::start_with(|options| options.keep_output = keep_output).await
    }

    /// Starts an executor with other options than usual.
    pub(crate) async fn start_with(change: impl FnOnce(&mut ExecutorOptions)) -> ExecutorHarness {
        let folder = tempfile::tempdir().unwrap();
        let (report_sender, reports) = mpsc::unbounded_channel();
        let (connection_sender, connections) = mpsc::unbounded_channel();
        let judicator = Arc::new(FakeTestJudicator::new(report_sender, connection_sender));
        let mut options = options(&folder.path().join("data"));
        change(&mut options);
        let service = ExecutorService::prepare(options, judicator.clone())
            .await
            .unwrap();
        let stop = CancellationToken::new();
        ExecutorHarness {
            judicator,
            reports,
            connections,
            running: tokio::spawn(service.run(stop.clone())),
            stop,
            folder,
        }
    }

    /// Waits for the executor to connect.
    pub(crate) async fn connected(&mut self) -> OutputClient {
        let connection = soon(self.connections.recv()).await.unwrap();
        OutputClient {
            session: connection.session,
            connection,
            last_id: 0,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn gate(&self, name: &str) -> TaskGate {
        let path = self.path(name);
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        TaskGate(path)
    }

    /// Assigns a new attempt to the executor, and waits until the executor has it.
    pub(crate) async fn assign(&mut self, session: SessionId, spec: TaskSpec) -> AttemptId {
        let attempt_id = new_attempt(session);
        let next_report = self.judicator.assign(Assignment {
            attempt_id,
            spec,
            platform_losses: 0,
        });
        self.reported(|report| report.seq >= next_report).await;
        attempt_id
    }

    /// Waits for the result of the attempt.
    pub(crate) async fn result(&mut self, attempt_id: AttemptId) -> AttemptEnd {
        loop {
            let report = soon(self.reports.recv()).await.unwrap();
            let mut complete = report.complete.into_iter();
            if let Some(found) = complete.find(|one| one.attempt_id == attempt_id) {
                return found.end;
            }
        }
    }

    /// Waits for a report of which this is true.
    pub(crate) async fn reported(&mut self, is_wanted: impl Fn(&Report) -> bool) {
        while !is_wanted(&soon(self.reports.recv()).await.unwrap()) {}
    }

    /// Waits until the result of the attempt is reported.
    pub(crate) async fn completed(&mut self, attempt_id: AttemptId) {
        self.reported(|report| report.complete.iter().any(|one| one.attempt_id == attempt_id))
            .await;
    }

    /// Waits until a report neither names the attempt nor carries its result.
    pub(crate) async fn forgotten(&mut self, attempt_id: AttemptId) {
        self.reported(|report| !is_named(report, attempt_id)).await;
    }

    pub(crate) async fn stop(self) {
        self.judicator.acknowledge_results();
        self.stop.cancel();
        soon(self.running).await.unwrap().unwrap();
    }
}

impl OutputClient {
    /// Sends a request and returns its id.
    pub(crate) fn ask(&mut self, attempt_id: AttemptId, source: OutputSource, offset: u64) -> u64 {
        self.last_id += 1;
        let read = OutputRead {
            id: self.last_id,
            attempt_id,
            at: OutputPosition { source, offset },
        };
        self.send(OutputRequest::Read(read));
        self.last_id
    }

    pub(crate) fn send(&self, request: OutputRequest) {
        self.connection.requests.send(request).unwrap();
    }

    /// Waits for the next answer to any request.
    pub(crate) async fn answer(&mut self) -> OutputAnswer {
        soon(self.connection.answers.next()).await.unwrap()
    }

    /// Asks and waits for the answer.
    pub(crate) async fn read(
        &mut self,
        attempt_id: AttemptId,
        source: OutputSource,
        offset: u64,
    ) -> OutputContent {
        let id = self.ask(attempt_id, source, offset);
        let answer = self.answer().await;
        assert_eq!(answer.id, id);
        answer.content
    }

    /// Reads a stream from its beginning, until it has this many bytes.
    pub(crate) async fn read_bytes(
        &mut self,
        attempt_id: AttemptId,
        source: OutputSource,
        count: usize,
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < count {
            match self.read(attempt_id, source, bytes.len() as u64).await {
                OutputContent::Bytes(more) => bytes.extend(more),
                other => panic!("{other:?} after {} bytes", bytes.len()),
            }
        }
        bytes
    }
}

impl TaskGate {
    /// A shell command that waits until the gate is opened.
    pub(crate) fn wait(&self) -> String {
        format!("read _ < {}", self.0.display())
    }

    /// Lets the task continue that waits, or will wait, at this gate.
    pub(crate) async fn open(self) {
        let write = tokio::task::spawn_blocking(move || std::fs::write(self.0, "\n"));
        soon(write).await.unwrap().unwrap();
    }
}

/// Whether the report names the attempt or carries its result.
fn is_named(report: &Report, attempt_id: AttemptId) -> bool {
    let complete = report.complete.iter().map(|one| one.attempt_id);
    let mut named = complete.chain(report.executing.iter().map(|one| one.attempt_id));
    named.any(|named| named == attempt_id)
}

pub(crate) fn new_attempt(session: SessionId) -> AttemptId {
    AttemptId {
        task: TaskId(uuid::Uuid::now_v7()),
        session,
        attempt: AttemptNumber(1),
    }
}

/// A task whose execute step is a shell command.
pub(crate) fn task(execute: String) -> TaskSpec {
    TaskSpec {
        user: UserName::new("ada").unwrap(),
        priority: 0,
        compile: None,
        execute: ExecuteStep {
            command: StepCommand::Shell(execute),
            args: Vec::new(),
            env: BTreeMap::new(),
            input: Content::empty(),
            network: None,
            limits: Limits::default(),
        },
        source: BTreeMap::new(),
        data: BTreeMap::new(),
        judging: None,
        problem: None,
        keep: Vec::new(),
        labels: Labels::default(),
        group: None,
        attempts: None,
        language: None,
        root: None,
        retry_of: None,
    }
}

/// A task with two steps, both shell commands.
pub(crate) fn compiled_task(compile: String, execute: String) -> TaskSpec {
    TaskSpec {
        compile: Some(CompileStep {
            command: StepCommand::Shell(compile),
            env: BTreeMap::new(),
            network: None,
            limits: Limits::default(),
        }),
        ..task(execute)
    }
}

fn options(data: &Path) -> ExecutorOptions {
    ExecutorOptions {
        name: None,
        data: data.to_path_buf(),
        slots: 1,
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
        keep_output: 16 << 20,
        keep_files: 16,
        keep_bytes: 1 << 20,
        outgoing_bytes: 64 << 20,
        version: "test".into(),
        roots: roots::RootStore::open(&data.join("roots")),
        cells: None,
        pin: false,
        judge_without_cells: false,
        warden: (env!("CARGO_BIN_EXE_executor-fixture").into(), Vec::new()),
    }
}

async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(SOON, future).await.expect("in time")
}
