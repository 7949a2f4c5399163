//! A task in a response.

use model::{
    CaseMark, ExecutorName, GroupName, KeepPattern, Labels, LanguageName, ProblemName, RecordedEnd, RootName,
    StopRule, TaskId, TaskStatus, UnixTime, UserName,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::group_rule::{self, GroupRules};
use crate::{
    Case, CaseResult, Check, CompileStep, ExecuteStep, FilesOrZip, JudgeProgram, TaskResult, labels, schema,
    serde_text,
};

/// A task with its status, its specification and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    #[serde(with = "serde_text::task")]
    #[schema(value_type = schema::Id)]
    pub id: TaskId,
    #[serde(with = "serde_text::user")]
    #[schema(value_type = String)]
    pub user: UserName,
    pub priority: i32,
    #[serde(with = "serde_text::status")]
    #[schema(value_type = schema::Status)]
    pub status: TaskStatus,
    /// A task that is done never changes again.
    pub done: bool,
    /// The executor that has the task now.
    #[serde(with = "serde_text::optional::executor")]
    #[schema(value_type = Option<String>)]
    pub executor: Option<ExecutorName>,
    /// How many times the task was handed to an executor.
    pub attempt: u32,
    /// How many attempts may be lost before the task ends as `system_error`.
    #[serde(default)]
    #[schema(required = true)]
    pub attempts: Option<u32>,
    #[serde(with = "labels", default)]
    #[schema(value_type = schema::Labels, required = true)]
    pub labels: Labels,
    /// The set of this user's tasks that the task belongs to.
    #[serde(with = "serde_text::optional::group", default)]
    #[schema(value_type = Option<String>, required = true)]
    pub group: Option<GroupName>,
    /// The task that this one repeats.
    #[serde(with = "serde_text::optional::task", default)]
    #[schema(value_type = Option<schema::Id>, required = true)]
    pub retry_of: Option<TaskId>,
    #[serde(with = "serde_text::time")]
    #[schema(value_type = schema::Time)]
    pub add_time: UnixTime,
    /// When the current or last attempt was handed to its executor.
    #[serde(with = "serde_text::optional::time")]
    #[schema(value_type = Option<schema::Time>)]
    pub start_time: Option<UnixTime>,
    /// When an executor last reported a change of the task.
    #[serde(with = "serde_text::optional::time")]
    #[schema(value_type = Option<schema::Time>)]
    pub report_time: Option<UnixTime>,
    #[serde(with = "serde_text::optional::time")]
    #[schema(value_type = Option<schema::Time>)]
    pub finish_time: Option<UnixTime>,
    /// The attempts that began, oldest first; of many, the newest 20.
    #[serde(default)]
    #[schema(required = true)]
    pub ran_on: Vec<AttemptRecord>,
    /// The language that filled in what the request left out.
    #[serde(with = "serde_text::optional::language", default)]
    #[schema(value_type = Option<String>, required = true)]
    pub language: Option<LanguageName>,
    /// The root file system of the steps. Null is the executor's default.
    #[serde(with = "serde_text::optional::root", default)]
    #[schema(value_type = Option<String>, required = true)]
    pub root: Option<RootName>,
    #[schema(value_type = schema::Files)]
    pub source: FilesOrZip,
    #[schema(value_type = schema::Files)]
    pub data: FilesOrZip,
    pub compile: Option<CompileStep>,
    pub execute: ExecuteStep,
    /// The cases of a judged task. What those of a problem contain is for its owner. Null for a task that is not judged, like
    /// the next four fields.
    #[serde(default)]
    #[schema(required = true)]
    pub cases: Option<Vec<Case>>,
    #[serde(default)]
    #[schema(value_type = Option<schema::Check>, required = true)]
    pub check: Option<Check>,
    #[serde(default)]
    #[schema(required = true)]
    pub interact: Option<JudgeProgram>,
    #[serde(with = "serde_text::optional::stop", default)]
    #[schema(value_type = Option<schema::StopRule>, required = true)]
    pub stop: Option<StopRule>,
    #[serde(with = "group_rule", default)]
    #[schema(value_type = schema::GroupRules, required = true)]
    pub groups: GroupRules,
    /// The problem that has brought the cases.
    #[serde(with = "serde_text::optional::problem", default)]
    #[schema(value_type = Option<String>, required = true)]
    pub problem: Option<ProblemName>,
    /// Which files of the workspace are kept when the execute step has ended.
    #[serde(with = "labels::keep", default)]
    #[schema(value_type = Vec<String>, required = true)]
    pub keep: Vec<KeepPattern>,
    /// The outcomes of the steps, and the kept files.
    pub result: Option<TaskResult>,
    /// Why the platform could not run the task. Null for all other tasks.
    pub trouble: Option<String>,
}

