//! Connections to the database, set up for the writer or for a reader.

use rusqlite::{Connection, OpenFlags};

use super::failure::database_error;
use super::folder::Folder;
use super::schema;
use crate::StoreError;

/// Caches are small: the operating system caches the file anyway, and the store must stay small in memory
/// however many tasks there are. The log is cut back to `journal_size_limit` once it has been written home.
/// The writer checkpoints by itself (see `writer`), so SQLite must not do it within a commit.
const WRITER: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA cache_size = -16384;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA temp_store = MEMORY;
";

const READER: &str = "
    PRAGMA cache_size = -4096;
    PRAGMA temp_store = MEMORY;
";

pub(super) fn writer(folder: &Folder) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = open(folder, flags)?;
    let version = schema::check(&connection, folder)?;
    connection
        .execute_batch(WRITER)
        .map_err(|source| database_error("set up the writer's connection", source, folder.root()))?;
    schema::migrate(&mut connection, version)
        .map_err(|source| database_error("migrate the schema", source, folder.root()))?;
    Ok(connection)
}

pub(super) fn reader(folder: &Folder) -> Result<Connection, StoreError> {
    let connection = open(folder, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection
        .execute_batch(READER)
        .map_err(|source| database_error("set up a reader's connection", source, folder.root()))?;
    Ok(connection)
}

fn open(folder: &Folder, flags: OpenFlags) -> Result<Connection, StoreError> {
    // Each connection is used by one thread at a time, so it needs no lock of its own.
    let connection = Connection::open_with_flags(folder.database(), flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|source| database_error("open the database", source, folder.root()))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}
