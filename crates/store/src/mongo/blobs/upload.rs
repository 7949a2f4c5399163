//! Taking a file over as a blob.

use std::io;
use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use model::{Age, BlobHash};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use tokio::fs::{self, File};
use tokio::io::{AsyncReadExt, BufReader};

use super::{BlobRow, required};
use crate::mongo::age;
use crate::mongo::attempts::Patience;
use crate::mongo::base::{BLOBS, Base, CHUNKS, FILES, UPLOADS, now};
use crate::mongo::failure::Failure;
use crate::mongo::field::{Field, binary};
use crate::mongo::files::{self, CHUNK, TOGETHER};
use crate::mongo::transaction::Transaction;
use crate::{BlobFile, StoreError};

/// Up to this it is one transaction.
const AT_ONCE: u64 = (CHUNK * TOGETHER) as u64;

const STEP: &str = "put a blob";

/// Durable when it returns. The file is gone then: the blob has its bytes.
pub(in crate::mongo) async fn put(base: &Arc<Base>, blob: BlobFile) -> Result<(), StoreError> {
    let BlobFile { hash, size, path } = blob;
    let known = Patience::with(STEP)
        .persist(|_| touch(base.clone(), hash))
        .await?;
    let whole = match known {
        Some(row) if !row.damaged => read_through(base, hash, &row).await?,
        _ => false,
    };
    if !whole {
        let file = Upload {
            base: base.clone(),
            file: ObjectId::new(),
            hash,
            size,
        };
        if size <= AT_ONCE {
            file.put_at_once(&path).await?;
        } else {
            file.put_in_pieces(&path).await?;
        }
    }
    // If it stays, the next start removes it.
    let _ = fs::remove_file(&path).await;
    Ok(())
}

/// Whether the bytes that are there are right: they may be damaged without anybody knowing. If they are, it is known
/// now.
async fn read_through(base: &Arc<Base>, hash: BlobHash, row: &BlobRow) -> Result<bool, StoreError> {
    let read = async {
        let mut bytes = super::read(base, hash, row.file, row.size).await?;
        while bytes.try_next().await?.is_some() {}
        Ok(())
    };
    match read.await {
        Ok(()) => Ok(true),
        Err(StoreError::DamagedBlob(_) | StoreError::NoBlob(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The blob, if there is one, and a note that it was put again.
async fn touch(base: Arc<Base>, hash: BlobHash) -> Result<Option<BlobRow>, Failure> {
    let age = age::now(&base).await?;
    let found: Option<RawDocumentBuf> = base
        .collection(BLOBS)
        .find_one_and_update(
            doc! { "_id": hash.field() },
            // A repetition that comes late does not set it back.
            doc! { "$max": { "used": now().field(), "used_age": age.field() } },
        )
        .await?;
    found.map(|document| required(&base, hash, &document)).transpose()
}

#[derive(Clone)]
struct Upload {
    base: Arc<Base>,
    file: ObjectId,
    hash: BlobHash,
    size: u64,
}

impl Upload {
    async fn put_at_once(self, path: &Path) -> Result<(), StoreError> {
        let bytes = fs::read(path).await.map_err(io_error("read the blob", path))?;
        self.check_size(bytes.len() as u64, path)?;
        let bytes = Arc::new(bytes);
        Patience::with(STEP)
            .for_bytes(bytes.len())
            .persist(|_| self.clone().write_at_once(bytes.clone()))
            .await
    }

    async fn write_at_once(self, bytes: Arc<Vec<u8>>) -> Result<(), Failure> {
        // By another, or by an attempt of ours whose answer was lost.
        let found = touch(self.base.clone(), self.hash).await?;
        if found.as_ref().is_some_and(|row| !row.damaged) {
            return Ok(());
        }
        let mut transaction = Transaction::default();
        transaction.insert(CHUNKS, files::chunks(self.file, 0, &bytes))?;
        self.take_over(found, &mut transaction).await?;
        transaction.commit(&self.base).await
    }

    async fn put_in_pieces(self, path: &Path) -> Result<(), StoreError> {
        let mut source = BufReader::with_capacity(
            CHUNK,
            File::open(path).await.map_err(io_error("open the blob", path))?,
        );
        let marked = Patience::with(STEP).persist(|_| files::mark(self.base.clone()));
        let this = Upload {
            file: marked.await?,
            ..self.clone()
        };
        let mut read = 0;
        loop {
            let mut piece = Vec::with_capacity(CHUNK * TOGETHER);
            let mut part = (&mut source).take(AT_ONCE);
            part.read_to_end(&mut piece)
                .await
                .map_err(io_error("read the blob", path))?;
            if piece.is_empty() {
                break;
            }
            let first = (read / CHUNK as u64) as i32;
            read += piece.len() as u64;
            let piece = Arc::new(piece);
            Patience::with(STEP)
                .for_bytes(piece.len())
                .persist(|_| files::write_piece(this.base.clone(), this.file, first, piece.clone()))
                .await?;
        }
        this.check_size(read, path)?;
        let owner = Patience::with(STEP).persist(|_| this.clone().publish()).await?;
        if owner != this.file {
            // Another was first.
            files::abandon(&this.base, &[this.file]).await;
        }
        Ok(())
    }

    /// Makes the file the blob's, unless another is. Answers the file that is.
    async fn publish(self) -> Result<ObjectId, Failure> {
        let found = touch(self.base.clone(), self.hash).await?;
        if let Some(row) = found.as_ref().filter(|row| !row.damaged) {
            return Ok(row.file);
        }
        let mut transaction = Transaction::default();
        transaction.delete_each(UPLOADS, [files::marked(self.file)])?;
        self.take_over(found, &mut transaction).await?;
        transaction.commit(&self.base).await?;
        Ok(self.file)
    }

    /// As a new blob, or in place of the file of one that is damaged.
    async fn take_over(
        &self,
        damaged: Option<BlobRow>,
        transaction: &mut Transaction,
    ) -> Result<(), Failure> {
        transaction.insert(FILES, [self.description()])?;
        let row = self.row(age::now(&self.base).await?);
        let Some(damaged) = damaged else {
            return transaction.insert(BLOBS, [row]);
        };
        transaction.update(
            BLOBS,
            [doc! {
                "q": { "_id": self.hash.field(), "file": damaged.file },
                "u": { "$set": { "file": row.file, "size": row.size }, "$unset": { "damaged": "" } },
            }],
        )?;
        transaction.update(UPLOADS, [files::doom(damaged.file)])
    }

    fn description(&self) -> Document {
        files::description(self.file, &self.hash.to_string(), self.size)
    }

    fn row(&self, age: Age) -> BlobRow {
        BlobRow {
            hash: binary(self.hash.0.to_vec()),
            file: self.file,
            size: i64::try_from(self.size).unwrap_or(i64::MAX),
            used: now().0,
            used_age: Some(age.0),
            damaged: false,
            refs: 0,
        }
    }

    fn check_size(&self, read: u64, path: &Path) -> Result<(), StoreError> {
        if read == self.size {
            return Ok(());
        }
        let detail = format!("it has {read} bytes instead of {}", self.size);
        Err(io_error("read the blob", path)(io::Error::other(detail)))
    }
}

fn io_error(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_path_buf();
    move |source| StoreError::Io { step, path, source }
}
