//! A task as it is answered.

use model::{ExecutorName, Moment, Status, TaskId, UserName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Compile, Execute, Files, TaskResult, name, schema};

/// A task with everything known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    #[serde(with = "name::task")]
    #[schema(value_type = schema::Id)]
    pub id: TaskId,
    #[serde(with = "name::user")]
    #[schema(value_type = String)]
    pub user: UserName,
    pub priority: i32,
    #[serde(with = "name::status")]
    #[schema(value_type = schema::Status)]
    pub status: Status,
    /// A task that is done never changes again.
    pub done: bool,
    /// Who holds it now.
    #[serde(with = "name::optional::executor")]
    #[schema(value_type = Option<String>)]
    pub executor: Option<ExecutorName>,
    /// How often it was handed out.
    pub attempt: u32,
    #[serde(with = "name::time")]
    #[schema(value_type = schema::Time)]
    pub add_time: Moment,
    /// When the present or last attempt was handed out.
    #[serde(with = "name::optional::time")]
    #[schema(value_type = Option<schema::Time>)]
    pub start_time: Option<Moment>,
    /// When its executor last said something new of it.
    #[serde(with = "name::optional::time")]
    #[schema(value_type = Option<schema::Time>)]
    pub report_time: Option<Moment>,
    #[serde(with = "name::optional::time")]
    #[schema(value_type = Option<schema::Time>)]
    pub finish_time: Option<Moment>,
    #[schema(value_type = schema::Files)]
    pub source: Files,
    #[schema(value_type = schema::Files)]
    pub data: Files,
    pub compile: Option<Compile>,
    pub execute: Execute,
    /// How its steps ended.
    pub result: Option<TaskResult>,
    /// Why the platform could not run it, where that is so.
    pub trouble: Option<String>,
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
            done: status.done(),
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
    use model::{Attempt, Captured, Outcome, Reason, TaskSpec};

    use super::*;
    use crate::{NewTask, parse};

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
        let new: NewTask = parse(WRITTEN.as_bytes()).unwrap();
        let (Files::Listed(source), Files::Listed(data)) = (new.source, new.data) else {
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
            status: Status::RunFailed,
            executor: None,
            session: None,
            attempt: Attempt(1),
            add_time: Moment(1_767_225_600_000_001),
            start_time: Some(Moment(1_767_225_600_000_002)),
            report_time: None,
            finish_time: Some(Moment(1_767_225_600_100_000)),
            result: Some(model::TaskResult {
                compile: None,
                execute: Some(Outcome {
                    reason: Reason::Signalled,
                    exit_code: None,
                    signal: Some(11),
                    wall: Duration::from_millis(3),
                    cpu: Duration::from_millis(1),
                    memory: 1_234_567,
                    stdout: Captured {
                        bytes: Bytes::from_static(b"caf\xc3\xa9 \xff"),
                        truncated: true,
                    },
                    stderr: Captured::default(),
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
    fn a_task_as_it_is_answered() {
        insta::assert_json_snapshot!(task());
    }

    #[test]
    fn what_is_answered_can_be_sent_again() {
        let answered = serde_json::to_string(&task()).unwrap();
        let read: Task = serde_json::from_str(&answered).unwrap();
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
        let sent: NewTask = parse(serde_json::to_string(&again).unwrap().as_bytes()).unwrap();
        assert_eq!(sent, parse(WRITTEN.as_bytes()).unwrap());
    }
}
