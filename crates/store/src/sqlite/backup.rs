//! A consistent copy of the store, made by another process while the node goes on writing.
//!
//! The database is copied as it was at one moment: a read transaction keeps that moment, and in WAL mode nobody waits
//! for it. Then come the blobs that the copy names, each checked against its hash. A damaged blob is left out and
//! counted: a backup of everything else is worth more than none. The copy is a data folder of its own and appears under
//! its name only when all of it is on disk.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::BlobHash;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::column::Column;
use super::failure::database_error;
use super::folder::{Folder, io_error, sync_folder};
use super::{connect, schema};
use crate::StoreError;

/// What a backup holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackedUp {
    pub tasks: u64,
    pub blobs: u64,
    /// Blobs whose bytes are missing or wrong. They are not in the backup; its database has them as damaged.
    pub damaged: u64,
    pub database_bytes: u64,
    pub blob_bytes: u64,
}

#[derive(Debug, Error)]
pub enum BackupError {
    #[error("{path} exists; name a folder that does not exist yet, like {}", .path.join("backup").display())]
    Exists { path: PathBuf },
    #[error(
        "{path} exists: another backup is being written, or one was interrupted; if none runs, remove it"
    )]
    Unfinished { path: PathBuf },
    #[error(
        "there is no store in {path}; name the data folder of `conclave up` with --data. A cluster keeps its tasks in \
         MongoDB, which has tools of its own for this"
    )]
    NoStore { path: PathBuf },
    #[error("the database was busy for {}s; try again", .patience.as_secs())]
    Busy { patience: Duration },
    #[error("the copy of the database is damaged, so the store itself may be: {detail}")]
    Damaged { detail: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Pages that are copied at a time: 4 MiB.
const PAGES: i32 = 1024;
/// How long the database may be busy, for example because a crashed store is being recovered.
const PATIENCE: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(50);
/// Bytes of a blob that are copied at a time.
const CHUNK: usize = 256 << 10;
/// The schema version that added the column `damaged` to the blobs.
const DAMAGED_SINCE: usize = 2;
/// The kernel's error for a sector that the disk cannot read (EIO).
const UNREADABLE: i32 = 5;

/// Copies the store in the folder `store` to `target/store`, so that `target` can be used as a data folder. Further
/// files of the data folder (`beside`) go to `target` if they exist, readable for this user only.
pub fn backup(store: &Path, target: &Path, beside: &[PathBuf]) -> Result<BackedUp, BackupError> {
    let live = Folder::at(store);
    let database = live.database();
    let exists = database.try_exists().map_err(io_error("look at", &database))?;
    if !exists {
        return Err(BackupError::NoStore {
            path: store.to_path_buf(),
        });
    }
    refuse_existing(target)?;
    let staging = staging(target);
    match DirBuilder::new().mode(0o755).create(&staging) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(BackupError::Unfinished { path: staging });
        }
        made => made.map_err(io_error("create the folder", &staging))?,
    }
    let copied = copy(&live, &staging, beside).and_then(|copied| {
        fs::rename(&staging, target).map_err(io_error("rename the finished copy to", target))?;
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync_folder(parent.unwrap_or(Path::new(".")))?;
        Ok(copied)
    });
    if copied.is_err() {
        let _ = fs::remove_dir_all(&staging);
    }
    copied
}

