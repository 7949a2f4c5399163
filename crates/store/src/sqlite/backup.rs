//! A consistent copy of the store, made by another process while the node goes on writing.
//!
//! The database is copied as it was at one moment: a read transaction keeps that moment, and in WAL mode nobody waits
//! for it. Then come the blobs that the copy names. The copy is a data folder of its own and appears under its name
//! only when all of it is on disk.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::BlobHash;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use thiserror::Error;

use super::column::Column;
use super::failure::database_error;
use super::folder::{Folder, io_error, sync_folder};
use super::{blobs, connect, schema};
use crate::StoreError;

/// What a backup holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackedUp {
    pub tasks: u64,
    pub blobs: u64,
    pub database_bytes: u64,
    pub blob_bytes: u64,
}

#[derive(Debug, Error)]
pub enum BackupError {
    #[error("{path} is not empty; name a folder that does not exist yet")]
    NotEmpty { path: PathBuf },
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
    #[error("the blob {hash} is missing from the store: {path} does not exist")]
    MissingBlob { hash: BlobHash, path: PathBuf },
    #[error("the blob {hash} is damaged: {path} has {actual} bytes, and {expected} were put")]
    BlobSize {
        hash: BlobHash,
        path: PathBuf,
        expected: u64,
        actual: u64,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Pages that are copied at a time: 4 MiB.
const PAGES: i32 = 1024;
/// How long the database may be busy, for example because a crashed store is being recovered.
const PATIENCE: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(50);

/// Copies the store in the folder `store` to `target/store`, so that `target` can be used as a data folder.
pub fn backup(store: &Path, target: &Path) -> Result<BackedUp, BackupError> {
    let live = Folder::at(store);
    if !live.database().exists() {
        return Err(BackupError::NoStore {
            path: store.to_path_buf(),
        });
    }
    refuse_non_empty(target)?;
    let staging = staging(target);
    match DirBuilder::new().mode(0o755).create(&staging) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(BackupError::Unfinished { path: staging });
        }
        made => made.map_err(io_error("create the folder", &staging))?,
    }
    let copied = copy(&live, &staging).and_then(|copied| {
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

fn refuse_non_empty(target: &Path) -> Result<(), BackupError> {
    match fs::read_dir(target) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(BackupError::NotEmpty {
                path: target.to_path_buf(),
            }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_error("look into", target)(error).into()),
    }
}

/// `DIR.new` beside `DIR`, so that the rename stays on one file system.
fn staging(target: &Path) -> PathBuf {
    let mut name: OsString = target.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    target.with_file_name(name)
}

fn copy(live: &Folder, staging: &Path) -> Result<BackedUp, BackupError> {
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

/// Those that the copy names. One that was retired meanwhile is no longer named by the live database: the copy forgets it
/// as well, for a node would take it to be there.
fn copy_blobs(live: &Folder, copy: &Folder, database: &Connection) -> Result<BackedUp, BackupError> {
    let failed = |step| move |source| database_error(step, source, copy.root());
    let now = connect::reader(live)?;
    let mut copied = BackedUp::default();
    let mut retired = Vec::new();
    let mut statement = database
        .prepare("SELECT hash, size FROM blobs")
        .map_err(failed("list the blobs"))?;
    let mut rows = statement.query([]).map_err(failed("list the blobs"))?;
    while let Some(row) = rows.next().map_err(failed("list the blobs"))? {
        let (Column(hash), size) = row
            .get(0)
            .and_then(|hash: Column<BlobHash>| Ok((hash, row.get::<_, i64>(1)?)))
            .map_err(failed("read a blob's row"))?;
        let expected = u64::try_from(size).unwrap_or(0);
        let path = live.blob(hash);
        match copy_blob(&path, &copy.blob(hash)) {
            Ok(actual) if actual == expected => {
                copied.blobs += 1;
                copied.blob_bytes += actual;
            }
            Ok(actual) => {
                return Err(BackupError::BlobSize {
                    hash,
                    path,
                    expected,
                    actual,
                });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.exists() => {
                let named = blobs::find(&now, hash).map_err(|failure| failure.into_error(live.root()))?;
                if named.is_some() {
                    return Err(BackupError::MissingBlob { hash, path });
                }
                retired.push(hash);
            }
            Err(error) => return Err(io_error("copy the blob", &path)(error).into()),
        }
    }
    drop(rows);
    drop(statement);
    for hash in retired {
        database
            .execute("DELETE FROM blobs WHERE hash = ?1", [Column(hash)])
            .map_err(failed("forget a retired blob"))?;
    }
    sync_shelves(&copy.blobs())?;
    Ok(copied)
}

/// A blob never changes, so on the same file system a second name for it is a copy. Answers its size.
fn copy_blob(from: &Path, to: &Path) -> io::Result<u64> {
    if let Some(shelf) = to.parent() {
        match DirBuilder::new().mode(0o700).create(shelf) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    // Another file system, a user who does not own the file, too many names: then the bytes are copied.
    if fs::hard_link(from, to).is_err() {
        fs::copy(from, to)?;
        File::open(to)?.sync_all()?;
    }
    Ok(fs::metadata(to)?.len())
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
