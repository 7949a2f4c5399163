//! A judicator on a store that fails in a chosen way.

use std::collections::BTreeMap;
use std::future::pending;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use judicator::{Judicator, JudicatorOptions};
use model::{
    AddedTask, AttemptNumber, BlobHash, ExecutorDrain, ExecutorName, ExecutorState, GroupKey, GroupPage,
    GroupQuery, GroupState, HistoryMinute, JudgeProblem, LimitPolicy, Page, ProblemEditor, ProblemName,
    ProblemSummary, QueuePlace, QueuedBefore, Report, StepCommand, StoreAge, Task, TaskCounts, TaskForm,
    TaskId, TaskQuery, TaskSizeLimits, TaskSpec, TaskStatus, TaskSummary, UnixTime, UserName,
};
use store::{
    BlobFile, BlobScanResult, BlobStream, ChangeEvent, EndsWithoutResult, HandledReport, HistoryStore,
    NewTaskRecord, ObservedSession, ProblemBounds, ProblemStore, RetentionSummary, StoreError, TaskStore,
    TaskTotals, WrittenFigures,
};
use supervise::{FailureWatch, Supervisor};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What the fake task store in the judicator's tests does wrong.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum StoreFault {
    None,
    SessionsPanic,
    ChangesEnd,
    CheckFails,
    CheckHangs,
    CheckPanics,
    /// `get` shows an earlier state than the change events.
    LaggingGet,
    /// Every task runs, in its second attempt.
    RunningTask,
    /// A search needs [`SLOW_PAGES`] pages, finds nothing on them, and takes a second for each.
    SlowSearch,
    /// `executors` fails, and there are no tasks.
    NoExecutorList,
    /// No blob can be read, although all exist. Every task can be added.
    NoBlobs,
}

pub(crate) const SLOW_PAGES: u32 = 20;

/// A fake task store for the judicator's tests of readiness checks and of waiting for a task. It fails as configured by
/// its [`StoreFault`].
pub(crate) struct FaultyStore {
    fault: StoreFault,
    pub(crate) checks: AtomicU32,
    pub(crate) changes: broadcast::Sender<ChangeEvent>,
    pub(crate) supervisor: Supervisor,
    pub(crate) reads: AtomicU32,
    pub(crate) group_reads: AtomicU32,
}

fn unused<T>() -> Result<T, StoreError> {
    Err(StoreError::Closed)
}

#[async_trait]
impl HistoryStore for FaultyStore {
    async fn oldest_queued(&self) -> Result<Option<UnixTime>, StoreError> {
        unused()
    }
    fn ends_without_result(&self) -> EndsWithoutResult {
        EndsWithoutResult::default()
    }
    async fn put_figures(&self, _: Vec<WrittenFigures>) -> Result<(), StoreError> {
        unused()
    }
    async fn figures(&self, _: Range<HistoryMinute>) -> Result<Vec<WrittenFigures>, StoreError> {
        unused()
    }
    async fn remove_figures(&self, _: HistoryMinute) -> Result<(), StoreError> {
        unused()
    }
}

#[async_trait]
impl ProblemStore for FaultyStore {
    async fn put_problem(
        &self,
        _: JudgeProblem,
        _: ProblemEditor,
        _: ProblemBounds,
    ) -> Result<JudgeProblem, StoreError> {
        unused()
    }
    async fn problem(&self, _: ProblemName) -> Result<Option<JudgeProblem>, StoreError> {
        unused()
    }
    async fn problems(&self) -> Result<Vec<ProblemSummary>, StoreError> {
        unused()
    }
    async fn remove_problem(&self, _: ProblemName, _: ProblemEditor) -> Result<bool, StoreError> {
        unused()
    }
}

