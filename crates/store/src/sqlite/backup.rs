//! A consistent copy of the store, made by another process while the node keeps writing.
//!
//! A read transaction gives a snapshot of the database, and in WAL mode it blocks no writer. Then the backup copies
//! the blobs that the snapshot names and verifies each against its hash. It leaves out damaged blobs and counts them:
//! a backup of everything else is better than none. The copy is a complete data folder, and gets its name only when
//! all of it is on disk.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::BlobHash;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use thiserror::Error;

use super::blobs::is_unreadable_sector;
use super::failure::database_error;
use super::sql_value::SqlValue;
use super::store_folder::{StoreFolder, io_error, sync_folder};
use super::{connect, schema};
use crate::StoreError;

/// What a finished backup of a SQLite store contains: the number and size of its tasks and blobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupSummary {
    pub tasks: u64,
    pub blobs: u64,
    /// Blobs whose bytes are missing or wrong. Their files are not in the backup; its database marks them as damaged.
    pub damaged: u64,
    pub database_bytes: u64,
    pub blob_bytes: u64,
}

/// Why a backup of a SQLite store failed.
#[derive(Debug, Error)]
pub enum BackupError {
    #[error("{path} exists already; choose a folder that does not exist, for example {}", .path.join("backup").display())]
    Exists { path: PathBuf },
    #[error(
        "{path} exists: another backup is running, or one was interrupted; if none is running, remove the folder"
    )]
    Unfinished { path: PathBuf },
    #[error(
        "there is no store in {path}; give the data folder of `conclave up` with --data. A cluster keeps its tasks in \
         MongoDB: back it up with MongoDB's own tools"
    )]
    NoStore { path: PathBuf },
    #[error("the database was locked for {} s; try again", .timeout.as_secs())]
    Busy { timeout: Duration },
    #[error(
        "the copy of the database failed its integrity check, so the store itself may be damaged: {detail}"
    )]
    Damaged { detail: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How many database pages one step copies: 4 MiB.
const PAGES_PER_STEP: i32 = 1024;
/// How long the database may be locked, for example by the recovery of a crashed store.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
const BUSY_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// How many bytes of a blob are copied at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// The schema version that added the column `damaged` to the table `blobs`.
const DAMAGED_COLUMN_VERSION: usize = 2;

/// Copies the store in the folder `store` to `target/store`, so that `target` can be used as a data folder. Copies
/// `extra_files` of the data folder to `target` if they exist, readable only by this user.
pub fn backup(store: &Path, target: &Path, extra_files: &[PathBuf]) -> Result<BackupSummary, BackupError> {
    let live = StoreFolder::at(store);
    let database = live.database();
    let exists = database.try_exists().map_err(io_error("inspect", &database))?;
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
    let copied = copy(&live, &staging, extra_files).and_then(|copied| {
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

/// Refuses even an empty folder: it may be a mount point, and the finished copy could not be renamed to it.
fn refuse_existing(target: &Path) -> Result<(), BackupError> {
    match fs::symlink_metadata(target) {
        Ok(_) => Err(BackupError::Exists {
            path: target.to_path_buf(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_error("inspect", target)(error).into()),
    }
}

/// `DIR.new` next to `DIR`, so that the rename stays on one file system.
fn staging(target: &Path) -> PathBuf {
    let mut name: OsString = target.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    target.with_file_name(name)
}

fn copy(live: &StoreFolder, staging: &Path, extra_files: &[PathBuf]) -> Result<BackupSummary, BackupError> {
    let copy = StoreFolder::at(&staging.join("store"));
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
    for path in extra_files {
        copy_extra_file(path, staging)?;
    }
    for path in [&copy.blobs(), copy.root(), staging] {
        sync_folder(path)?;
    }
    Ok(copied)
}

fn copy_database(live: &StoreFolder, copy: &StoreFolder) -> Result<Connection, BackupError> {
    let failed = |step| move |source| database_error(step, source, live.root());
    let source = connect::reader(live)?;
    source
        .busy_timeout(BUSY_TIMEOUT)
        .map_err(failed("set the busy timeout"))?;
    schema::supported_version(&source, live)?;
    // The first read of the transaction fixes the snapshot.
    source
        .execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema;")
        .map_err(failed("begin reading"))?;
    let mut database = Connection::open(copy.database()).map_err(failed("create the copy"))?;
    let backup = Backup::new(&source, &mut database).map_err(failed("begin the copy"))?;
    let mut retries = BUSY_TIMEOUT.as_millis() / BUSY_RETRY_INTERVAL.as_millis();
    loop {
        match backup.step(PAGES_PER_STEP).map_err(failed("copy"))? {
            StepResult::Done => break,
            StepResult::Busy | StepResult::Locked if retries > 0 => {
                retries -= 1;
                std::thread::sleep(BUSY_RETRY_INTERVAL);
            }
            StepResult::Busy | StepResult::Locked => {
                return Err(BackupError::Busy {
                    timeout: BUSY_TIMEOUT,
                });
            }
            _ => {}
        }
    }
    drop(backup);
    let integrity: String = database
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(failed("check the copy"))?;
    match integrity.as_str() {
        "ok" => Ok(database),
        _ => Err(BackupError::Damaged { detail: integrity }),
    }
}

/// Copies the blobs that the copied database names. If retention has removed a blob from the live store meanwhile,
/// its row is deleted from the copy too, because a row without a file means damage.
fn copy_blobs(
    live: &StoreFolder,
    copy: &StoreFolder,
    database: &Connection,
) -> Result<BackupSummary, BackupError> {
    let failed = |step| move |source| database_error(step, source, copy.root());
    let has_damaged_column = schema::supported_version(database, copy)? >= DAMAGED_COLUMN_VERSION;
    let live_database = connect::reader(live)?;
    let mut copied = BackupSummary::default();
    let mut removed = Vec::new();
    let mut damaged = Vec::new();
    let list = match has_damaged_column {
        true => "SELECT hash, damaged FROM blobs",
        false => "SELECT hash, 0 FROM blobs",
    };
    let mut statement = database.prepare(list).map_err(failed("list the blobs"))?;
    let mut rows = statement.query([]).map_err(failed("list the blobs"))?;
    while let Some(row) = rows.next().map_err(failed("list the blobs"))? {
        let (SqlValue(hash), is_marked) = row
            .get(0)
            .and_then(|hash: SqlValue<BlobHash>| Ok((hash, row.get::<_, bool>(1)?)))
            .map_err(failed("read a blob's row"))?;
        if is_marked {
            copied.damaged += 1;
            continue;
        }
        let (from, to) = (live.blob(hash), copy.blob(hash));
        let mut result = copy_blob(hash, &from, &to)?;
        if result == BlobCopyResult::Missing {
            let still_exists = has_blob(&live_database, hash)
                .map_err(|source| database_error("look for a blob", source, live.root()))?;
            if !still_exists {
                removed.push(hash);
                continue;
            }
            // The blob may have been removed and put again since.
            result = copy_blob(hash, &from, &to)?;
        }
        match result {
            BlobCopyResult::Copied { bytes } => {
                copied.blobs += 1;
                copied.blob_bytes += bytes;
            }
            BlobCopyResult::Damaged | BlobCopyResult::Missing => {
                copied.damaged += 1;
                damaged.push(hash);
            }
        }
    }
    drop(rows);
    drop(statement);
    for hash in removed {
        database
            .execute("DELETE FROM blobs WHERE hash = ?1", [SqlValue(hash)])
            .map_err(failed("delete the row of a removed blob"))?;
    }
    // Schema version 1 has no such column. After the migration, the scan of the blobs marks them.
    if has_damaged_column {
        for hash in damaged {
            database
                .execute("UPDATE blobs SET damaged = 1 WHERE hash = ?1", [SqlValue(hash)])
                .map_err(failed("mark a damaged blob"))?;
        }
    }
    sync_blob_subfolders(&copy.blobs())?;
    Ok(copied)
}

/// Works with every schema version.
fn has_blob(database: &Connection, hash: BlobHash) -> rusqlite::Result<bool> {
    database
        .prepare_cached("SELECT 1 FROM blobs WHERE hash = ?1")
        .and_then(|mut statement| statement.exists([SqlValue(hash)]))
}

/// The result of copying one blob into the backup of a SQLite store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlobCopyResult {
    Copied { bytes: u64 },
    Damaged,
    Missing,
}

/// Copies the bytes instead of linking the file, because a backup must not change with the live file. Removes a damaged
/// copy.
fn copy_blob(hash: BlobHash, from: &Path, to: &Path) -> Result<BlobCopyResult, StoreError> {
    let mut source = match File::open(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BlobCopyResult::Missing),
        opened => opened.map_err(io_error("open the blob", from))?,
    };
    if let Some(subfolder) = to.parent() {
        match DirBuilder::new().mode(0o700).create(subfolder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(io_error("create the folder", subfolder)(error));
            }
            _ => {}
        }
    }
    let mut copy = create(to)?;
    let mut hasher = model::BlobHasher::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = 0_u64;
    let is_readable = loop {
        let read = match source.read(&mut chunk) {
            Ok(0) => break true,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if is_unreadable_sector(&error) => break false,
            Err(error) => return Err(io_error("read the blob", from)(error)),
        };
        hasher.update(&chunk[..read]);
        copy.write_all(&chunk[..read])
            .map_err(io_error("write the blob", to))?;
        bytes += read as u64;
    };
    if !is_readable || hasher.finish() != hash {
        fs::remove_file(to).map_err(io_error("remove", to))?;
        return Ok(BlobCopyResult::Damaged);
    }
    copy.sync_all().map_err(io_error("sync the blob", to))?;
    Ok(BlobCopyResult::Copied { bytes })
}

fn copy_extra_file(from: &Path, staging: &Path) -> Result<(), StoreError> {
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

fn sync_blob_subfolders(blobs: &Path) -> Result<(), StoreError> {
    let failed = || io_error("list the folder", blobs);
    for subfolder in fs::read_dir(blobs).map_err(failed())? {
        sync_folder(&subfolder.map_err(failed())?.path())?;
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

/// Checkpoints the WAL before closing, so that the copy is one file.
fn close(database: Connection, copy: &StoreFolder) -> Result<(), StoreError> {
    let failed = |step| move |source| database_error(step, source, copy.root());
    database
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .map_err(failed("finish the copy"))?;
    database
        .close()
        .map_err(|(_, source)| failed("close the copy")(source))
}
