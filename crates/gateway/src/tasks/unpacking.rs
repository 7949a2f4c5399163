//! Where the zips of one request are unpacked.

use api::Files;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use model::{BlobHash, Content, Invalid};
use rpc::CallError;
use tokio::sync::SemaphorePermit;

use super::unzip::{self, unpack};
use crate::gateway::Gateway;
use crate::refusal::Refusal;

/// Against a flood only: how many files a task may have is the judicator's to say.
const ZIP_FILES: usize = 10_000;

/// One budget for all zips of a request, and one place among the requests that unpack. What comes out of them is
/// in memory until it is offloaded: so this is to be kept until then.
pub(super) struct Unpacking<'a> {
    gateway: &'a Gateway,
    /// Taken with the first zip: most requests have none.
    place: Option<SemaphorePermit<'a>>,
    left: u64,
}

impl Unpacking<'_> {
    pub(super) fn new(gateway: &Gateway) -> Unpacking<'_> {
        Unpacking {
            gateway,
            place: None,
            left: gateway.options.max_unpacked,
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
        if self.place.is_none() {
            let place = self.gateway.unpacking.acquire().await;
            self.place = Some(place.map_err(|_| Refusal::Panicked)?);
        }
        let bounds = unzip::Bounds {
            files: ZIP_FILES,
            total: self.gateway.options.max_unpacked,
            left: self.left,
        };
        let archive = match zip {
            Content::Inline(bytes) => bytes,
            Content::Blob(hash) => fetched(self.gateway, &format!("{field}.zip.blob"), hash).await?,
        };
        let files = tokio::task::spawn_blocking(move || unpack(field, &archive, bounds))
            .await
            .map_err(|_| Refusal::Panicked)??;
        let size: u64 = files.values().map(|file| file.content.inline_len()).sum();
        self.left = self.left.saturating_sub(size);
        Ok(files)
    }
}

/// A zip that is larger than what it may hold is refused before it fills the memory.
async fn fetched(gateway: &Gateway, field: &str, hash: BlobHash) -> Result<Bytes, Refusal> {
    let limit = gateway.options.max_unpacked;
    let mut stream = match gateway.calls.get_blob(hash).await {
        Err(error @ (CallError::NoBlob(_) | CallError::DamagedBlob(_))) => {
            return Err(Invalid::new(field, error.to_string()).into());
        }
        other => other?,
    };
    let mut bytes = BytesMut::new();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk?);
        if bytes.len() as u64 > limit {
            return Err(Invalid::beyond(field, "is too large", limit, format!("more than {limit}")).into());
        }
    }
    Ok(bytes.freeze())
}