/// An attempt of a task that began: where it ran, when, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Attempt)]
pub struct AttemptRecord {
    #[serde(with = "serde_text::executor")]
    #[schema(value_type = String)]
    pub executor: ExecutorName,
    pub attempt: u32,
    #[serde(with = "serde_text::time")]
    #[schema(value_type = schema::Time)]
    pub start_time: UnixTime,
    /// Null while the attempt runs.
    #[serde(with = "serde_text::optional::time")]
    #[schema(value_type = Option<schema::Time>)]
    pub end_time: Option<UnixTime>,
    /// `finished`: it has the task's result. `lost`: its executor died, went silent or hung. `given_back`: its executor stopped
    /// in an orderly way. `broken`: its executor could not run it. `cancelled`: the task was cancelled. Null
    /// while the attempt runs.
    #[serde(with = "serde_text::optional::recorded_end")]
    #[schema(value_type = Option<schema::AttemptEnd>)]
    pub end: Option<RecordedEnd>,
}

/// A change of a task's status, as an event of the stream of a task's events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Event)]
pub struct TaskEvent {
    #[serde(with = "serde_text::task")]
    #[schema(value_type = schema::Id)]
    pub id: TaskId,
    #[serde(with = "serde_text::status")]
    #[schema(value_type = schema::Status)]
    pub status: TaskStatus,
    pub done: bool,
    #[serde(with = "serde_text::optional::executor")]
    #[schema(value_type = Option<String>)]
    pub executor: Option<ExecutorName>,
    #[serde(with = "serde_text::time")]
    #[schema(value_type = schema::Time)]
    pub time: UnixTime,
}

/// The fields of a task's JSON that say how it is judged.
#[derive(Default)]
struct JudgingFields {
    cases: Option<Vec<Case>>,
    check: Option<Check>,
    interact: Option<JudgeProgram>,
    stop: Option<StopRule>,
    groups: GroupRules,
    problem: Option<ProblemName>,
}

impl From<model::Judging> for JudgingFields {
    fn from(judging: model::Judging) -> JudgingFields {
        let model::Judging {
            cases,
            check,
            stop,
            groups,
            problem,
        } = judging;
        let (check, interact) = Check::of_model(check);
        JudgingFields {
            cases: Some(cases.into_iter().map(Into::into).collect()),
            // An interactor decides alone.
            check: interact.is_none().then_some(check),
            interact,
            stop: Some(stop),
            groups,
            problem: problem.map(|problem| problem.name),
        }
    }
}

impl Task {
    /// Replaces the bare verdicts on the cases by their results.
    pub fn set_case_results(&mut self, results: Vec<model::CaseResult>) {
        if let Some(result) = &mut self.result {
            result.cases = Some(results.into_iter().map(Into::into).collect());
        }
    }

