//! Opens connections to the database, for the writer thread or for a reader.

use rusqlite::{Connection, OpenFlags};

use super::failure::database_error;
use super::schema;
use super::store_folder::StoreFolder;
use crate::StoreError;

/// The caches are small: the operating system caches the file anyway, and the memory of the store must not grow with
/// the number of tasks. After a complete checkpoint SQLite truncates the WAL to `journal_size_limit`. The writer
/// thread runs the checkpoints (see `writer/checkpoint.rs`), so SQLite must not run them within a commit.
const WRITER_PRAGMAS: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA cache_size = -16384;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA temp_store = MEMORY;
";

const READER_PRAGMAS: &str = "
    PRAGMA cache_size = -4096;
    PRAGMA temp_store = MEMORY;
";

pub(super) fn writer(folder: &StoreFolder) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = open(folder, flags)?;
    let version = schema::supported_version(&connection, folder)?;
    connection
        .execute_batch(WRITER_PRAGMAS)
        .map_err(|source| database_error("set up the writer's connection", source, folder.root()))?;
    schema::migrate(&mut connection, version)
        .map_err(|source| database_error("migrate the schema", source, folder.root()))?;
    Ok(connection)
}

pub(super) fn reader(folder: &StoreFolder) -> Result<Connection, StoreError> {
    let connection = open(folder, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection
        .execute_batch(READER_PRAGMAS)
        .map_err(|source| database_error("set up a reader's connection", source, folder.root()))?;
    Ok(connection)
}

fn open(folder: &StoreFolder, flags: OpenFlags) -> Result<Connection, StoreError> {
    // Only one thread at a time uses a connection, so SQLite needs no mutex for it.
    let connection = Connection::open_with_flags(folder.database(), flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|source| database_error("open the database", source, folder.root()))?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}
