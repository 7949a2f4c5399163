//! Moves large contents from tasks to blobs, so that tasks stay small in the store and a file that many tasks share is
//! stored once.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use model::{AddTask, BlobHash, Content, JudgeProblem, TaskSpec};
use rpc::{ByteStream, CallError};

use crate::gateway::Gateway;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

/// The contents that the gateway moves from new tasks to blobs, by the hash that names the blob.
type BlobContents = BTreeMap<BlobHash, Bytes>;

/// If the contents of a task exceed this together, all contents larger than `TINY` become blobs.
const TASK_LIMIT: u64 = 1 << 20;
const TINY: u64 = 1 << 10;
/// The length of the hash that stands for a content, so that a smaller one gains nothing as a blob.
const HASH_TEXT: u64 = 64;

/// The size of the chunks in which a blob is sent.
const CHUNK: usize = 256 << 10;

pub(super) async fn offload(
    gateway: &Gateway,
    quota: &RequestQuota,
    mut adds: Vec<AddTask>,
) -> Result<Vec<AddTask>, RequestError> {
    let limit = gateway.options.inline_limit;
    if !adds.iter().any(|add| is_large(&add.spec, limit)) {
        return Ok(adds);
    }
    // Hashing would block the async thread.
    let quota = quota.clone();
    let (adds, blobs) = tokio::task::spawn_blocking(move || {
        let _quota = quota;
        let mut blobs = BlobContents::new();
        for add in &mut adds {
            extract(&mut add.spec, limit, &mut blobs);
        }
        (adds, blobs)
    })
    .await
    .map_err(|_| RequestError::Panicked)?;
    put_missing_or_damaged(gateway, blobs).await?;
    Ok(adds)
}

/// Moves the contents of a problem to blobs, because each of its tasks names them all.
pub(crate) async fn offload_problem(
    gateway: &Gateway,
    quota: &RequestQuota,
    mut problem: JudgeProblem,
) -> Result<JudgeProblem, RequestError> {
    let quota = quota.clone();
    let (problem, blobs) = tokio::task::spawn_blocking(move || {
        let _quota = quota;
        let mut blobs = BlobContents::new();
        extract_larger(problem.judging.contents_mut(), HASH_TEXT, &mut blobs);
        (problem, blobs)
    })
    .await
    .map_err(|_| RequestError::Panicked)?;
    put_missing_or_damaged(gateway, blobs).await?;
    Ok(problem)
}

/// Stores bytes as a blob, unless it is there.
pub(crate) async fn put_as_blob(gateway: &Gateway, bytes: Bytes) -> Result<BlobHash, RequestError> {
    let hashing = bytes.clone();
    let hash = tokio::task::spawn_blocking(move || BlobHash::of(&hashing)).await;
    let hash = hash.map_err(|_| RequestError::Panicked)?;
    put_missing_or_damaged(gateway, BlobContents::from([(hash, bytes)])).await?;
    Ok(hash)
}

/// Puts blobs that are missing or damaged. A store may not have noticed yet that a blob is damaged, and the bytes to
/// repair it are here.
async fn put_missing_or_damaged(gateway: &Gateway, blobs: BlobContents) -> Result<(), RequestError> {
    if blobs.is_empty() {
        return Ok(());
    }
    let known = gateway.calls.has_blobs(blobs.keys().copied().collect()).await?;
    for ((hash, bytes), known) in blobs.into_iter().zip(known) {
        if known.is_none() || !is_intact(gateway, hash).await? {
            gateway.calls.put_blob(hash, None, in_chunks(bytes)).await?;
        }
    }
    Ok(())
}