    /// Leaves out what the owner of the cases alone may see: inputs, answers and messages of the judge, and what a program may
    /// have copied from its input.
    pub fn hide_secrets(&mut self) {
        let cases = self.cases.as_deref_mut().unwrap_or_default();
        let results = self
            .result
            .iter_mut()
            .filter_map(|result| result.cases.as_deref_mut());
        for (index, result) in results.flatten().enumerate() {
            let is_sample = cases.get(index).is_some_and(|case| case.sample);
            result.hide(is_sample);
        }
        cases.iter_mut().for_each(Case::hide);
        self.check.iter_mut().for_each(Check::hide);
        self.interact.iter_mut().for_each(JudgeProgram::hide);
    }
}

impl From<model::Task> for Task {
    fn from(task: model::Task) -> Task {
        let model::Task {
            id,
            spec,
            status,
            executor,
            session: _,
            attempt,
            add_time,
            start_time,
            report_time,
            finish_time,
            ran_on,
            result,
            trouble,
        } = task;
        let judgement = result.as_ref().and_then(|result| result.judgement.as_ref());
        let marks = judgement.zip(spec.judging.as_ref()).map(|(judgement, judging)| {
            let marks = CaseMark::of_judgement(judging, judgement);
            marks.map(CaseResult::of_mark).collect()
        });
        let result = result.map(|result| TaskResult {
            cases: marks,
            ..result.into()
        });
        let judging = spec.judging.map(JudgingFields::from).unwrap_or_default();
        Task {
            id,
            user: spec.user,
            priority: spec.priority,
            status,
            done: status.is_done(),
            executor,
            attempt: attempt.0,
            attempts: spec.attempts,
            labels: spec.labels,
            group: spec.group,
            retry_of: spec.retry_of,
            add_time,
            start_time,
            report_time,
            finish_time,
            ran_on: ran_on.into_iter().map(Into::into).collect(),
            language: spec.language,
            root: spec.root,
            source: spec.source.into(),
            data: spec.data.into(),
            compile: spec.compile.map(Into::into),
            execute: spec.execute.into(),
            cases: judging.cases,
            check: judging.check,
            interact: judging.interact,
            stop: judging.stop,
            groups: judging.groups,
            problem: spec.problem.or(judging.problem),
            keep: spec.keep,
            result,
            trouble,
        }
    }
}

