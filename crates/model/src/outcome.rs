//! How a step ended. A program that fails, hangs or floods its output has an outcome; it is not an error of Conclave.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;

use crate::{BlobHash, Judgement, TaskStatus, Verdict, WorkspacePath};

/// How a step of a task (compile or execute) ended, what it used, and what it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub reason: OutcomeReason,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub wall: Duration,
    pub cpu: Duration,
    /// The peak memory, in bytes.
    pub memory: u64,
    pub stdout: CapturedOutput,
    pub stderr: CapturedOutput,
}

/// What a step of a task wrote to stdout or stderr, up to a limit.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CapturedOutput {
    /// The first bytes of what is kept, at most [`CapturedOutput::MAX_HEAD`].
    pub head: Bytes,
    /// How many bytes are kept.
    pub size: u64,
    /// The blob with everything that is kept. Present exactly if that is more than `head`.
    pub blob: Option<BlobHash>,
    /// Whether the step wrote more than is kept.
    pub truncated: bool,
}

/// A file of the workspace that was kept when the execute step had ended, as a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFile {
    pub path: WorkspacePath,
    pub size: u64,
    pub blob: BlobHash,
    pub executable: bool,
}

/// The files that match a task's patterns but were not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FilesLeftOut {
    pub count: u64,
    /// Their size together, as far as it is known.
    pub bytes: u64,
    /// Why the first of them was left out.
    pub why: Option<LeftOutReason>,
}

/// Why a file that matches a task's patterns was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeftOutReason {
    /// There are more files than the operator allows.
    TooMany,
    /// The files are larger together than the operator allows.
    TooLarge,
    /// It is a link, a pipe, a socket or a device.
    NotRegular,
    /// Its path is not UTF-8, or not a path that a task's file can have.
    BadName,
    /// The executor had no room for it, or could not read it.
    NoSpace,
}

/// Why a step of a task (compile or execute) ended, such as its exit, a signal or an exceeded limit. The last two reasons are
/// those of judged tasks, not of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutcomeReason {
    Exited,
    Signalled,
    TimeLimit,
    WallLimit,
    MemoryLimit,
    OutputLimit,
    ProcessLimit,
    /// The step failed, and the space for the task's files was full.
    DiskLimit,
    Cancelled,
    /// A case of the task was judged as a wrong answer.
    WrongAnswer,
    /// The program that judges failed.
    JudgeError,
}

/// The result of an attempt to run a task: the outcomes of its steps. If there is no execute outcome, the compile step
/// failed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TaskResult {
    pub compile: Option<Outcome>,
    pub execute: Option<Outcome>,
    /// Sorted by path.
    pub files: Vec<KeptFile>,
    pub files_left_out: FilesLeftOut,
    /// The verdict on a task with cases. Such a task has no execute outcome.
    pub judgement: Option<Judgement>,
}

impl CapturedOutput {
    /// The most bytes of an output stream that travel within a result. More of them are in a blob.
    pub const MAX_HEAD: usize = 64 << 10;

    /// Output that is small enough to be wholly in the result.
    pub fn small(bytes: impl Into<Bytes>) -> CapturedOutput {
        let head = bytes.into();
        CapturedOutput {
            size: head.len() as u64,
            head,
            blob: None,
            truncated: false,
        }
    }
}

impl FilesLeftOut {
    /// Counts one more file.
    pub fn add(&mut self, bytes: u64, why: LeftOutReason) {
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.why.get_or_insert(why);
    }
}

impl Outcome {
    pub fn succeeded(&self) -> bool {
        self.reason == OutcomeReason::Exited && self.exit_code == Some(0)
    }
}

impl TaskResult {
    /// The outcome of the last step that ran.
    pub fn last_outcome(&self) -> Option<&Outcome> {
        self.execute.as_ref().or(self.compile.as_ref())
    }

