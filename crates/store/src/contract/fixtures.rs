//! Tasks, results and blobs for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use model::{
    AttemptNumber, BlobHash, CapturedOutput, Case, CaseName, Check, CompileStep, Content, ExecuteStep,
    ExecutorTools, GroupKey, GroupName, GroupScoring, GroupState, JudgeProgram, JudgeProtocol, Judgement,
    Judging, KeptFile, Labels, Limits, NetworkName, OfferedLanguage, OfferedRoot, Outcome, OutcomeReason,
    Points, StatusCounts, StepCommand, StopRule, StoreAge, Task, TaskFile, TaskId, TaskResult, TaskSpec,
    TaskStatus, TokenCheck, Tolerance, ToolRequirement, UserName, Verdict, WorkspacePath,
};

use crate::{BlobFile, NewTaskRecord, StoreError, TaskStore};

pub fn task_spec() -> TaskSpec {
    TaskSpec {
        user: UserName::new("ada").unwrap(),
        priority: 0,
        language: None,
        root: None,
        compile: Some(CompileStep {
            command: StepCommand::Shell("cc a.c".into()),
            env: [("CC".to_string(), "gcc".to_string())].into(),
            network: None,
            limits: Limits::default(),
        }),
        execute: ExecuteStep {
            command: StepCommand::Argv(vec!["./a.out".into(), "x".into()]),
            args: vec!["1".into()],
            env: BTreeMap::from([("LANG".into(), "C".into())]),
            input: Content::Inline(Bytes::from_static(b"in\0put")),
            network: Some(NetworkName::new("loopback").unwrap()),
            limits: Limits {
                wall: Some(Duration::from_millis(1500)),
                cpu: Some(Duration::from_millis(900)),
                memory: Some(1 << 28),
                output: Some(1 << 20),
                processes: Some(64),
                file_size: Some(1 << 24),
                open_files: Some(256),
                stack: Some(1 << 23),
                space: Some(1 << 32),
            },
        },
        source: BTreeMap::from([task_file("a.c", Content::Inline(Bytes::from_static(b"main(){}")))]),
        data: BTreeMap::new(),
        judging: None,
        problem: None,
        keep: vec![],
        labels: Labels::default(),
        group: None,
        attempts: None,
        retry_of: None,
    }
}

/// The spec of a task with the requirement of this queue key.
pub fn requiring(key: &str) -> TaskSpec {
    let requires: ToolRequirement = key.parse().unwrap();
    let judging = requires.judge.map(|judge| {
        let mut program = judge_program();
        (program.root, program.language) = (judge.root, judge.language);
        Judging {
            check: Check::Program(program),
            ..judging()
        }
    });
    TaskSpec {
        root: requires.root,
        language: requires.language,
        judging,
        ..task_spec()
    }
}

/// Two cases whose outputs are compared word by word.
pub fn judging() -> Judging {
    let case = |name: &str, answer: &'static [u8]| Case {
        name: CaseName::new(name).unwrap(),
        input: Content::Inline(Bytes::from_static(b"1 2")),
        answer: Some(Content::Inline(Bytes::from_static(answer))),
        args: vec!["-v".into()],
        files: BTreeMap::from([task_file("table", Content::empty())]),
        points: Points::from_f64(2.5).unwrap(),
        group: Some(CaseName::new("small").unwrap()),
        limits: Limits {
            cpu: Some(Duration::from_secs(2)),
            ..Limits::default()
        },
        is_sample: name == "1",
    };
    Judging {
        cases: vec![case("1", b"3"), case("2", b"4\n")],
        check: Check::Tokens(TokenCheck {
            case_sensitive: true,
            relative_tolerance: Tolerance::new(1e-6),
            ..TokenCheck::default()
        }),
        stop: StopRule::FirstFailure,
        groups: BTreeMap::from([(CaseName::new("small").unwrap(), GroupScoring::Min)]),
        problem: None,
    }
}

/// A checker in no language.
pub fn judge_program() -> JudgeProgram {
    let spec = task_spec();
    JudgeProgram {
        protocol: JudgeProtocol::Testlib,
        language: None,
        root: None,
        source: spec.source,
        compile: spec.compile,
        execute: spec.execute,
    }
}

/// The result of a task with cases that ended with this verdict.
pub fn judged_result(verdict: Verdict) -> TaskResult {
    TaskResult {
        execute: None,
        judgement: Some(Judgement {
            verdict,
            score: Points::ONE,
            max_score: Points::from_f64(5.0).unwrap(),
            marks: vec![Verdict::Accepted, verdict, Verdict::Skipped, verdict],
            max_cpu: Duration::from_millis(7),
            max_memory: 5 << 20,
            cases: Content::Inline(Bytes::from_static(b"case results")),
        }),
        ..success()
    }
}

/// Tools that satisfy the requirements of these queue keys, and no others.
pub fn tools(keys: &[&str]) -> Arc<ExecutorTools> {
    let (mut languages, mut roots) = (vec![], vec![]);
    for key in keys {
        match key.parse().unwrap() {
            ToolRequirement {
                root,
                language: Some(name),
                judge: None,
            } => languages.push(OfferedLanguage {
                root,
                name,
                version: Some("1.2".into()),
            }),
            ToolRequirement {
                root: Some(name),
                language: None,
                judge: None,
            } => roots.push(OfferedRoot { name, sha256: None }),
            nothing => panic!("{nothing} is no requirement"),
        }
    }
    Arc::new(ExecutorTools::new(languages, roots))
}

pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    let pair = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
    Labels::new(pairs.iter().map(pair).collect()).unwrap()
}

