//! Takes large contents out of tasks and puts them as blobs, so that a store's rows stay small and a file
//! that many tasks share is kept once.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use model::{Add, BlobHash, Content, TaskSpec};
use rpc::{ByteStream, CallError};
use sha2::{Digest, Sha256};

use crate::admission::Admission;
use crate::gateway::Gateway;
use crate::refusal::Refusal;

type Blobs = BTreeMap<BlobHash, Bytes>;

/// Many small files add up as well: a task with more than this in it gives up all but its tiniest.
const TASK_LIMIT: u64 = 1 << 20;
const TINY: u64 = 1 << 10;

/// How much is sent at a time.
const CHUNK: usize = 256 << 10;

pub(super) async fn offload(
    gateway: &Gateway,
    admission: &Admission,
    mut adds: Vec<Add>,
) -> Result<Vec<Add>, Refusal> {
    let limit = gateway.options.inline_limit;
    if !adds.iter().any(|add| is_large(&add.spec, limit)) {
        return Ok(adds);
    }
    // Hashing is work for the CPU.
    let admission = admission.clone();
    let (adds, blobs) = tokio::task::spawn_blocking(move || {
        let _held = admission;
        let mut blobs = Blobs::new();
        for add in &mut adds {
            extract(&mut add.spec, limit, &mut blobs);
        }
        (adds, blobs)
    })
    .await
    .map_err(|_| Refusal::Panicked)?;
    put_unless_whole(gateway, blobs).await?;
    Ok(adds)
}

/// A store that has a blob may not know yet that it is damaged, and the bytes that would mend it are here.
async fn put_unless_whole(gateway: &Gateway, blobs: Blobs) -> Result<(), Refusal> {
    let known = gateway.calls.has_blobs(blobs.keys().copied().collect()).await?;
    for ((hash, bytes), known) in blobs.into_iter().zip(known) {
        if known.is_none() || !is_whole(gateway, hash).await? {
            gateway.calls.put_blob(hash, in_chunks(bytes)).await?;
        }
    }
    Ok(())
}

/// Reads it through, as the store checks what it reads. That costs less than to write and sync it once more.
async fn is_whole(gateway: &Gateway, hash: BlobHash) -> Result<bool, CallError> {
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

/// Depends on nothing but the task: a repeat must come out the same, or it would be another task.
fn extract(spec: &mut TaskSpec, limit: u64, blobs: &mut Blobs) {
    let total: u64 = spec.contents().map(Content::inline_len).sum();
    let limit = if total > TASK_LIMIT {
        limit.min(TINY)
    } else {
        limit
    };
    let files = spec.source.values_mut().chain(spec.data.values_mut());
    let contents = files
        .map(|file| &mut file.content)
        .chain(std::iter::once(&mut spec.execute.input));
    for content in contents {
        if let Content::Inline(bytes) = content
            && bytes.len() as u64 > limit
        {
            let hash = BlobHash(Sha256::digest(&*bytes).into());
            blobs.insert(hash, std::mem::take(bytes));
            *content = Content::Blob(hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use api::NewTask;
    use model::{Command, File, FilePath, UserName};

    use super::*;

    fn spec(sizes: &[usize], input: usize) -> TaskSpec {
        let new = NewTask::new(Command::Shell("true".into()));
        let file = |(index, size): (usize, &usize)| {
            let content = Content::Inline(vec![b'x'; *size].into());
            let path = FilePath::new(format!("f{index}")).unwrap();
            (
                path,
                File {
                    content,
                    executable: false,
                },
            )
        };
        let mut execute: model::ExecuteStep = new.execute.into();
        execute.input = Content::Inline(vec![b'x'; input].into());
        TaskSpec {
            user: UserName::new("ada").unwrap(),
            priority: 0,
            compile: None,
            execute,
            source: sizes.iter().enumerate().map(file).collect(),
            data: model::Files::new(),
        }
    }

    #[test]
    fn large_contents_become_blobs() {
        let check = |sizes: &[usize], input: usize, in_blobs: usize, blobs_made: usize| {
            let mut spec = spec(sizes, input);
            let mut blobs = Blobs::new();
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
    fn many_small_files_become_blobs_together() {
        let mut spec = spec(&[(TASK_LIMIT / 10) as usize; 11], 7);
        let mut blobs = Blobs::new();
        assert!(is_large(&spec, u64::MAX));
        extract(&mut spec, u64::MAX, &mut blobs);
        assert_eq!(blobs.len(), 1);
        assert_eq!(spec.execute.input.inline_len(), 7);
    }

    #[tokio::test]
    async fn chunks_join_to_the_whole() {
        let bytes = Bytes::from(vec![7; CHUNK * 2 + 1]);
        let parts: Vec<_> = in_chunks(bytes.clone()).map(|part| part.unwrap()).collect().await;
        assert_eq!(parts.len(), 3);
        assert_eq!(parts.concat(), bytes);
    }
}
