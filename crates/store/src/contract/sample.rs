//! Tasks and results to test with.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use model::{
    Age, Attempt, BlobHash, Captured, Command, CompileStep, Content, ExecuteStep, File, FilePath, Limits,
    NetworkName, Outcome, Reason, Status, Task, TaskId, TaskResult, TaskSpec, UserName,
};
use sha2::{Digest, Sha256};

use crate::{BlobFile, NewTask, StoreError, TaskStore};

pub fn spec() -> TaskSpec {
    TaskSpec {
        user: UserName::new("ada").unwrap(),
        priority: 0,
        compile: Some(CompileStep {
            command: Command::Shell("cc a.c".into()),
            env: [("CC".to_string(), "gcc".to_string())].into(),
            network: None,
            limits: Limits::default(),
        }),
        execute: ExecuteStep {
            command: Command::Argv(vec!["./a.out".into(), "x".into()]),
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
        source: BTreeMap::from([file("a.c", Content::Inline(Bytes::from_static(b"main(){}")))]),
        data: BTreeMap::new(),
    }
}

pub fn file(path: &str, content: Content) -> (FilePath, File) {
    let file = File {
        content,
        executable: false,
    };
    (FilePath::new(path).unwrap(), file)
}

pub fn new(spec: TaskSpec) -> NewTask {
    NewTask {
        id: TaskId::generate(),
        digest: [7; 32],
        spec,
    }
}

/// A task that needs these blobs.
pub fn needing(blobs: &[BlobHash]) -> NewTask {
    let mut spec = spec();
    spec.data = (0..)
        .zip(blobs)
        .map(|(index, hash)| file(&format!("{index}"), Content::Blob(*hash)))
        .collect();
    new(spec)
}

/// Adds a plain task and answers its id.
pub async fn add_one(store: &dyn TaskStore) -> TaskId {
    add_with(store, |_| {}).await
}

pub async fn add_with(store: &dyn TaskStore, change: impl FnOnce(&mut TaskSpec)) -> TaskId {
    let mut spec = spec();
    change(&mut spec);
    store.add(vec![new(spec)]).await.unwrap()[0].id
}

pub async fn get(store: &dyn TaskStore, id: TaskId) -> Task {
    store.get(id).await.unwrap().expect("the task exists")
}

pub async fn status(store: &dyn TaskStore, id: TaskId) -> Status {
    get(store, id).await.status
}

pub fn outcome(exit_code: i32) -> Outcome {
    Outcome {
        reason: Reason::Exited,
        exit_code: Some(exit_code),
        signal: None,
        wall: Duration::from_millis(12),
        cpu: Duration::from_micros(3456),
        memory: 1 << 20,
        stdout: Captured {
            bytes: Bytes::from_static(b"out"),
            truncated: true,
        },
        stderr: Captured::default(),
    }
}

pub fn success() -> TaskResult {
    TaskResult {
        compile: Some(outcome(0)),
        execute: Some(outcome(0)),
    }
}

pub fn run_failure() -> TaskResult {
    TaskResult {
        compile: Some(outcome(0)),
        execute: Some(outcome(1)),
    }
}

pub fn compile_failure() -> TaskResult {
    TaskResult {
        compile: Some(outcome(1)),
        execute: None,
    }
}

/// A success whose output says of which attempt it is.
pub fn marked(attempt: Attempt, mark: &str) -> TaskResult {
    let mut execute = outcome(0);
    execute.stdout.bytes = Bytes::from(format!("{attempt} {mark}"));
    TaskResult {
        compile: None,
        execute: Some(execute),
    }
}

pub fn hash_of(bytes: &[u8]) -> BlobHash {
    BlobHash(Sha256::digest(bytes).into())
}

/// Puts these bytes as a blob, and answers their hash.
pub async fn put(store: &dyn TaskStore, bytes: &[u8]) -> Result<BlobHash, StoreError> {
    let hash = hash_of(bytes);
    let path = store.incoming().join(TaskId::generate().to_string());
    std::fs::write(&path, bytes).unwrap();
    let size = bytes.len() as u64;
    store.put_blob(BlobFile { hash, size, path }).await?;
    Ok(hash)
}

pub async fn blob(store: &dyn TaskStore, hash: BlobHash) -> Option<Vec<u8>> {
    let chunks: Vec<Bytes> = store.get_blob(hash).await.unwrap()?.try_collect().await.unwrap();
    Some(chunks.concat())
}

/// Advances the store's age as a leader does, and answers what it is then.
pub async fn grow_older(store: &dyn TaskStore, by: Duration) -> Age {
    let age = store.age().await.unwrap();
    store.advance_age(age, by).await.unwrap()
}
