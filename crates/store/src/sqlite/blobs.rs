//! Blobs: each has a row in the table `blobs` and a file that is named by its hash.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use model::BlobHash;
use rusqlite::{Connection, OptionalExtension};
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::sync::Mutex;
use tokio::task;

use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use super::sql_value::SqlValue;
use super::store_folder::{FileIdentity, StoreFolder, io_error};
use super::writer::WeakWriterHandle;
use crate::{BlobFile, BlobStream, StoreError, verified_stream};

const CHUNK_BYTES: usize = 256 << 10;
/// About how much marking a blob as damaged writes.
const MARK_BYTES: usize = 512;

/// Whether the SQLite store has marked a blob as damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlobIntegrity {
    /// No read has found damage.
    Intact,
    Damaged,
}

/// Syncs the file before the writer thread takes it over, so that other operations do not wait for the disk.
pub(super) async fn sync_file(path: &Path) -> Result<(), StoreError> {
    let path = path.to_path_buf();
    task::spawn_blocking(move || {
        fs::File::open(&path)
            .and_then(|file| file.sync_all())
            .map_err(io_error("sync the blob", &path))
    })
    .await
    .map_err(|_| StoreError::Closed)?
}

/// Replaces an existing file of the blob, which may be damaged.
pub(super) fn put(transaction: &mut GroupTransaction<'_>, file: &BlobFile) -> Result<(), SqliteFailure> {
    const STEP: &str = "put a blob";
    let path = transaction.folder().blob(file.hash);
    let exists = exists(transaction, file.hash)?;
    // Nothing has been written to the database yet, so a problem with this file can be a refusal, which concerns only
    // its caller.
    move_file(transaction, file, &path).map_err(SqliteFailure::Refused)?;
    if !exists {
        transaction.record_new_blob_file(path);
    }
    let size = i64::try_from(file.size).unwrap_or(i64::MAX);
    transaction
        .statement(
            "INSERT INTO blobs (hash, size, used_age) VALUES (?1, ?2, ?3)
             ON CONFLICT (hash) DO UPDATE SET size = ?2, used_age = ?3, damaged = 0",
            STEP,
        )?
        .execute((SqlValue(file.hash), size, SqlValue(transaction.age())))
        .map(drop)
        .during(STEP)
}

/// Returns the sizes of the blobs that exist, and marks them as used.
pub(super) fn has(
    transaction: &mut GroupTransaction<'_>,
    hashes: &[BlobHash],
) -> Result<Vec<Option<u64>>, SqliteFailure> {
    hashes.iter().map(|hash| mark_used(transaction, *hash)).collect()
}

/// `None` if the blob does not exist.
pub(super) fn find(connection: &Connection, hash: BlobHash) -> Result<Option<BlobIntegrity>, SqliteFailure> {
    const STEP: &str = "look for a blob";
    let damaged = connection
        .prepare_cached("SELECT damaged FROM blobs WHERE hash = ?1")
        .and_then(|mut statement| statement.query_row([SqlValue(hash)], |row| row.get(0)).optional())
        .during(STEP)?;
    Ok(damaged.map(|damaged| match damaged {
        true => BlobIntegrity::Damaged,
        false => BlobIntegrity::Intact,
    }))
}

