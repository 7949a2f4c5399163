//! Stores a file as a blob.

use std::io;
use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use model::{BlobHash, StoreAge};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use tokio::fs::{self, File};
use tokio::io::{AsyncReadExt, BufReader};

use super::{BlobDocument, parse_required, use_change};
use crate::mongo::age;
use crate::mongo::bson_values::{ToBson, binary};
use crate::mongo::context::{BLOBS, CHUNKS, FILES, StoreContext, UPLOADS, now};
use crate::mongo::failure::MongoFailure;
use crate::mongo::gridfs::{self, CHUNK_BYTES, CHUNKS_PER_COMMAND};
use crate::mongo::retry::RetryPolicy;
use crate::mongo::transaction::Transaction;
use crate::{BlobFile, StoreError};

/// A blob up to this size is written in one transaction, a larger one in several commands.
const SINGLE_TRANSACTION_MAX_BYTES: u64 = (CHUNK_BYTES * CHUNKS_PER_COMMAND) as u64;

const STEP: &str = "put a blob";

/// Returns when the blob is durable, and removes the file.
pub(in crate::mongo) async fn put(context: &Arc<StoreContext>, blob: BlobFile) -> Result<(), StoreError> {
    let BlobFile { hash, size, path } = blob;
    let known = RetryPolicy::new(STEP)
        .run(|_| touch(context.clone(), hash))
        .await?;
    let intact = match known {
        Some(document) if !document.damaged => is_stored_intact(context, hash, &document).await?,
        _ => false,
    };
    if !intact {
        let upload = BlobUpload {
            context: context.clone(),
            file: ObjectId::new(),
            hash,
            size,
        };
        if size <= SINGLE_TRANSACTION_MAX_BYTES {
            upload.put_in_one_transaction(&path).await?;
        } else {
            upload.put_in_parts(&path).await?;
        }
    }
    // If this fails, the next start of the store removes the file.
    let _ = fs::remove_file(&path).await;
    Ok(())
}