/// An empty folder too: it may be a mount point, which nothing can be renamed to when the copy is finished.
fn refuse_existing(target: &Path) -> Result<(), BackupError> {
    match fs::symlink_metadata(target) {
        Ok(_) => Err(BackupError::Exists {
            path: target.to_path_buf(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_error("look at", target)(error).into()),
    }
}

/// `DIR.new` beside `DIR`, so that the rename stays on one file system.
fn staging(target: &Path) -> PathBuf {
    let mut name: OsString = target.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    target.with_file_name(name)
}

fn copy(live: &Folder, staging: &Path, beside: &[PathBuf]) -> Result<BackedUp, BackupError> {
    let copy = Folder::at(&staging.join("store"));
    for path in [copy.root().to_path_buf(), copy.blobs()] {
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(io_error("create the folder", &path))?;
    }
    let database = copy_database(live, &copy)?;
    let mut copied = copy_blobs(live, &copy, &database)?;
    copied.tasks = count(&database, "SELECT count(*) FROM tasks")?;
    close(database, &copy)?;
    let path = copy.database();
    let length = |file: File| file.sync_all().and_then(|()| Ok(file.metadata()?.len()));
    copied.database_bytes = File::open(&path)
        .and_then(length)
        .map_err(io_error("sync", &path))?;
    for path in beside {
        copy_beside(path, staging)?;
    }
    for path in [&copy.blobs(), copy.root(), staging] {
        sync_folder(path)?;
    }
    Ok(copied)
}

fn copy_database(live: &Folder, copy: &Folder) -> Result<Connection, BackupError> {
    let failed = |step| move |source| database_error(step, source, live.root());
    let source = connect::reader(live)?;
    source
        .busy_timeout(PATIENCE)
        .map_err(failed("set the busy timeout"))?;
    schema::check(&source, live)?;
    // From the first read on, this connection sees the database as it is now.
    source
        .execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema;")
        .map_err(failed("begin reading"))?;
    let mut database = Connection::open(copy.database()).map_err(failed("make the copy"))?;
    let backup = Backup::new(&source, &mut database).map_err(failed("begin the copy"))?;
    let mut tries = PATIENCE.as_millis() / RETRY.as_millis();
    loop {
        match backup.step(PAGES).map_err(failed("copy"))? {
            StepResult::Done => break,
            StepResult::Busy | StepResult::Locked if tries > 0 => {
                tries -= 1;
                std::thread::sleep(RETRY);
            }
            StepResult::Busy | StepResult::Locked => return Err(BackupError::Busy { patience: PATIENCE }),
            _ => {}
        }
    }
    drop(backup);
    let verdict: String = database
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(failed("check the copy"))?;
    match verdict.as_str() {
        "ok" => Ok(database),
        _ => Err(BackupError::Damaged { detail: verdict }),
    }
}

/// Copies the blobs that the copied database names. A blob that was retired meanwhile is no longer named by the live
/// database: its row is removed from the copy as well, because a node would expect the file.
fn copy_blobs(live: &Folder, copy: &Folder, database: &Connection) -> Result<BackedUp, BackupError> {
    let failed = |step| move |source| database_error(step, source, copy.root());
    let has_damaged = schema::check(database, copy)? >= DAMAGED_SINCE;
    let now = connect::reader(live)?;
    let mut copied = BackedUp::default();
    let mut retired = Vec::new();
    let mut damaged = Vec::new();
    let list = match has_damaged {
        true => "SELECT hash, damaged FROM blobs",
        false => "SELECT hash, 0 FROM blobs",
    };
    let mut statement = database.prepare(list).map_err(failed("list the blobs"))?;
    let mut rows = statement.query([]).map_err(failed("list the blobs"))?;
    while let Some(row) = rows.next().map_err(failed("list the blobs"))? {
        let (Column(hash), is_marked) = row
            .get(0)
            .and_then(|hash: Column<BlobHash>| Ok((hash, row.get::<_, bool>(1)?)))
            .map_err(failed("read a blob's row"))?;
        if is_marked {
            copied.damaged += 1;
            continue;
        }
        let (from, to) = (live.blob(hash), copy.blob(hash));
        let mut content = copy_blob(hash, &from, &to)?;
        if content == Content::Missing {
            let is_named = is_named(&now, hash)
                .map_err(|source| database_error("look for a blob", source, live.root()))?;
            if !is_named {
                retired.push(hash);
                continue;
            }
            // It may have been retired and put again since.
            content = copy_blob(hash, &from, &to)?;
        }
        match content {
            Content::Whole { bytes } => {
                copied.blobs += 1;
                copied.blob_bytes += bytes;
            }
            Content::Damaged | Content::Missing => {
                copied.damaged += 1;
                damaged.push(hash);
            }
        }
    }
    drop(rows);
    drop(statement);
    for hash in retired {
        database
            .execute("DELETE FROM blobs WHERE hash = ?1", [Column(hash)])
            .map_err(failed("forget a retired blob"))?;
    }
    // A store of schema version 1 has no such mark: after the upgrade, the scan of the blobs sets it.
    if has_damaged {
        for hash in damaged {
            database
                .execute("UPDATE blobs SET damaged = 1 WHERE hash = ?1", [Column(hash)])
                .map_err(failed("mark a damaged blob"))?;
        }
    }
    sync_shelves(&copy.blobs())?;
    Ok(copied)
}

/// Works on every version of the schema.
fn is_named(database: &Connection, hash: BlobHash) -> rusqlite::Result<bool> {
    database
        .prepare_cached("SELECT 1 FROM blobs WHERE hash = ?1")
        .and_then(|mut statement| statement.exists([Column(hash)]))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Whole { bytes: u64 },
    Damaged,
    Missing,
}

/// Copies the bytes and never links the file: a backup must not change with the live file. A damaged copy is removed.
fn copy_blob(hash: BlobHash, from: &Path, to: &Path) -> Result<Content, StoreError> {
    let mut source = match File::open(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::Missing),
        opened => opened.map_err(io_error("open the blob", from))?,
    };
    if let Some(shelf) = to.parent() {
        match DirBuilder::new().mode(0o700).create(shelf) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(io_error("create the folder", shelf)(error));
            }
            _ => {}
        }
    }
    let mut copy = create(to)?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut bytes = 0_u64;
    let is_readable = loop {
        let read = match source.read(&mut chunk) {
            Ok(0) => break true,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.raw_os_error() == Some(UNREADABLE) => break false,
            Err(error) => return Err(io_error("read the blob", from)(error)),
        };
        hasher.update(&chunk[..read]);
        copy.write_all(&chunk[..read])
            .map_err(io_error("write the blob", to))?;
        bytes += read as u64;
    };
    let digest: [u8; 32] = hasher.finalize().into();
    if !is_readable || digest != hash.0 {
        fs::remove_file(to).map_err(io_error("remove", to))?;
        return Ok(Content::Damaged);
    }
    copy.sync_all().map_err(io_error("sync the blob", to))?;
    Ok(Content::Whole { bytes })
}

