//! Reads the sources that are blobs and whose class decides their name or command.

use std::borrow::Cow;
use std::collections::HashSet;

use futures::{StreamExt, TryStreamExt, stream};
use model::{AddTask, BlobHash, SourceClasses};
use rpc::CallError;

use super::BLOB_BATCH;
use crate::Judicator;
use crate::error::call_error;

/// A longer source file is not read. No person writes one.
const MAX_SOURCE: u64 = 1 << 20;
/// The most bytes that are read for all tasks of a request.
const MAX_SOURCES: u64 = 32 << 20;
const CONCURRENT_READS: usize = 8;

impl Judicator {
    /// What was found in the blobs that the languages of the tasks ask for. It leaves out blobs over the bounds and missing
    /// ones: the first get their class from the file's name, and the store refuses the others.
    pub(in crate::calls) async fn source_classes<'a>(
        &self,
        adds: impl IntoIterator<Item = Cow<'a, AddTask>>,
    ) -> Result<SourceClasses, CallError> {
        let mut known = HashSet::new();
        let asked = adds
            .into_iter()
            .flat_map(|add| self.options.languages.blobs_to_read(&add));
        let asked: Vec<_> = asked.filter(|blob| known.insert(*blob)).collect();
        let mut to_read = vec![];
        let mut left = MAX_SOURCES;
        for blobs in asked.chunks(BLOB_BATCH) {
            let sizes = self.store.has_blobs(blobs.to_vec()).await.map_err(call_error)?;
            for (blob, size) in blobs.iter().zip(sizes) {
                if let Some(size) = size.filter(|size| *size <= left.min(MAX_SOURCE)) {
                    left -= size;
                    to_read.push(*blob);
                }
            }
        }
        let mut classes = SourceClasses::default();
        let reads = to_read.into_iter().map(|blob| self.read_source(blob));
        let mut reads = stream::iter(reads).buffer_unordered(CONCURRENT_READS);
        while let Some((blob, source)) = reads.try_next().await? {
            if let Some(source) = source {
                classes.record(blob, &source);
            }
        }
        Ok(classes)
    }

    /// `None` if the blob is missing.
    async fn read_source(&self, blob: BlobHash) -> Result<(BlobHash, Option<Vec<u8>>), CallError> {
        let read = async {
            let mut bytes = self.on_get_blob(blob, 0).await?;
            let mut source = vec![];
            while let Some(chunk) = bytes.try_next().await? {
                source.extend_from_slice(&chunk);
            }
            Ok(source)
        };
        match read.await {
            Ok(source) => Ok((blob, Some(source))),
            Err(CallError::NoBlob(_) | CallError::DamagedBlob(_)) => Ok((blob, None)),
            Err(error) => Err(error),
        }
    }
}