/// Reads the blob, because the store verifies its hash. That takes less time than writing and syncing it again.
async fn is_intact(gateway: &Gateway, hash: BlobHash) -> Result<bool, CallError> {
    let read = async {
        let mut bytes = gateway.calls.get_blob(hash).await?;
        while bytes.try_next().await?.is_some() {}
        Ok(())
    };
    match read.await {
        Ok(()) => Ok(true),
        Err(CallError::NoBlob(_) | CallError::DamagedBlob(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

fn in_chunks(bytes: Bytes) -> ByteStream {
    let starts = (0..bytes.len()).step_by(CHUNK);
    stream::iter(starts.map(move |start| Ok(bytes.slice(start..bytes.len().min(start + CHUNK))))).boxed()
}

fn is_large(spec: &TaskSpec, limit: u64) -> bool {
    let mut total = 0;
    spec.contents().any(|content| {
        let size = content.inline_len();
        total += size;
        size > limit || total > TASK_LIMIT
    })
}

/// Must depend on the task only: a repeated request must give the same task.
fn extract(spec: &mut TaskSpec, limit: u64, blobs: &mut BlobContents) {
    let total: u64 = spec.contents().map(Content::inline_len).sum();
    let limit = if total > TASK_LIMIT {
        limit.min(TINY)
    } else {
        limit
    };
    extract_larger(spec.contents_mut(), limit, blobs);
}

fn extract_larger<'a>(contents: impl Iterator<Item = &'a mut Content>, limit: u64, blobs: &mut BlobContents) {
    for content in contents {
        if let Content::Inline(bytes) = content
            && bytes.len() as u64 > limit
        {
            let hash = BlobHash::of(&*bytes);
            blobs.insert(hash, std::mem::take(bytes));
            *content = Content::Blob(hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{StepCommand, TaskFile, UserName, WorkspacePath};

    use super::*;
    use crate::fake_judging::judging;

    fn spec(sizes: &[usize], input: usize) -> TaskSpec {
        let file = |(index, size): (usize, &usize)| {
            let content = Content::Inline(vec![b'x'; *size].into());
            let path = WorkspacePath::new(format!("f{index}")).unwrap();
            (
                path,
                TaskFile {
                    content,
                    executable: false,
                },
            )
        };
        let mut spec = TaskSpec::new(UserName::new("ada").unwrap(), StepCommand::Shell("true".into()));
        spec.execute.input = Content::Inline(vec![b'x'; input].into());
        spec.source = sizes.iter().enumerate().map(file).collect();
        spec
    }

    #[test]
    fn large_contents_become_blobs() {
        let check = |sizes: &[usize], input: usize, in_blobs: usize, blobs_made: usize| {
            let mut spec = spec(sizes, input);
            let mut blobs = BlobContents::new();
            let large = is_large(&spec, 100);
            extract(&mut spec, 100, &mut blobs);
            let found = spec.contents().filter(|content| content.blob().is_some()).count();
            assert_eq!((found, blobs.len()), (in_blobs, blobs_made), "{sizes:?}");
            assert_eq!(large, found > 0);
        };
        check(&[100, 1], 100, 0, 0);
        check(&[101, 1], 0, 1, 1);
        check(&[101, 101], 101, 3, 1);
        check(&[], 101, 1, 1);
    }

    #[test]
    fn contents_of_cases_and_checkers_become_blobs() {
        let mut spec = spec(&[], 0);
        spec.judging = Some(judging());
        let mut blobs = BlobContents::new();
        assert!(is_large(&spec, 10));
        extract(&mut spec, 10, &mut blobs);
        assert!(spec.contents().all(|content| content.inline_len() <= 10));
        // Input, answer and file of two cases, and the source of the checker.
        assert_eq!(blobs.len(), 7);
        assert!(blobs.values().any(|content| content == "answer of secret"));
    }

    #[test]
    fn many_small_files_become_blobs_if_they_are_large_together() {
        let mut spec = spec(&[(TASK_LIMIT / 10) as usize; 11], 7);
        let mut blobs = BlobContents::new();
        assert!(is_large(&spec, u64::MAX));
        extract(&mut spec, u64::MAX, &mut blobs);
        assert_eq!(blobs.len(), 1);
        assert_eq!(spec.execute.input.inline_len(), 7);
    }

    #[tokio::test]
    async fn chunks_make_up_the_whole() {
        let bytes = Bytes::from(vec![7; CHUNK * 2 + 1]);
        let parts: Vec<_> = in_chunks(bytes.clone()).map(|part| part.unwrap()).collect().await;
        assert_eq!(parts.len(), 3);
        assert_eq!(parts.concat(), bytes);
    }
}
