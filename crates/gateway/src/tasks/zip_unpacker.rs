//! Unpacks the zips of one request, within limits for all of them together.

use std::collections::HashMap;

use api::FilesOrZip;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use model::{AddTask, BlobHash, Content, InvalidField, TaskFile, TaskFiles, WorkspacePath};
use rpc::CallError;
use tokio_util::sync::CancellationToken;

use super::unzip::{self, unpack};
use crate::gateway::Gateway;
use crate::request_error::RequestError;
use crate::request_quota::{QUOTA_WAIT_TIMEOUT, RequestQuota};

/// Protects the memory of the gateway; the judicator checks how many files a task may have.
const MAX_FILES_PER_ZIP: usize = 10_000;

/// The limit for all tasks of a request together.
const MAX_FILES_PER_REQUEST: usize = 200_000;

/// Unpacks the zips of one request that adds tasks to the gateway, within limits for all of them together. The unpacked
/// files are charged to the request, which keeps them in memory until they are offloaded.
pub(crate) struct ZipUnpacker<'a> {
    gateway: &'a Gateway,
    quota: &'a RequestQuota,
    bytes_left: u64,
    files_left: usize,
    /// The files of the zips that were unpacked from blobs: many tasks of a batch may use the same zip.
    unpacked_blobs: HashMap<BlobHash, TaskFiles>,
}

impl<'a> ZipUnpacker<'a> {
    pub(crate) fn new(gateway: &'a Gateway, quota: &'a RequestQuota) -> ZipUnpacker<'a> {
        ZipUnpacker {
            gateway,
            quota,
            bytes_left: gateway.options.max_unpacked,
            files_left: MAX_FILES_PER_REQUEST,
            unpacked_blobs: HashMap::new(),
        }
    }

    /// The files of one field, unpacked if they are a zip.
    pub(super) async fn unpack_files(
        &mut self,
        field: &str,
        files: FilesOrZip,
    ) -> Result<TaskFiles, RequestError> {
        let zip = match files {
            FilesOrZip::ByPath(files) => return Ok(files),
            FilesOrZip::Zip(zip) => zip,
        };
        let hash = zip.blob();
        let known = hash.and_then(|hash| self.unpacked_blobs.get(&hash).cloned());
        let files = match known {
            Some(files) => files,
            None => self.unpack(field, zip).await?,
        };
        self.charge_budget(field, &files)?;
        if let Some(hash) = hash {
            self.unpacked_blobs.insert(hash, files.clone());
        }
        Ok(files)
    }

    /// The source files of a task or of a program that judges. A lone one without a name is stored under the path that stands
    /// for the language's own name.
    pub(super) async fn unpack_source(
        &mut self,
        source_code: Option<Content>,
        source: FilesOrZip,
    ) -> Result<TaskFiles, RequestError> {
        let mut source = self.unpack_files("source", source).await?;
        let Some(content) = source_code else {
            return Ok(source);
        };
        let path = WorkspacePath::new(AddTask::SOURCE_CODE)
            .map_err(|error| InvalidField::new(AddTask::SOURCE_CODE, error.to_string()))?;
        let executable = false;
        match source.insert(path, TaskFile { content, executable }) {
            None => Ok(source),
            Some(_) => {
                let problem = "is given, and source has a file of that name; rename the file";
                Err(InvalidField::new(AddTask::SOURCE_CODE, problem).into())
            }
        }
    }

    /// Counts the files of a zip for each task: a zip that is used again takes no more memory for the contents, but each
    /// task has its own map of files and hashes their contents.
    fn charge_budget(&mut self, field: &str, files: &TaskFiles) -> Result<(), InvalidField> {
        let beyond = |problem: &str, limit: u64| {
            let problem = format!("{problem} in all zips of the request together");
            InvalidField::over_limit(field, problem, limit, format!("more than {limit}"))
        };
        let size: u64 = files.values().map(|file| file.content.inline_len()).sum();
        let left = self.bytes_left.checked_sub(size);
        self.bytes_left = left.ok_or_else(|| beyond("holds too much", self.gateway.options.max_unpacked))?;
        let left = self.files_left.checked_sub(files.len());
        self.files_left = left.ok_or_else(|| beyond("has too many files", MAX_FILES_PER_REQUEST as u64))?;
        Ok(())
    }

    async fn unpack(&self, field: &str, zip: Content) -> Result<TaskFiles, RequestError> {
        let ZipUnpacker { gateway, quota, .. } = *self;
        // Before the zip is loaded, so that a request that waits here holds no more memory.
        let permit = gateway
            .unpacking
            .acquire_within(QUOTA_WAIT_TIMEOUT, quota.key(), 1)
            .await?;
        let (archive, loaded_bytes) = match zip {
            Content::Inline(bytes) => (bytes, 0),
            Content::Blob(hash) => {
                let bytes = self.load_zip(&format!("{field}.zip.blob"), hash).await?;
                let loaded_bytes = bytes.len() as u64;
                (bytes, loaded_bytes)
            }
        };
        let limits = unzip::ZipLimits {
            files: MAX_FILES_PER_ZIP,
            total_bytes: gateway.options.max_unpacked,
            bytes_left: self.bytes_left,
        };
        let abandoned = CancellationToken::new();
        let _abandon = abandoned.clone().drop_guard();
        let quota = quota.clone();
        let field = field.to_string();
        let unpack_zip = move || {
            // The thread continues after the request is gone, so it holds the permit itself.
            let _permit = permit;
            let files = unpack(&field, &archive, limits, &mut |bytes| {
                if abandoned.is_cancelled() {
                    return Err(RequestError::BodyInterrupted(
                        "the client closed the connection".into(),
                    ));
                }
                Ok(quota.charge(bytes)?)
            });
            drop(archive);
            quota.refund(loaded_bytes);
            files
        };
        tokio::task::spawn_blocking(unpack_zip)
            .await
            .map_err(|_| RequestError::Panicked)?
    }

    /// Loads a zip from a blob. A zip that is larger than its contents may be is refused while it is loaded.
    async fn load_zip(&self, field: &str, hash: BlobHash) -> Result<Bytes, RequestError> {
        let limit = self.gateway.options.max_unpacked;
        let mut stream = match self.gateway.calls.get_blob(hash).await {
            Err(error @ (CallError::NoBlob(_) | CallError::DamagedBlob(_))) => {
                return Err(InvalidField::new(field, error.to_string()).into());
            }
            other => other?,
        };
        let mut bytes = BytesMut::new();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk?;
            self.quota.charge(chunk.len() as u64)?;
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > limit {
                return Err(InvalidField::over_limit(
                    field,
                    "is too large",
                    limit,
                    format!("more than {limit}"),
                )
                .into());
            }
        }
        Ok(bytes.freeze())
    }
}