#[async_trait]
impl TaskStore for FaultyStore {
    async fn newest_executor_form(&self) -> Result<Option<TaskForm>, StoreError> {
        unused()
    }
    async fn check(&self) -> Result<(), StoreError> {
        self.checks.fetch_add(1, Ordering::SeqCst);
        match self.fault {
            StoreFault::CheckFails => Err(StoreError::DiskFull {
                path: "/data/store".into(),
            }),
            StoreFault::CheckHangs => pending().await,
            StoreFault::CheckPanics => panic!("on purpose"),
            _ => Ok(()),
        }
    }
    fn failures(&self) -> FailureWatch {
        self.supervisor.failures()
    }
    async fn executors(&self) -> Result<Vec<ExecutorState>, StoreError> {
        match self.fault {
            StoreFault::NoExecutorList => unused(),
            _ => Ok(vec![]),
        }
    }
    async fn live_sessions(&self) -> Result<Vec<ObservedSession>, StoreError> {
        match self.fault {
            StoreFault::SessionsPanic => panic!("on purpose"),
            _ => Ok(vec![]),
        }
    }
    fn subscribe(&self) -> broadcast::Receiver<ChangeEvent> {
        match self.fault {
            StoreFault::ChangesEnd => broadcast::channel(1).1,
            _ => self.changes.subscribe(),
        }
    }
    fn incoming_folder(&self) -> PathBuf {
        PathBuf::new()
    }
    async fn add(&self, tasks: Vec<NewTaskRecord>) -> Result<Vec<AddedTask>, StoreError> {
        let added = |task: NewTaskRecord| AddedTask {
            id: task.id,
            add_time: UnixTime(1),
            existed: false,
        };
        match self.fault {
            StoreFault::NoBlobs => Ok(tasks.into_iter().map(added).collect()),
            _ => unused(),
        }
    }
    async fn cancel(&self, _: TaskId) -> Result<Option<Task>, StoreError> {
        unused()
    }
    async fn cancel_many(&self, _: Vec<TaskId>) -> Result<u64, StoreError> {
        unused()
    }
    async fn group(&self, key: GroupKey) -> Result<Option<GroupState>, StoreError> {
        self.group_reads.fetch_add(1, Ordering::SeqCst);
        match self.fault {
            StoreFault::SlowSearch => Ok(Some(GroupState {
                key,
                counts: [(TaskStatus::Pending, 1)].into(),
                unknown: 0,
                reasons: BTreeMap::new(),
                add_time: UnixTime(1),
                last_finish: None,
            })),
            _ => unused(),
        }
    }
    async fn groups(&self, _: GroupQuery) -> Result<GroupPage, StoreError> {
        unused()
    }
    fn newer_form(&self) -> Option<TaskForm> {
        None
    }
    async fn get(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        match self.fault {
            StoreFault::LaggingGet => Ok(Some(task(id, TaskStatus::Running))),
            StoreFault::RunningTask => Ok(Some(running_again(id))),
            StoreFault::NoExecutorList => Ok(None),
            _ => unused(),
        }
    }
    async fn get_after_event(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        match self.fault {
            StoreFault::LaggingGet => Ok(Some(task(id, TaskStatus::Success))),
            StoreFault::RunningTask => Ok(Some(running_again(id))),
            _ => unused(),
        }
    }
    async fn queued_before(&self, _: QueuePlace) -> Result<QueuedBefore, StoreError> {
        unused()
    }
    async fn search(&self, query: TaskQuery) -> Result<Page, StoreError> {
        if self.fault != StoreFault::SlowSearch {
            return unused();
        }
        self.reads.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let page = 1 + query.after.map_or(0, |cursor| cursor.add_time.0);
        let next = query.cursor_at(UnixTime(page), TaskId(uuid::Uuid::nil()));
        Ok(Page {
            tasks: (query.limit == 1).then(summary).into_iter().collect(),
            next: (page < SLOW_PAGES.into()).then_some(next),
            complete: false,
        })
    }
    async fn count(&self, _: TaskQuery) -> Result<TaskCounts, StoreError> {
        unused()
    }
    async fn totals(&self) -> Result<TaskTotals, StoreError> {
        unused()
    }
    async fn report(&self, _: Report) -> Result<HandledReport, StoreError> {
        unused()
    }
    async fn expire(&self, _: ObservedSession) -> Result<Option<usize>, StoreError> {
        unused()
    }
    async fn set_drain(&self, _: ExecutorName, _: Option<ExecutorDrain>) -> Result<bool, StoreError> {
        unused()
    }
    async fn remove_ended_executors(&self, _: StoreAge) -> Result<usize, StoreError> {
        unused()
    }
    async fn apply_retention(
        &self,
        _: StoreAge,
        _: StoreAge,
        _: usize,
    ) -> Result<RetentionSummary, StoreError> {
        unused()
    }
    async fn put_blob(&self, _: BlobFile) -> Result<(), StoreError> {
        unused()
    }
    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, StoreError> {
        match self.fault {
            StoreFault::NoBlobs => Ok(vec![Some(1); hashes.len()]),
            _ => unused(),
        }
    }
    async fn age(&self) -> Result<StoreAge, StoreError> {
        Ok(StoreAge::default())
    }
    async fn advance_age(&self, from: StoreAge, _: Duration) -> Result<StoreAge, StoreError> {
        Ok(from)
    }
    async fn scan_blobs(&self, _: u8) -> Result<BlobScanResult, StoreError> {
        Ok(BlobScanResult::default())
    }
    async fn count_damaged_blobs(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
    async fn get_blob(&self, _: BlobHash) -> Result<Option<BlobStream>, StoreError> {
        unused()
    }
    async fn get_blob_from(&self, _: BlobHash, _: u64) -> Result<Option<BlobStream>, StoreError> {
        unused()
    }
}

/// A judicator on a fake task store that fails as the test chooses.
pub(crate) struct TestJudicator {
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) judicator: Arc<Judicator>,
    pub(crate) tracker: TaskTracker,
    pub(crate) stop: CancellationToken,
}