impl From<model::AttemptRecord> for AttemptRecord {
    fn from(record: model::AttemptRecord) -> AttemptRecord {
        let model::AttemptRecord {
            executor,
            attempt,
            start_time,
            end,
        } = record;
        AttemptRecord {
            executor,
            attempt: attempt.0,
            start_time,
            end_time: end.map(|(time, _)| time),
            end: end.map(|(_, end)| end),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use model::{
        AttemptNumber, BlobHash, CapturedOutput, FilesLeftOut, KeptFile, LeftOutReason, Outcome,
        OutcomeReason, TaskSpec, WorkspacePath,
    };

    use super::*;
    use crate::{CasesOrFiles, NewTask, parse_json};

    const WRITTEN: &str = r#"{
        "user": "alice", "priority": 3,
        "source": {"main.cpp": "int main(){}", "run.sh": {"text": "./main", "executable": true}},
        "data": {"raw": {"base64": "//8="}},
        "compile": {"command": "g++ -O2 -o main main.cpp", "limits": {"wall": "10s"}},
        "execute": {"command": ["./main"], "args": ["-v"], "env": {"A": "b"}, "input": "Hello", "network": "loopback",
                    "limits": {"wall": "2s", "cpu": "500ms", "memory": "256MiB", "output": "1MiB", "processes": 64,
                               "file_size": "16MiB", "open_files": 256, "stack": "8MiB", "space": "1GiB"}},
        "keep": ["out/*.csv"], "labels": {"assignment": "hw3"}, "group": "sweep-17", "attempts": 10
    }"#;

    fn task() -> Task {
        let new: NewTask = parse_json(WRITTEN.as_bytes()).unwrap();
        let (FilesOrZip::ByPath(source), FilesOrZip::ByPath(data)) = (new.source, new.data) else {
            panic!("files are listed");
        };
        model::Task {
            id: TaskId(uuid_of(7)),
            spec: TaskSpec {
                user: new.user.unwrap(),
                priority: new.priority,
                language: new.language,
                root: new.root,
                compile: new.compile.map(Into::into),
                execute: new.execute.into(),
                source,
                data,
                judging: None,
                problem: None,
                keep: new.keep,
                labels: new.labels,
                group: new.group,
                attempts: new.attempts,
                retry_of: Some(TaskId(uuid_of(6))),
            },
            status: TaskStatus::RunFailed,
            executor: None,
            session: None,
            attempt: AttemptNumber(1),
            add_time: UnixTime(1_767_225_600_000_001),
            start_time: Some(UnixTime(1_767_225_600_000_002)),
            report_time: None,
            finish_time: Some(UnixTime(1_767_225_600_100_000)),
            ran_on: vec![
                model::AttemptRecord {
                    executor: ExecutorName::new("w1").unwrap(),
                    attempt: AttemptNumber(1),
                    start_time: UnixTime(1_767_225_600_000_002),
                    end: Some((UnixTime(1_767_225_600_100_000), RecordedEnd::GivenBack)),
                },
                model::AttemptRecord {
                    executor: ExecutorName::new("w2").unwrap(),
                    attempt: AttemptNumber(2),
                    start_time: UnixTime(1_767_225_600_200_000),
                    end: None,
                },
            ],
            result: Some(model::TaskResult {
                compile: None,
                execute: Some(Outcome {
                    reason: OutcomeReason::Signalled,
                    exit_code: None,
                    signal: Some(11),
                    wall: Duration::from_millis(3),
                    cpu: Duration::from_millis(1),
                    memory: 1_234_567,
                    stdout: CapturedOutput {
                        head: Bytes::from_static(b"caf\xc3\xa9 \xff"),
                        size: 7,
                        blob: None,
                        truncated: true,
                    },
                    stderr: CapturedOutput {
                        head: Bytes::from_static(b"caf\xc3"),
                        size: 70_000,
                        blob: Some(BlobHash([1; 32])),
                        truncated: false,
                    },
                }),
                files: vec![KeptFile {
                    path: WorkspacePath::new("out/a.csv").unwrap(),
                    size: 123,
                    blob: BlobHash([2; 32]),
                    executable: false,
                }],
                files_left_out: FilesLeftOut {
                    count: 2,
                    bytes: 7,
                    why: Some(LeftOutReason::TooMany),
                },
                judgement: None,
            }),
            trouble: None,
        }
        .into()
    }

    fn uuid_of(n: u8) -> uuid::Uuid {
        format!("00000000-0000-7000-8000-0000000000{n:02}")
            .parse()
            .unwrap()
    }

    #[test]
    fn a_task_in_a_response() {
        insta::assert_json_snapshot!(task());
    }

    #[test]
    fn a_task_from_a_response_can_be_sent_as_a_request() {
        let response = serde_json::to_string(&task()).unwrap();
        let read: Task = serde_json::from_str(&response).unwrap();
        assert_eq!(read, task());
        let again = NewTask {
            id: None,
            user: Some(read.user),
            priority: read.priority,
            language: read.language,
            root: read.root,
            wait_for_executor: false,
            source_code: None,
            source: read.source,
            data: read.data,
            compile: read.compile,
            execute: read.execute,
            cases: read.cases.map(CasesOrFiles::Listed),
            check: read.check,
            interact: read.interact,
            stop: read.stop,
            groups: read.groups,
            problem: read.problem,
            keep: read.keep,
            labels: read.labels,
            group: read.group,
            attempts: read.attempts,
        };
        let sent: NewTask = parse_json(serde_json::to_string(&again).unwrap().as_bytes()).unwrap();
        assert_eq!(sent, parse_json(WRITTEN.as_bytes()).unwrap());
    }
}
