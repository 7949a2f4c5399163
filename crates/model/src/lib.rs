//! The domain of Conclave as plain values: tasks, statuses, outcomes, reports and searches.
//!
//! Everything here is pure. This crate knows no wire format, no store, no clock and no file system. Decisions about a
//! task are functions over values here, so that both stores and all nodes decide alike.

mod attempt;
mod blob_hash;
mod capacity;
mod case_mark;
mod digest;
mod drain;
mod form;
mod group;
mod history;
mod id;
mod judging;
mod keep_pattern;
mod labels;
mod language;
mod limit_policy;
mod live_output;
mod node;
mod outcome;
mod points;
mod problem;
mod report;
mod retry;
mod root_name;
mod search;
mod status;
mod task;
mod task_state;
mod time;
mod tools;
mod validate;
mod verdict;
mod waiting;
mod workspace_path;

pub use attempt::{AttemptEnd, AttemptId, AttemptRecord, CompletedAttempt, ExecutingAttempt, RecordedEnd};
pub use blob_hash::{BlobHash, BlobHasher};
pub use capacity::{Capacity, MIN_OPEN_FILES_PER_PROCESS, ResourceRequest};
pub use case_mark::CaseMark;
pub use drain::{DrainReason, DrainReasonError, ExecutorDrain};
pub use form::TaskForm;
pub use group::{GroupKey, GroupPage, GroupQuery, GroupState};
pub use history::{
    ActivityFigures, History, HistoryMinute, HistoryPoint, HistorySpan, LoadFigures, LoadSample, PeriodLoad,
    RunTimeHistogram, RunTimeSummary,
};
pub use id::{
    AttemptNumber, ExecutorName, GroupName, NameError, NetworkName, ReportSeq, SessionId, TaskId,
    TaskIdPrefix, UserName,
};
pub use judging::{
    Case, CaseName, Check, GroupScoring, JudgeProgram, JudgeProtocol, Judging, StopRule, TokenCheck,
    Tolerance,
};
pub use keep_pattern::{KeepPattern, KeepPatternError};
pub use labels::Labels;
pub use language::{
    Language, LanguageExample, LanguageLimits, LanguageName, LanguageTable, LanguageTableError, SourceClasses,
};
pub use limit_policy::LimitPolicy;
pub use live_output::{
    FollowRequest, OutputAnswer, OutputContent, OutputEvent, OutputPosition, OutputRead, OutputRequest,
    OutputSource, StepName, StreamName,
};
pub use node::{
    ClusterMemberState, ExecutorState, Health, JudicatorState, MachineLoad, MemberLag, NO_EXECUTOR_MESSAGE,
    Stats, queued_tasks,
};
pub use outcome::{
    CapturedOutput, FilesLeftOut, KeptFile, LeftOutReason, Outcome, OutcomeReason, TaskResult,
};
pub use points::Points;
pub use problem::{JudgeProblem, ProblemEditor, ProblemName, ProblemRef, ProblemSummary};
pub use report::{
    Assignment, ExecutorInfo, HeldTask, ReconciledTasks, Report, ReportAnswer, ReportInstructions,
    ReportIntent, SessionCheck, StoredSession, check_session, reconcile_held_tasks,
};
pub use retry::{FailedAttempts, MAX_PLATFORM_FAILURES, ReleaseDecision, ReleaseReason, retry_delay};
pub use root_name::RootName;
pub use search::{Page, SearchCursor, SortOrder, StatusCounts, TaskCounts, TaskQuery, TaskSummary};
pub use status::TaskStatus;
pub use task::{
    AddTask, AddedTask, CompileStep, Content, ExecuteStep, Limits, StepCommand, Task, TaskFile, TaskFiles,
    TaskSpec,
};
pub use task_state::{EncodedEnd, EndTransition, TaskState, is_new_step_status};
pub use time::{StoreAge, UnixTime};
pub use tools::{
    ExecutorTools, JudgeTools, OfferedLanguage, OfferedRoot, QueueKeys, ToolRequirement, WAIT_ADVICE,
};
pub use validate::{InvalidField, TaskSizeLimits};
pub use verdict::{CaseDecision, CaseResult, CheckResult, FirstToEnd, Judgement, Verdict};
pub use waiting::{QueuePlace, QueuedBefore, TaskWait, WaitReason, queue_place};
pub use workspace_path::{WorkspacePath, WorkspacePathError};