pub(crate) fn options() -> JudicatorOptions {
    JudicatorOptions {
        name: "j".into(),
        address: "127.0.0.1:1".into(),
        version: "1".into(),
        store: "fake".into(),
        languages: Default::default(),
        limits: LimitPolicy::default(),
        capacity: None,
        task_size_limits: TaskSizeLimits::default(),
        attempts: 3,
        max_attempts: 100,
        max_blob: 64 << 20,
        lease: Duration::from_secs(60),
        grace: Duration::from_secs(60),
        keep_done: None,
        keep_blobs: Duration::from_secs(3600),
        forget_executors: Duration::from_secs(3600),
        scan_blobs: Duration::from_secs(3600),
        list_judicators: None,
    }
}

pub(crate) fn start(fault: StoreFault) -> TestJudicator {
    start_with(fault, options())
}

pub(crate) fn start_with(fault: StoreFault, options: JudicatorOptions) -> TestJudicator {
    let store = Arc::new(FaultyStore {
        fault,
        checks: AtomicU32::new(0),
        changes: broadcast::Sender::new(8),
        supervisor: Supervisor::new(),
        reads: AtomicU32::new(0),
        group_reads: AtomicU32::new(0),
    });
    let options = JudicatorOptions {
        lease: Duration::from_millis(50),
        grace: Duration::from_millis(50),
        ..options
    };
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    let leading = watch::channel(true).1;
    let judicator = Judicator::start(options, store.clone(), leading, &tracker, &stop);
    TestJudicator {
        store,
        judicator,
        tracker,
        stop,
    }
}

pub(crate) async fn with_deadline<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.unwrap()
}

fn running_again(id: TaskId) -> Task {
    Task {
        attempt: AttemptNumber(2),
        ..task(id, TaskStatus::Running)
    }
}

/// The newest task of a group.
fn summary() -> TaskSummary {
    let task = task(TaskId(uuid::Uuid::nil()), TaskStatus::Success);
    TaskSummary {
        id: task.id,
        user: task.spec.user,
        priority: 0,
        command: String::new(),
        status: task.status,
        reason: None,
        labels: task.spec.labels,
        group: None,
        language: None,
        executor: None,
        attempt: task.attempt,
        add_time: task.add_time,
        start_time: None,
        finish_time: None,
    }
}

fn task(id: TaskId, status: TaskStatus) -> Task {
    Task {
        id,
        spec: TaskSpec::new(UserName::new("ada").unwrap(), StepCommand::Shell("true".into())),
        status,
        executor: None,
        session: None,
        attempt: AttemptNumber(1),
        add_time: UnixTime(1),
        start_time: None,
        report_time: None,
        finish_time: None,
        ran_on: vec![],
        result: None,
        trouble: None,
    }
}
