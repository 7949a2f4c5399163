//! An example of a task in a response, created by the same code as real responses.

use std::time::Duration;

use api::{NewTask, Task};
use bytes::Bytes;
use model::{
    AttemptNumber, CapturedOutput, Outcome, OutcomeReason, StepCommand, TaskId, TaskResult, TaskSpec,
    TaskStatus, UnixTime, UserName,
};
use utoipa::openapi::{OpenApi, RefOr, Schema};
use uuid::Uuid;

/// A utoipa modifier that adds an example to the schema of `Task` in the gateway's OpenAPI document.
pub(super) struct ExampleModifier;

impl utoipa::Modify for ExampleModifier {
    fn modify(&self, document: &mut OpenApi) {
        let schemas = document
            .components
            .as_mut()
            .map(|components| &mut components.schemas);
        if let Some(RefOr::T(Schema::Object(schema))) = schemas.and_then(|schemas| schemas.get_mut("Task"))
            && let Some(task) = example_task()
            && let Ok(example) = serde_json::to_value(Task::from(task))
        {
            schema.examples = vec![example];
        }
    }
}

fn example_task() -> Option<model::Task> {
    let add_time = UnixTime(1_769_860_800_123_456);
    let mut new = NewTask::new(StepCommand::Shell("./hello".into()));
    new.execute.limits.wall = Some(api::HumanDuration(Duration::from_secs(2)));
    Some(model::Task {
        id: TaskId(Uuid::from_u128(0x019c_13a6_2a7b_7c4d_9a0e_52f1_6e0c_71d4)),
        spec: TaskSpec {
            user: UserName::new("alice").ok()?,
            priority: 0,
            compile: None,
            execute: new.execute.into(),
            source: model::TaskFiles::new(),
            data: model::TaskFiles::new(),
        },
        status: TaskStatus::Success,
        executor: None,
        session: None,
        attempt: AttemptNumber(1),
        add_time,
        start_time: Some(add_time.plus(Duration::from_micros(812))),
        report_time: Some(add_time.plus(Duration::from_micros(4_301))),
        finish_time: Some(add_time.plus(Duration::from_micros(4_301))),
        result: Some(TaskResult {
            compile: None,
            execute: Some(Outcome {
                reason: OutcomeReason::Exited,
                exit_code: Some(0),
                signal: None,
                wall: Duration::from_micros(2_903),
                cpu: Duration::from_micros(1_204),
                memory: 1_634_304,
                stdout: CapturedOutput {
                    bytes: Bytes::from_static(b"hello\n"),
                    truncated: false,
                },
                stderr: CapturedOutput::default(),
            }),
        }),
        trouble: None,
    })
}