fn copy_beside(from: &Path, staging: &Path) -> Result<(), StoreError> {
    let content = match fs::read(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(io_error("read", from))?,
    };
    let to = staging.join(from.file_name().unwrap_or_default());
    let mut copy = create(&to)?;
    copy.write_all(&content)
        .and_then(|()| copy.sync_all())
        .map_err(io_error("write", &to))
}

fn create(path: &Path) -> Result<File, StoreError> {
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(io_error("create", path))
}

fn sync_shelves(blobs: &Path) -> Result<(), StoreError> {
    let failed = || io_error("look into", blobs);
    for shelf in fs::read_dir(blobs).map_err(failed())? {
        sync_folder(&shelf.map_err(failed())?.path())?;
    }
    Ok(())
}

fn count(database: &Connection, sql: &str) -> Result<u64, StoreError> {
    let count: i64 =
        database
            .query_row(sql, [], |row| row.get(0))
            .map_err(|source| StoreError::Database {
                step: "count the tasks",
                source,
            })?;
    Ok(u64::try_from(count).unwrap_or(0))
}

/// With its log written home, so that the copy is one file.
fn close(database: Connection, copy: &Folder) -> Result<(), StoreError> {
    let failed = |step| move |source| database_error(step, source, copy.root());
    database
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .map_err(failed("finish the copy"))?;
    database
        .close()
        .map_err(|(_, source)| failed("close the copy")(source))
}
