//! Blobs: their bytes in files named by their hash, and a row for each.

use std::fs;
use std::io;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream;
use model::BlobHash;
use rusqlite::{Connection, OptionalExtension};
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::task;

use super::column::Column;
use super::failure::{During, Failure};
use super::folder::{Folder, io_error};
use super::group::Group;
use crate::{BlobBytes, BlobFile, StoreError};

const CHUNK: usize = 256 << 10;

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

pub(super) fn put(group: &mut Group<'_>, file: &BlobFile) -> Result<(), Failure> {
    const STEP: &str = "put a blob";
    let touched = touch(group, file.hash)?;
    let place = group.folder().blob(file.hash);
    let in_place = fs::metadata(&place).is_ok_and(|metadata| metadata.len() == file.size);
    if touched.is_some() && in_place {
        // Another has put it before. Its copy of the bytes is as good; if it stays, the next start removes it.
        let _ = fs::remove_file(&file.path);
        return Ok(());
    }
    // Nothing but the time of use is written yet, so that trouble with this one file is only its caller's.
    place_file(group, file, &place).map_err(Failure::Refused)?;
    if touched.is_some() {
        return Ok(());
    }
    group.placed(place);
    let size = i64::try_from(file.size).unwrap_or(i64::MAX);
    group
        .statement("INSERT INTO blobs (hash, size, used) VALUES (?1, ?2, ?3)", STEP)?
        .execute((Column(file.hash), size, Column(group.now())))
        .map(drop)
        .during(STEP)
}

/// The sizes of those that exist, and a note that they were asked for.
pub(super) fn has(group: &mut Group<'_>, hashes: &[BlobHash]) -> Result<Vec<Option<u64>>, Failure> {
    hashes.iter().map(|hash| touch(group, *hash)).collect()
}

pub(super) fn is_known(connection: &Connection, hash: BlobHash) -> Result<bool, Failure> {
    const STEP: &str = "look for a blob";
    connection
        .prepare_cached("SELECT 1 FROM blobs WHERE hash = ?1")
        .and_then(|mut statement| statement.exists([Column(hash)]))
        .during(STEP)
}

/// `None` if the file is not there: it was retired a moment ago.
pub(super) async fn stream(folder: &Folder, hash: BlobHash) -> Result<Option<BlobBytes>, StoreError> {
    let path = folder.blob(hash);
    let file = match File::open(&path).await {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("open the blob", &path)(error)),
    };
    let chunks = stream::try_unfold((file, path), |(mut file, path)| async move {
        let chunk = read_chunk(&mut file)
            .await
            .map_err(io_error("read the blob", &path))?;
        Ok((!chunk.is_empty()).then_some((chunk, (file, path))))
    });
    Ok(Some(chunks.boxed()))
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
        .statement("UPDATE blobs SET used = ?2 WHERE hash = ?1 RETURNING size", STEP)?
        .query_row((Column(hash), Column(group.now())), |row| row.get(0))
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
