//! An answer to look at, made by the same code that makes the real ones.

use std::time::Duration;

use api::{NewTask, Task};
use bytes::Bytes;
use model::{
    Attempt, Captured, Command, Moment, Outcome, Reason, Status, TaskId, TaskResult, TaskSpec, UserName,
};
use utoipa::openapi::{OpenApi, RefOr, Schema};
use uuid::Uuid;

pub(super) struct Examples;

impl utoipa::Modify for Examples {
    fn modify(&self, document: &mut OpenApi) {
        let schemas = document
            .components
            .as_mut()
            .map(|components| &mut components.schemas);
        if let Some(RefOr::T(Schema::Object(schema))) = schemas.and_then(|schemas| schemas.get_mut("Task"))
            && let Some(task) = task()
            && let Ok(example) = serde_json::to_value(Task::from(task))
        {
            schema.examples = vec![example];
        }
    }
}

fn task() -> Option<model::Task> {
    let add_time = Moment(1_769_860_800_123_456);
    let mut new = NewTask::new(Command::Shell("./hello".into()));
    new.execute.limits.wall = Some(api::Span(Duration::from_secs(2)));
    Some(model::Task {
        id: TaskId(Uuid::from_u128(0x019c_13a6_2a7b_7c4d_9a0e_52f1_6e0c_71d4)),
        spec: TaskSpec {
            user: UserName::new("alice").ok()?,
            priority: 0,
            compile: None,
            execute: new.execute.into(),
            source: model::Files::new(),
            data: model::Files::new(),
        },
        status: Status::Success,
        executor: None,
        session: None,
        attempt: Attempt(1),
        add_time,
        start_time: Some(add_time.plus(Duration::from_micros(812))),
        report_time: Some(add_time.plus(Duration::from_micros(4_301))),
        finish_time: Some(add_time.plus(Duration::from_micros(4_301))),
        result: Some(TaskResult {
            compile: None,
            execute: Some(Outcome {
                reason: Reason::Exited,
                exit_code: Some(0),
                signal: None,
                wall: Duration::from_micros(2_903),
                cpu: Duration::from_micros(1_204),
                memory: 1_634_304,
                stdout: Captured {
                    bytes: Bytes::from_static(b"hello\n"),
                    truncated: false,
                },
                stderr: Captured::default(),
            }),
        }),
        trouble: None,
    })
}
