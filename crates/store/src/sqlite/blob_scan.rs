//! Scans the blobs for a caller that verifies them, and removes orphaned files.
//!
//! A file without a row is orphaned. A crash leaves one between the commit that deletes the row and the removal of the
//! file.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::RangeInclusive;

use model::BlobHash;
use rusqlite::{Connection, Row};

use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use super::rows::skip_unreadable_blob;
use super::sql_value::SqlValue;
use super::store_folder::{StoreFolder, io_error};
use crate::StoreError;
use crate::unreadable_rows::UnreadableRows;

/// The hashes of the files in a subfolder. A file whose name is no hash does not belong to the store and is left alone.
pub(super) fn list_files(folder: &StoreFolder, first_byte: u8) -> Result<Vec<BlobHash>, StoreError> {
    let subfolder = folder.blob_subfolder(first_byte);
    let entries = match fs::read_dir(&subfolder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(io_error("list the folder", &subfolder)(error)),
    };
    let mut files = vec![];
    for entry in entries {
        let name = entry
            .map_err(io_error("list the folder", &subfolder))?
            .file_name();
        let hash = name.to_str().map(|rest| format!("{first_byte:02x}{rest}"));
        files.extend(hash.and_then(|hash| hash.parse::<BlobHash>().ok()));
    }
    Ok(files)
}

/// The SQLite rows of all blobs whose hash begins with one byte, as the blob scan reads them. These blobs have their
/// files in one subfolder.
pub(super) struct BlobRows {
    /// Whether each blob is marked as damaged.
    pub(super) damaged: BTreeMap<BlobHash, bool>,
    pub(super) all_readable: bool,
}

pub(super) fn list_rows(
    connection: &Connection,
    first_byte: u8,
    unreadable_rows: &UnreadableRows,
) -> Result<BlobRows, SqliteFailure> {
    const STEP: &str = "list blobs";
    let range = hash_range(first_byte);
    let mut statement = connection.prepare_cached(BLOBS_IN_RANGE).during(STEP)?;
    let mut rows = statement
        .query((SqlValue(*range.start()), SqlValue(*range.end())))
        .during(STEP)?;
    let mut blobs = BlobRows {
        damaged: BTreeMap::new(),
        all_readable: true,
    };
    let read = |row: &Row<'_>| Ok((row.get::<_, SqlValue<BlobHash>>(0)?.0, row.get(1)?));
    while let Some(row) = rows.next().during(STEP)? {
        match skip_unreadable_blob(row, read(row), unreadable_rows).during(STEP)? {
            Some((hash, damaged)) => drop(blobs.damaged.insert(hash, damaged)),
            None => blobs.all_readable = false,
        }
    }
    Ok(blobs)
}

const BLOBS_IN_RANGE: &str = "SELECT hash, damaged FROM blobs WHERE hash BETWEEN ?1 AND ?2";

pub(super) fn count_damaged(connection: &Connection) -> Result<u64, SqliteFailure> {
    const STEP: &str = "count damaged blobs";
    connection
        .prepare_cached(COUNT_DAMAGED)
        .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)))
        .map(|count| u64::try_from(count).unwrap_or(0))
        .during(STEP)
}

const COUNT_DAMAGED: &str = "SELECT count(*) FROM blobs WHERE damaged = 1";

/// Removes the files that still have no row, except those of blobs that are being put.
pub(super) fn remove_orphans(
    transaction: &mut GroupTransaction<'_>,
    files: &[BlobHash],
) -> Result<usize, SqliteFailure> {
    let mut removed = 0;
    for hash in files {
        let has_row = super::blobs::find(transaction.connection(), *hash)?.is_some();
        if !has_row && !transaction.folder().is_being_put(*hash) {
            tracing::warn!(%hash, "removed an orphaned blob file, left by a crash");
            transaction.remove_blob_file_after_commit(*hash);
            removed += 1;
        }
    }
    Ok(removed)
}

fn hash_range(first_byte: u8) -> RangeInclusive<BlobHash> {
    let end = |rest: u8| {
        let mut hash = [rest; 32];
        hash[0] = first_byte;
        BlobHash(hash)
    };
    end(0)..=end(0xff)
}

#[cfg(test)]
mod tests {
    use super::{BLOBS_IN_RANGE, COUNT_DAMAGED};
    use crate::sqlite::schema::tests::{database, query_plan};

    #[test]
    fn blobs_in_a_range_and_damaged_blobs_are_found_by_an_index() {
        let check = |sql: &str, expected: &str| assert_eq!(query_plan(&database(), sql), expected);
        check(
            BLOBS_IN_RANGE,
            "SEARCH blobs USING PRIMARY KEY (hash>? AND hash<?)",
        );
        check(COUNT_DAMAGED, "SCAN blobs USING COVERING INDEX blobs_damaged");
    }
}
