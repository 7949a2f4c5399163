//! A task in a response.

use model::{ExecutorName, TaskId, TaskStatus, UnixTime, UserName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{CompileStep, ExecuteStep, FilesOrZip, TaskResult, schema, serde_text};

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
    #[schema(value_type = schema::Files)]
    pub source: FilesOrZip,
    #[schema(value_type = schema::Files)]
    pub data: FilesOrZip,
    pub compile: Option<CompileStep>,
    pub execute: ExecuteStep,
    /// The outcomes of the steps.
    pub result: Option<TaskResult>,
    /// Why the platform could not run the task. Null for all other tasks.
    pub trouble: Option<String>,
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
            result,
            trouble,
        } = task;
        Task {
            id,
            user: spec.user,
            priority: spec.priority,
            status,
            done: status.is_done(),
            executor,
            attempt: attempt.0,
            add_time,
            start_time,
            report_time,
            finish_time,
            source: spec.source.into(),
            data: spec.data.into(),
            compile: spec.compile.map(Into::into),
            execute: spec.execute.into(),
            result: result.map(Into::into),
            trouble,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use model::{AttemptNumber, CapturedOutput, Outcome, OutcomeReason, TaskSpec};

    use super::*;
    use crate::{NewTask, parse_json};

    const WRITTEN: &str = r#"{
        "user": "alice", "priority": 3,
        "source": {"main.cpp": "int main(){}", "run.sh": {"text": "./main", "executable": true}},
        "data": {"raw": {"base64": "//8="}},
        "compile": {"command": "g++ -O2 -o main main.cpp", "limits": {"wall": "10s"}},
        "execute": {"command": ["./main"], "args": ["-v"], "env": {"A": "b"}, "input": "Hello", "network": "loopback",
                    "limits": {"wall": "2s", "cpu": "500ms", "memory": "256MiB", "output": "1MiB", "processes": 64,
                               "file_size": "16MiB", "open_files": 256, "stack": "8MiB", "space": "1GiB"}}
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
                compile: new.compile.map(Into::into),
                execute: new.execute.into(),
                source,
                data,
            },
            status: TaskStatus::RunFailed,
            executor: None,
            session: None,
            attempt: AttemptNumber(1),
            add_time: UnixTime(1_767_225_600_000_001),
            start_time: Some(UnixTime(1_767_225_600_000_002)),
            report_time: None,
            finish_time: Some(UnixTime(1_767_225_600_100_000)),
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
                        bytes: Bytes::from_static(b"caf\xc3\xa9 \xff"),
                        truncated: true,
                    },
                    stderr: CapturedOutput::default(),
                }),
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
            source: read.source,
            data: read.data,
            compile: read.compile,
            execute: read.execute,
        };
        let sent: NewTask = parse_json(serde_json::to_string(&again).unwrap().as_bytes()).unwrap();
        assert_eq!(sent, parse_json(WRITTEN.as_bytes()).unwrap());
    }
}