/// A group of the user of [`task_spec`].
pub fn group_key(group: &str) -> GroupKey {
    GroupKey {
        user: task_spec().user,
        group: GroupName::new(group).unwrap(),
    }
}

/// The counters without those that are 0.
pub fn counted(counts: &StatusCounts) -> StatusCounts {
    let counted = counts.iter().filter(|(_, count)| **count > 0);
    counted.map(|(status, count)| (*status, *count)).collect()
}

/// The state of a group of the user of [`task_spec`]; panics if it has no tasks.
pub async fn get_group(store: &dyn TaskStore, group: &str) -> GroupState {
    let found = store.group(group_key(group)).await.unwrap();
    found.expect("the group has tasks")
}

pub fn task_file(path: &str, content: Content) -> (WorkspacePath, TaskFile) {
    let file = TaskFile {
        content,
        executable: false,
    };
    (WorkspacePath::new(path).unwrap(), file)
}

pub fn new_task(spec: TaskSpec) -> NewTaskRecord {
    NewTaskRecord {
        id: TaskId(uuid::Uuid::now_v7()),
        digest: [7; 32],
        legacy_digest: None,
        spec,
    }
}

/// A task whose data files are these blobs.
pub fn task_with_blobs(blobs: &[BlobHash]) -> NewTaskRecord {
    let mut spec = task_spec();
    spec.data = (0..)
        .zip(blobs)
        .map(|(index, hash)| task_file(&format!("{index}"), Content::Blob(*hash)))
        .collect();
    new_task(spec)
}

/// Adds this many tasks that name the same 50 blobs, and cancels them.
pub async fn add_done_tasks_with_50_blobs(store: &dyn TaskStore, count: usize) {
    let mut blobs = vec![];
    for number in 0..50_u8 {
        blobs.push(put_blob(store, &[number]).await.unwrap());
    }
    let tasks: Vec<_> = (0..count).map(|_| task_with_blobs(&blobs)).collect();
    let ids = tasks.iter().map(|task| task.id).collect();
    store.add(tasks).await.unwrap();
    assert_eq!(store.cancel_many(ids).await.unwrap(), count as u64);
}

/// Adds a task and returns its id.
pub async fn add_task(store: &dyn TaskStore) -> TaskId {
    add_task_with(store, |_| {}).await
}

pub async fn add_task_with(store: &dyn TaskStore, change: impl FnOnce(&mut TaskSpec)) -> TaskId {
    let mut spec = task_spec();
    change(&mut spec);
    store.add(vec![new_task(spec)]).await.unwrap()[0].id
}

pub async fn get_task(store: &dyn TaskStore, id: TaskId) -> Task {
    store.get(id).await.unwrap().expect("the task exists")
}

pub async fn task_status(store: &dyn TaskStore, id: TaskId) -> TaskStatus {
    get_task(store, id).await.status
}

pub fn outcome(exit_code: i32) -> Outcome {
    Outcome {
        reason: OutcomeReason::Exited,
        exit_code: Some(exit_code),
        signal: None,
        wall: Duration::from_millis(12),
        cpu: Duration::from_micros(3456),
        memory: 1 << 20,
        stdout: CapturedOutput {
            truncated: true,
            ..CapturedOutput::small("out")
        },
        stderr: CapturedOutput::default(),
    }
}

pub fn success() -> TaskResult {
    TaskResult {
        compile: Some(outcome(0)),
        execute: Some(outcome(0)),
        ..TaskResult::default()
    }
}

pub fn run_failure() -> TaskResult {
    TaskResult {
        compile: Some(outcome(0)),
        execute: Some(outcome(1)),
        ..TaskResult::default()
    }
}

pub fn compile_failure() -> TaskResult {
    TaskResult {
        compile: Some(outcome(1)),
        ..TaskResult::default()
    }
}

/// A successful result whose output names its attempt.
pub fn attempt_result(attempt: AttemptNumber, mark: &str) -> TaskResult {
    let mut execute = outcome(0);
    execute.stdout = CapturedOutput::small(format!("{attempt} {mark}"));
    TaskResult {
        execute: Some(execute),
        ..TaskResult::default()
    }
}

/// A successful result with these blobs as its kept files.
pub fn result_with_files(blobs: &[BlobHash]) -> TaskResult {
    let file = |(index, blob): (usize, &BlobHash)| KeptFile {
        path: WorkspacePath::new(format!("out/{index}")).unwrap(),
        size: 1,
        blob: *blob,
        executable: false,
    };
    TaskResult {
        files: blobs.iter().enumerate().map(file).collect(),
        ..success()
    }
}

pub fn hash_of(bytes: &[u8]) -> BlobHash {
    BlobHash::of(bytes)
}

/// Puts these bytes as a blob and returns their hash.
pub async fn put_blob(store: &dyn TaskStore, bytes: &[u8]) -> Result<BlobHash, StoreError> {
    let hash = hash_of(bytes);
    let path = store
        .incoming_folder()
        .join(TaskId(uuid::Uuid::now_v7()).to_string());
    std::fs::write(&path, bytes).unwrap();
    let size = bytes.len() as u64;
    store.put_blob(BlobFile { hash, size, path }).await?;
    Ok(hash)
}

pub async fn read_blob(store: &dyn TaskStore, hash: BlobHash) -> Option<Vec<u8>> {
    let chunks: Vec<Bytes> = store.get_blob(hash).await.unwrap()?.try_collect().await.unwrap();
    Some(chunks.concat())
}

/// Advances the store's age, as a leader does, and returns the new age.
pub async fn advance_age(store: &dyn TaskStore, by: Duration) -> StoreAge {
    let age = store.age().await.unwrap();
    store.advance_age(age, by).await.unwrap()
}