/// Reads the stored bytes and verifies them, because damage may not have been noticed yet. A damaged blob is marked.
async fn is_stored_intact(
    context: &Arc<StoreContext>,
    hash: BlobHash,
    document: &BlobDocument,
) -> Result<bool, StoreError> {
    let read = async {
        let mut bytes = super::read(context, hash, document).await?;
        while bytes.try_next().await?.is_some() {}
        Ok(())
    };
    match read.await {
        Ok(()) => Ok(true),
        Err(StoreError::DamagedBlob(_) | StoreError::BlobNotFound(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The blob's document, if it exists. Records that the blob was used now.
async fn touch(context: Arc<StoreContext>, hash: BlobHash) -> Result<Option<BlobDocument>, MongoFailure> {
    let age = age::now(&context).await?;
    let found: Option<RawDocumentBuf> = context
        .collection(BLOBS)
        .find_one_and_update(doc! { "_id": hash.to_bson() }, use_change(age))
        .await?;
    found
        .map(|document| parse_required(&context, hash, &document))
        .transpose()
}

/// The upload of one blob into a new GridFS file of the MongoDB store.
#[derive(Clone)]
struct BlobUpload {
    context: Arc<StoreContext>,
    file: ObjectId,
    hash: BlobHash,
    size: u64,
}

impl BlobUpload {
    async fn put_in_one_transaction(self, path: &Path) -> Result<(), StoreError> {
        let bytes = fs::read(path).await.map_err(io_error("read the blob", path))?;
        self.check_size(bytes.len() as u64, path)?;
        let bytes = Arc::new(bytes);
        RetryPolicy::new(STEP)
            .with_payload(bytes.len())
            .run(|_| self.clone().write_in_one_transaction(bytes.clone()))
            .await
    }

    async fn write_in_one_transaction(self, bytes: Arc<Vec<u8>>) -> Result<(), MongoFailure> {
        // Another caller stored it, or an earlier try of this one did and its reply was lost.
        let found = touch(self.context.clone(), self.hash).await?;
        if found.as_ref().is_some_and(|document| !document.damaged) {
            return Ok(());
        }
        let mut transaction = Transaction::default();
        transaction.insert(CHUNKS, gridfs::chunks(self.file, 0, &bytes))?;
        self.refer_to_file(found, &mut transaction).await?;
        transaction.commit(&self.context).await
    }

    async fn put_in_parts(self, path: &Path) -> Result<(), StoreError> {
        let mut source = BufReader::with_capacity(
            CHUNK_BYTES,
            File::open(path).await.map_err(io_error("open the blob", path))?,
        );
        let file = RetryPolicy::new(STEP).run(|_| gridfs::begin_upload(self.context.clone()));
        let upload = BlobUpload {
            file: file.await?,
            ..self.clone()
        };
        let mut read = 0;
        loop {
            let mut part = Vec::with_capacity(CHUNK_BYTES * CHUNKS_PER_COMMAND);
            let mut limited = (&mut source).take(SINGLE_TRANSACTION_MAX_BYTES);
            limited
                .read_to_end(&mut part)
                .await
                .map_err(io_error("read the blob", path))?;
            if part.is_empty() {
                break;
            }
            let first = (read / CHUNK_BYTES as u64) as i32;
            read += part.len() as u64;
            let part = Arc::new(part);
            RetryPolicy::new(STEP)
                .with_payload(part.len())
                .run(|_| gridfs::write_chunks(upload.context.clone(), upload.file, first, part.clone()))
                .await?;
        }
        upload.check_size(read, path)?;
        let published = RetryPolicy::new(STEP).run(|_| upload.clone().publish()).await?;
        if published != upload.file {
            // Another caller stored the blob first.
            gridfs::discard(&upload.context, &[upload.file]).await;
        }
        Ok(())
    }

    /// Makes the blob refer to the uploaded file, unless it is stored already. Returns the file that it refers to.
    async fn publish(self) -> Result<ObjectId, MongoFailure> {
        let found = touch(self.context.clone(), self.hash).await?;
        if let Some(document) = found.as_ref().filter(|document| !document.damaged) {
            return Ok(document.file);
        }
        let mut transaction = Transaction::default();
        transaction.delete_each(UPLOADS, [gridfs::claimable_upload(self.file)])?;
        self.refer_to_file(found, &mut transaction).await?;
        transaction.commit(&self.context).await?;
        Ok(self.file)
    }

    /// Adds a new blob to the transaction, or replaces the file of a damaged one.
    async fn refer_to_file(
        &self,
        damaged: Option<BlobDocument>,
        transaction: &mut Transaction,
    ) -> Result<(), MongoFailure> {
        transaction.insert(FILES, [self.file_document()])?;
        let document = self.blob_document(age::now(&self.context).await?);
        let Some(damaged) = damaged else {
            return transaction.insert(BLOBS, [document]);
        };
        transaction.update(
            BLOBS,
            [doc! {
                "q": { "_id": self.hash.to_bson(), "file": damaged.file },
                "u": { "$set": { "file": document.file, "size": document.size }, "$unset": { "damaged": "" } },
            }],
        )?;
        transaction.update(UPLOADS, [gridfs::schedule_deletion(damaged.file)])
    }

    fn file_document(&self) -> Document {
        gridfs::file_document(self.file, &self.hash.to_string(), self.size)
    }

    fn blob_document(&self, age: StoreAge) -> BlobDocument {
        BlobDocument {
            hash: binary(self.hash.0.to_vec()),
            file: self.file,
            size: i64::try_from(self.size).unwrap_or(i64::MAX),
            used: now().0,
            used_age: Some(age.0),
            damaged: false,
            refs: 0,
            examined_by: None,
            removed_by: None,
        }
    }

    fn check_size(&self, read: u64, path: &Path) -> Result<(), StoreError> {
        if read == self.size {
            return Ok(());
        }
        let detail = format!("the file has {read} bytes, expected {}", self.size);
        Err(io_error("read the blob", path)(io::Error::other(detail)))
    }
}

fn io_error(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_path_buf();
    move |source| StoreError::Io { step, path, source }
}
