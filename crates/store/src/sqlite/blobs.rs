//! Blobs: each has a row in the table `blobs` and a file that is named by its hash.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use model::{BlobHash, UnixTime};
use rusqlite::{Connection, OptionalExtension};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::Mutex;
use tokio::task;

use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use super::sql_value::SqlValue;
use super::store_folder::{FileIdentity, PutGuard, StoreFolder, io_error, sync_folder};
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

/// Moves the file to its place and makes it durable, on a thread of its own: other operations do not wait for the disk, and
/// the syncs of concurrent puts share their writes to the disk. The blob exists only when `put` has added its row.
pub(super) async fn move_file(folder: &StoreFolder, file: &BlobFile) -> Result<PutGuard, StoreError> {
    let guard = folder.begin_put(file.hash);
    let (from, to) = (file.path.clone(), folder.blob(file.hash));
    task::spawn_blocking(move || {
        move_and_sync(&from, &to)?;
        Ok(guard)
    })
    .await
    .map_err(|_| StoreError::Closed)?
}

/// Replaces an existing file of the blob, which may be damaged.
fn move_and_sync(from: &Path, to: &Path) -> Result<(), StoreError> {
    let sync = |path: &Path| {
        fs::File::open(path)
            .and_then(|file| file.sync_all())
            .map_err(io_error("sync the blob", path))
    };
    let replaces = to.try_exists().map_err(io_error("inspect the blob", to))?;
    if replaces {
        // A crash must not leave an existing blob without its bytes.
        sync(from)?;
    }
    fs::rename(from, to).map_err(io_error("move the blob", from))?;
    if replaces {
        // If both are links to the same file, `rename` leaves both.
        match fs::remove_file(from) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("remove", from)(error));
            }
            _ => {}
        }
    } else {
        // Syncing the file under its new name often makes the name durable, too, and then the next sync is quick.
        sync(to)?;
    }
    to.parent().map_or(Ok(()), sync_folder)
}

/// Adds the row of a blob whose file is in its place.
pub(super) fn put(
    transaction: &mut GroupTransaction<'_>,
    file: &BlobFile,
    guard: PutGuard,
) -> Result<(), SqliteFailure> {
    const STEP: &str = "put a blob";
    if !exists(transaction, file.hash)? {
        transaction.record_new_blob(file.hash);
    }
    let size = i64::try_from(file.size).unwrap_or(i64::MAX);
    transaction
        .statement(
            "INSERT INTO blobs (hash, size, used_age) VALUES (?1, ?2, ?3)
             ON CONFLICT (hash) DO UPDATE SET size = ?2, used_age = ?3, damaged = 0",
            STEP,
        )?
        .execute((SqlValue(file.hash), size, SqlValue(transaction.age())))
        .during(STEP)?;
    // From here on the transaction decides about the file.
    drop(guard);
    Ok(())
}

/// Returns the sizes of the blobs that exist, and marks them as used.
pub(super) fn has(
    transaction: &mut GroupTransaction<'_>,
    hashes: &[BlobHash],
) -> Result<Vec<Option<u64>>, SqliteFailure> {
    hashes.iter().map(|hash| mark_used(transaction, *hash)).collect()
}

/// The first of these blobs that does not exist or is damaged.
pub(super) fn first_missing(
    transaction: &GroupTransaction<'_>,
    hashes: &[BlobHash],
) -> Result<Option<BlobHash>, SqliteFailure> {
    const STEP: &str = "look for the blobs of a task";
    if hashes.is_empty() {
        return Ok(None);
    }
    let mut find = transaction.statement("SELECT 1 FROM blobs WHERE hash = ?1 AND damaged = 0", STEP)?;
    for hash in hashes {
        if !find.exists([SqlValue(*hash)]).during(STEP)? {
            return Ok(Some(*hash));
        }
    }
    Ok(None)
}

/// Records that the task with this add time uses the blobs, by its spec or by its result. Retention keeps them.
pub(super) fn refer(
    transaction: &GroupTransaction<'_>,
    task: UnixTime,
    hashes: &[BlobHash],
) -> Result<(), SqliteFailure> {
    const STEP: &str = "record the blobs of a task";
    for hash in hashes {
        let added = transaction
            .statement(
                "INSERT OR IGNORE INTO blob_refs (seq, hash) VALUES (?1, ?2)",
                STEP,
            )?
            .execute((SqlValue(task), SqlValue(*hash)))
            .during(STEP)?;
        // The spec and the result of a task may have the same blob, which counts once.
        if added > 0 {
            transaction
                .statement("UPDATE blobs SET refs = refs + 1 WHERE hash = ?1", STEP)?
                .execute([SqlValue(*hash)])
                .during(STEP)?;
        }
    }
    Ok(())
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
    let Some((file, path)) = open_file(folder, &writer, hash).await? else {
        return Ok(None);
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
    verified_stream::verify_blob(hash, chunks(hash, file, path), Box::new(on_damage))
        .await
        .map(Some)
}

/// The bytes of a blob from an offset on, without verification. `None` if retention has just removed the blob.
pub(super) async fn open_from(
    folder: &StoreFolder,
    writer: WeakWriterHandle,
    hash: BlobHash,
    offset: u64,
) -> Result<Option<BlobStream>, StoreError> {
    let Some((mut file, path)) = open_file(folder, &writer, hash).await? else {
        return Ok(None);
    };
    let moved = file.seek(io::SeekFrom::Start(offset)).await;
    moved.map_err(io_error("read the blob", &path))?;
    Ok(Some(chunks(hash, Arc::new(Mutex::new(file)), path)))
}

/// A blob whose file is gone is marked as damaged.
async fn open_file(
    folder: &StoreFolder,
    writer: &WeakWriterHandle,
    hash: BlobHash,
) -> Result<Option<(File, PathBuf)>, StoreError> {
    let path = folder.blob(hash);
    match File::open(&path).await {
        Ok(file) => Ok(Some((file, path))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match damage_error(writer, hash, None).await {
                StoreError::BlobNotFound(_) => Ok(None),
                error => Err(error),
            }
        }
        Err(error) => Err(io_error("open the blob", &path)(error)),
    }
}

/// The bytes of a blob's file, from where it is now.
fn chunks(hash: BlobHash, file: Arc<Mutex<File>>, path: PathBuf) -> BlobStream {
    let chunks = stream::try_unfold((file, path), move |(file, path)| async move {
        let chunk = match read_chunk(&mut *file.lock().await).await {
            Err(error) if is_unreadable_sector(&error) => {
                return Err(StoreError::DamagedBlob(hash));
            }
            read => read.map_err(io_error("read the blob", &path))?,
        };
        Ok((!chunk.is_empty()).then_some((chunk, (file, path))))
    });
    chunks.boxed()
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
