//! Where the zips of one request are unpacked.

use std::collections::HashMap;

use api::Files;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use model::{BlobHash, Content, Invalid};
use rpc::CallError;
use tokio_util::sync::CancellationToken;

use super::unzip::{self, unpack};
use crate::admission::{Admission, PATIENCE};
use crate::gateway::Gateway;
use crate::refusal::Refusal;

/// Against a flood only: how many files a task may have is the judicator's to say.
const ZIP_FILES: usize = 10_000;

/// The same for all tasks of a request together.
const ALL_FILES: usize = 200_000;

/// One budget for all zips of a request. What comes out of them is charged to the request, which keeps it in memory
/// until it is offloaded.
pub(super) struct Unpacking<'a> {
    gateway: &'a Gateway,
    admission: &'a Admission,
    left: u64,
    files_left: usize,
    /// What came out of the blobs that were unpacked: many tasks of a batch may name the same.
    unpacked: HashMap<BlobHash, model::Files>,
}

impl<'a> Unpacking<'a> {
    pub(super) fn new(gateway: &'a Gateway, admission: &'a Admission) -> Unpacking<'a> {
        Unpacking {
            gateway,
            admission,
            left: gateway.options.max_unpacked,
            files_left: ALL_FILES,
            unpacked: HashMap::new(),
        }
    }

    pub(super) async fn unpacked(
        &mut self,
        field: &'static str,
        files: Files,
    ) -> Result<model::Files, Refusal> {
        let zip = match files {
            Files::Listed(files) => return Ok(files),
            Files::Zip(zip) => zip,
        };
        let hash = zip.blob();
        let known = hash.and_then(|hash| self.unpacked.get(&hash).cloned());
        let files = match known {
            Some(files) => files,
            None => self.unpack(field, zip).await?,
        };
        self.count(field, &files)?;
        if let Some(hash) = hash {
            self.unpacked.insert(hash, files.clone());
        }
        Ok(files)
    }

    /// The same zip again takes no more memory for its contents, but each task has its own list of files, and hashes
    /// their contents.
    fn count(&mut self, field: &'static str, files: &model::Files) -> Result<(), Invalid> {
        let beyond = |problem: &str, limit: u64| {
            let problem = format!("{problem}, all zips of the request together");
            Invalid::beyond(field, problem, limit, format!("more than {limit}"))
        };
        let size: u64 = files.values().map(|file| file.content.inline_len()).sum();
        let left = self.left.checked_sub(size);
        self.left = left.ok_or_else(|| beyond("holds too much", self.gateway.options.max_unpacked))?;
        let left = self.files_left.checked_sub(files.len());
        self.files_left = left.ok_or_else(|| beyond("has too many files", ALL_FILES as u64))?;
        Ok(())
    }

    async fn unpack(&self, field: &'static str, zip: Content) -> Result<model::Files, Refusal> {
        let Unpacking {
            gateway, admission, ..
        } = *self;
        // Before the zip is fetched: while it waits, the request holds no more than it came with.
        let unpacker = gateway
            .unpacking
            .take_within(PATIENCE, admission.account(), 1)
            .await?;
        let (archive, fetched) = match zip {
            Content::Inline(bytes) => (bytes, 0),
            Content::Blob(hash) => {
                let bytes = self.fetched(&format!("{field}.zip.blob"), hash).await?;
                let fetched = bytes.len() as u64;
                (bytes, fetched)
            }
        };
        let bounds = unzip::Bounds {
            files: ZIP_FILES,
            total: gateway.options.max_unpacked,
            left: self.left,
        };
        let abandoned = CancellationToken::new();
        let _abandon = abandoned.clone().drop_guard();
        let admission = admission.clone();
        let unpacking = move || {
            // A thread cannot be stopped from outside: it has its place until it is done.
            let _unpacker = unpacker;
            let files = unpack(field, &archive, bounds, &mut |bytes| {
                if abandoned.is_cancelled() {
                    return Err(Refusal::Broken("the client is gone".into()));
                }
                Ok(admission.charge(bytes)?)
            });
            drop(archive);
            admission.discharge(fetched);
            files
        };
        tokio::task::spawn_blocking(unpacking)
            .await
            .map_err(|_| Refusal::Panicked)?
    }

    /// A zip that is larger than what it may hold is refused before it fills the memory.
    async fn fetched(&self, field: &str, hash: BlobHash) -> Result<Bytes, Refusal> {
        let limit = self.gateway.options.max_unpacked;
        let mut stream = match self.gateway.calls.get_blob(hash).await {
            Err(error @ (CallError::NoBlob(_) | CallError::DamagedBlob(_))) => {
                return Err(Invalid::new(field, error.to_string()).into());
            }
            other => other?,
        };
        let mut bytes = BytesMut::new();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk?;
            self.admission.charge(chunk.len() as u64)?;
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > limit {
                return Err(
                    Invalid::beyond(field, "is too large", limit, format!("more than {limit}")).into(),
                );
            }
        }
        Ok(bytes.freeze())
    }
}