/// `None` if retention has just removed the blob.
pub(super) async fn open(
    folder: &StoreFolder,
    writer: WeakWriterHandle,
    hash: BlobHash,
) -> Result<Option<BlobStream>, StoreError> {
    let path = folder.blob(hash);
    let file = match File::open(&path).await {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match damage_error(&writer, hash, None).await {
                StoreError::BlobNotFound(_) => Ok(None),
                error => Err(error),
            };
        }
        Err(error) => return Err(io_error("open the blob", &path)(error)),
    };
    // The file stays open until it is marked, so that no other file gets its inode number.
    let file = Arc::new(Mutex::new(file));
    let opened = file.clone();
    let on_damage = move || -> BoxFuture<'static, StoreError> {
        Box::pin(async move {
            let file = opened.lock().await;
            match file.metadata().await {
                Ok(metadata) => damage_error(&writer, hash, Some(FileIdentity::of(&metadata))).await,
                Err(_) => StoreError::DamagedBlob(hash),
            }
        })
    };
    let chunks = stream::try_unfold((file, path), move |(file, path)| async move {
        let chunk = match read_chunk(&mut *file.lock().await).await {
            Err(error) if is_unreadable_sector(&error) => {
                return Err(StoreError::DamagedBlob(hash));
            }
            read => read.map_err(io_error("read the blob", &path))?,
        };
        Ok((!chunk.is_empty()).then_some((chunk, (file, path))))
    });
    verified_stream::verify_blob(hash, chunks.boxed(), Box::new(on_damage))
        .await
        .map(Some)
}

/// Whether the disk could not read a sector of the file.
pub(super) fn is_unreadable_sector(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    error.raw_os_error() == Some(EIO)
}

/// Marks the blob as damaged and returns the error for its reader.
async fn damage_error(
    writer: &WeakWriterHandle,
    hash: BlobHash,
    damaged_file: Option<FileIdentity>,
) -> StoreError {
    let marked = writer
        .submit(MARK_BYTES, move |transaction| {
            mark_damaged(transaction, hash, damaged_file)
        })
        .await;
    match marked {
        Ok(true) => StoreError::DamagedBlob(hash),
        Ok(false) => StoreError::BlobNotFound(hash),
        Err(error) => error,
    }
}

/// Marks the blob as damaged, unless a put has replaced the damaged file meanwhile. Returns whether the blob exists.
fn mark_damaged(
    transaction: &mut GroupTransaction<'_>,
    hash: BlobHash,
    damaged_file: Option<FileIdentity>,
) -> Result<bool, SqliteFailure> {
    const STEP: &str = "mark a damaged blob";
    let path = transaction.folder().blob(hash);
    if FileIdentity::of_path(&path).ok() != damaged_file {
        return exists(transaction, hash);
    }
    let marked = transaction
        .statement(
            "UPDATE blobs SET damaged = 1 WHERE hash = ?1 AND damaged = 0",
            STEP,
        )?
        .execute([SqlValue(hash)])
        .during(STEP)?;
    if marked > 0 {
        tracing::error!(%hash, path = %path.display(), "blob is damaged; upload it again");
    }
    exists(transaction, hash)
}

fn exists(transaction: &GroupTransaction<'_>, hash: BlobHash) -> Result<bool, SqliteFailure> {
    Ok(find(transaction.connection(), hash)?.is_some())
}

async fn read_chunk(file: &mut File) -> io::Result<Bytes> {
    // Tokio reads files through an internal buffer, which bounds the size of a read.
    file.set_max_buf_size(CHUNK_BYTES);
    let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
    file.read_buf(&mut chunk).await?;
    Ok(chunk.freeze())
}

fn mark_used(transaction: &GroupTransaction<'_>, hash: BlobHash) -> Result<Option<u64>, SqliteFailure> {
    const STEP: &str = "mark a blob as used";
    let size: Option<i64> = transaction
        .statement(
            "UPDATE blobs SET used_age = ?2 WHERE hash = ?1 AND damaged = 0 RETURNING size",
            STEP,
        )?
        .query_row((SqlValue(hash), SqlValue(transaction.age())), |row| row.get(0))
        .optional()
        .during(STEP)?;
    Ok(size.map(|size| u64::try_from(size).unwrap_or(0)))
}

fn move_file(transaction: &mut GroupTransaction<'_>, file: &BlobFile, to: &Path) -> Result<(), StoreError> {
    if let Some(subfolder) = to.parent() {
        match fs::create_dir(subfolder) {
            Ok(()) => transaction.record_changed_folder(transaction.folder().blobs()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io_error("create the folder", subfolder)(error)),
        }
        transaction.record_changed_folder(subfolder.to_path_buf());
    }
    fs::rename(&file.path, to).map_err(io_error("move the blob", &file.path))
}