    /// The four output streams, as far as their steps ran.
    pub fn outputs(&self) -> impl Iterator<Item = &CapturedOutput> {
        let outcomes = self.compile.iter().chain(&self.execute);
        outcomes.flat_map(|outcome| [&outcome.stdout, &outcome.stderr])
    }

    /// The blobs that the result names, each once.
    pub fn blobs(&self) -> Vec<BlobHash> {
        let outputs = self.outputs().filter_map(|output| output.blob);
        let files = self.files.iter().map(|file| file.blob);
        let judgement = self.judgement.iter();
        let cases = judgement.filter_map(|judgement| judgement.cases.blob());
        let mut blobs: Vec<_> = outputs.chain(files).chain(cases).collect();
        blobs.sort_unstable();
        blobs.dedup();
        blobs
    }

    /// Why the task ended, as lists show it.
    pub fn reason(&self) -> Option<OutcomeReason> {
        let outcome = || self.last_outcome().map(|outcome| outcome.reason);
        match &self.judgement {
            Some(judgement) => match judgement.verdict {
                Verdict::CompileError => outcome(),
                _ => Some(judgement.reason()),
            },
            None => outcome(),
        }
    }

    pub fn status(&self) -> TaskStatus {
        if let Some(judgement) = &self.judgement {
            return judgement.status();
        }
        match (&self.compile, &self.execute) {
            (_, Some(execute)) if execute.succeeded() => TaskStatus::Success,
            (_, Some(_)) => TaskStatus::RunFailed,
            (_, None) => TaskStatus::CompileFailed,
        }
    }
}

impl LeftOutReason {
    pub const ALL: [LeftOutReason; 5] = [
        LeftOutReason::TooMany,
        LeftOutReason::TooLarge,
        LeftOutReason::NotRegular,
        LeftOutReason::BadName,
        LeftOutReason::NoSpace,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            LeftOutReason::TooMany => "too_many",
            LeftOutReason::TooLarge => "too_large",
            LeftOutReason::NotRegular => "not_regular",
            LeftOutReason::BadName => "bad_name",
            LeftOutReason::NoSpace => "no_space",
        }
    }
}

impl FromStr for LeftOutReason {
    type Err = String;
    fn from_str(text: &str) -> Result<LeftOutReason, String> {
        LeftOutReason::ALL
            .into_iter()
            .find(|reason| reason.as_str() == text)
            .ok_or_else(|| format!("'{text}' is no reason to leave a file out"))
    }
}

impl OutcomeReason {
    pub const ALL: [OutcomeReason; 11] = [
        OutcomeReason::Exited,
        OutcomeReason::Signalled,
        OutcomeReason::TimeLimit,
        OutcomeReason::WallLimit,
        OutcomeReason::MemoryLimit,
        OutcomeReason::OutputLimit,
        OutcomeReason::ProcessLimit,
        OutcomeReason::DiskLimit,
        OutcomeReason::Cancelled,
        OutcomeReason::WrongAnswer,
        OutcomeReason::JudgeError,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            OutcomeReason::Exited => "exited",
            OutcomeReason::Signalled => "signalled",
            OutcomeReason::TimeLimit => "time_limit",
            OutcomeReason::WallLimit => "wall_limit",
            OutcomeReason::MemoryLimit => "memory_limit",
            OutcomeReason::OutputLimit => "output_limit",
            OutcomeReason::ProcessLimit => "process_limit",
            OutcomeReason::DiskLimit => "disk_limit",
            OutcomeReason::Cancelled => "cancelled",
            OutcomeReason::WrongAnswer => "wrong_answer",
            OutcomeReason::JudgeError => "judge_error",
        }
    }
}

impl fmt::Display for OutcomeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for OutcomeReason {
    type Err = String;
    fn from_str(text: &str) -> Result<OutcomeReason, String> {
        OutcomeReason::ALL
            .into_iter()
            .find(|reason| reason.as_str() == text)
            .ok_or_else(|| format!("'{text}' is no reason for an outcome"))
    }
}
