//! Blobs: their bytes in files named by their hash, and a row for each.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
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

use super::column::Column;
use super::failure::{During, Failure};
use super::folder::{Folder, io_error};
use super::group::Group;
use super::writer::WeakWriter;
use crate::{BlobBytes, BlobFile, StoreError, verify};

const CHUNK: usize = 256 << 10;
/// What a mark weighs in a group.
const MARK: usize = 512;
/// What the kernel says of a sector that the disk cannot read (EIO).
const UNREADABLE: i32 = 5;

/// What is known of a blob's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Whole,
    Damaged,
}

/// Before the writer is asked to keep a file, so that it does not have to wait for that much of the disk.
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

/// The file takes the place of the one that is there, if there is one: that one may be damaged.
pub(super) fn put(group: &mut Group<'_>, file: &BlobFile) -> Result<(), Failure> {
    const STEP: &str = "put a blob";
    let place = group.folder().blob(file.hash);
    let known = is_known(group, file.hash)?;
    // Nothing is written to the database yet, so that trouble with this one file is only its caller's.
    place_file(group, file, &place).map_err(Failure::Refused)?;
    if !known {
        group.placed(place);
    }
    let size = i64::try_from(file.size).unwrap_or(i64::MAX);
    group
        .statement(
            "INSERT INTO blobs (hash, size, used_age) VALUES (?1, ?2, ?3)
             ON CONFLICT (hash) DO UPDATE SET size = ?2, used_age = ?3, damaged = 0",
            STEP,
        )?
        .execute((Column(file.hash), size, Column(group.age())))
        .map(drop)
        .during(STEP)
}

/// The sizes of those that exist, and a note that they were asked for.
pub(super) fn has(group: &mut Group<'_>, hashes: &[BlobHash]) -> Result<Vec<Option<u64>>, Failure> {
    hashes.iter().map(|hash| touch(group, *hash)).collect()
}

/// Whether it is whole as far as is known; `None` where there is none.
pub(super) fn find(connection: &Connection, hash: BlobHash) -> Result<Option<Condition>, Failure> {
    const STEP: &str = "look for a blob";
    let damaged = connection
        .prepare_cached("SELECT damaged FROM blobs WHERE hash = ?1")
        .and_then(|mut statement| statement.query_row([Column(hash)], |row| row.get(0)).optional())
        .during(STEP)?;
    Ok(damaged.map(|damaged| match damaged {
        true => Condition::Damaged,
        false => Condition::Whole,
    }))
}

/// `None` if it was retired a moment ago.
pub(super) async fn open(
    folder: &Folder,
    writer: WeakWriter,
    hash: BlobHash,
) -> Result<Option<BlobBytes>, StoreError> {
    let path = folder.blob(hash);
    let file = match File::open(&path).await {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match mark(&writer, hash, None).await {
                StoreError::NoBlob(_) => Ok(None),
                error => Err(error),
            };
        }
        Err(error) => return Err(io_error("open the blob", &path)(error)),
    };
    // Held open until it is marked, so that no other file gets its number.
    let file = Arc::new(Mutex::new(file));
    let seen = file.clone();
    let on_damage = move || -> BoxFuture<'static, StoreError> {
        Box::pin(async move {
            let file = seen.lock().await;
            match file.metadata().await {
                Ok(metadata) => mark(&writer, hash, Some(FileNumber::of(&metadata))).await,
                Err(_) => StoreError::DamagedBlob(hash),
            }
        })
    };
    let chunks = stream::try_unfold((file, path), move |(file, path)| async move {
        let chunk = match read_chunk(&mut *file.lock().await).await {
            Err(error) if error.raw_os_error() == Some(UNREADABLE) => {
                return Err(StoreError::DamagedBlob(hash));
            }
            read => read.map_err(io_error("read the blob", &path))?,
        };
        Ok((!chunk.is_empty()).then_some((chunk, (file, path))))
    });
    verify::verified(hash, chunks.boxed(), Box::new(on_damage))
        .await
        .map(Some)
}

/// Which file on the disk it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileNumber {
    device: u64,
    inode: u64,
}

impl FileNumber {
    fn of(metadata: &Metadata) -> FileNumber {
        FileNumber {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// Answers what the reader is told.
async fn mark(writer: &WeakWriter, hash: BlobHash, seen: Option<FileNumber>) -> StoreError {
    let marked = writer
        .submit(MARK, move |group| mark_damaged(group, hash, seen))
        .await;
    match marked {
        Ok(true) => StoreError::DamagedBlob(hash),
        Ok(false) => StoreError::NoBlob(hash),
        Err(error) => error,
    }
}

/// Unless another file has taken the place of the one that was seen: that one was put to mend it. Answers whether
/// there is such a blob at all.
fn mark_damaged(group: &mut Group<'_>, hash: BlobHash, seen: Option<FileNumber>) -> Result<bool, Failure> {
    const STEP: &str = "mark a damaged blob";
    let place = group.folder().blob(hash);
    let found = fs::metadata(&place).ok().as_ref().map(FileNumber::of);
    if found != seen {
        return is_known(group, hash);
    }
    let marked = group
        .statement(
            "UPDATE blobs SET damaged = 1 WHERE hash = ?1 AND damaged = 0",
            STEP,
        )?
        .execute([Column(hash)])
        .during(STEP)?;
    if marked > 0 {
        tracing::error!(%hash, path = %place.display(), "a blob is damaged; put it again");
    }
    is_known(group, hash)
}

fn is_known(group: &Group<'_>, hash: BlobHash) -> Result<bool, Failure> {
    Ok(find(group.connection(), hash)?.is_some())
}

async fn read_chunk(file: &mut File) -> io::Result<Bytes> {
    // Tokio reads files through a buffer of its own, in pieces of this size at most.
    file.set_max_buf_size(CHUNK);
    let mut chunk = BytesMut::with_capacity(CHUNK);
    file.read_buf(&mut chunk).await?;
    Ok(chunk.freeze())
}

fn touch(group: &Group<'_>, hash: BlobHash) -> Result<Option<u64>, Failure> {
    const STEP: &str = "touch a blob";
    let size: Option<i64> = group
        .statement(
            "UPDATE blobs SET used_age = ?2 WHERE hash = ?1 AND damaged = 0 RETURNING size",
            STEP,
        )?
        .query_row((Column(hash), Column(group.age())), |row| row.get(0))
        .optional()
        .during(STEP)?;
    Ok(size.map(|size| u64::try_from(size).unwrap_or(0)))
}

fn place_file(group: &mut Group<'_>, file: &BlobFile, place: &Path) -> Result<(), StoreError> {
    if let Some(shelf) = place.parent() {
        match fs::create_dir(shelf) {
            Ok(()) => group.touched(group.folder().blobs()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io_error("create the folder", shelf)(error)),
        }
        group.touched(shelf.to_path_buf());
    }
    fs::rename(&file.path, place).map_err(io_error("take over the blob", &file.path))
}
