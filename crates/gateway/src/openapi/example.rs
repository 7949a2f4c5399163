//! An example of a task in a response, created by the same code as real responses.

use std::time::Duration;

use api::Task;
use bytes::Bytes;
use model::{
    AttemptNumber, AttemptRecord, BlobHash, CapturedOutput, ExecutorName, FilesLeftOut, GroupName,
    KeepPattern, KeptFile, Labels, LimitPolicy, Outcome, OutcomeReason, RecordedEnd, StepCommand, TaskId,
    TaskResult, TaskSpec, TaskStatus, UnixTime, UserName, WorkspacePath,
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
    let mut spec = TaskSpec::new(UserName::new("alice").ok()?, StepCommand::Shell("./hello".into()));
    spec.execute.limits = LimitPolicy::default().resolve(spec.execute.limits).ok()?;
    spec.keep = vec![KeepPattern::new("out/*.csv").ok()?];
    spec.labels = Labels::new([("assignment".into(), "hw3".into())].into()).ok()?;
    spec.group = Some(GroupName::new("sweep-17").ok()?);
    spec.attempts = Some(3);
    let executor = ExecutorName::new("lab-1").ok()?;
    let start_time = add_time.plus(Duration::from_micros(812));
    let finish_time = add_time.plus(Duration::from_micros(4_301));
    Some(model::Task {
        id: TaskId(Uuid::from_u128(0x019c_13a6_2a7b_7c4d_9a0e_52f1_6e0c_71d4)),
        spec,
        status: TaskStatus::Success,
        executor: None,
        session: None,
        attempt: AttemptNumber(1),
        add_time,
        start_time: Some(start_time),
        report_time: Some(finish_time),
        finish_time: Some(finish_time),
        ran_on: vec![AttemptRecord {
            executor,
            attempt: AttemptNumber(1),
            start_time,
            end: Some((finish_time, RecordedEnd::Finished)),
        }],
        result: Some(TaskResult {
            compile: None,
            execute: Some(Outcome {
                reason: OutcomeReason::Exited,
                exit_code: Some(0),
                signal: None,
                wall: Duration::from_micros(2_903),
                cpu: Duration::from_micros(1_204),
                memory: 1_634_304,
                stdout: CapturedOutput::small(Bytes::from_static(b"hello\n")),
                stderr: CapturedOutput::default(),
            }),
            files: vec![KeptFile {
                path: WorkspacePath::new("out/a.csv").ok()?,
                size: 6,
                blob: BlobHash::of(b"1,2,3\n"),
                executable: false,
            }],
            files_left_out: FilesLeftOut::default(),
            judgement: None,
        }),
        trouble: None,
    })
}
