//! Scanning the blobs: what is there to be read through, and files that no row names.
//!
//! Such a file is left by a crash between the commit that removes its row and the removal of the file.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::RangeInclusive;

use model::BlobHash;
use rusqlite::{Connection, Row};

use super::column::Column;
use super::failure::{During, Failure};
use super::folder::{Folder, io_error};
use super::group::Group;
use super::rows::readable_blob;
use crate::StoreError;
use crate::set_aside::SetAside;

/// The hashes of the files in a shelf. What has another kind of name is not the store's, and is left alone.
pub(super) fn files(folder: &Folder, first_byte: u8) -> Result<Vec<BlobHash>, StoreError> {
    let shelf = folder.shelf(first_byte);
    let entries = match fs::read_dir(&shelf) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(io_error("list the folder", &shelf)(error)),
    };
    let mut files = vec![];
    for entry in entries {
        let name = entry.map_err(io_error("list the folder", &shelf))?.file_name();
        let whole = name.to_str().map(|rest| format!("{first_byte:02x}{rest}"));
        files.extend(whole.and_then(|whole| whole.parse::<BlobHash>().ok()));
    }
    Ok(files)
}

/// What the database says of a shelf.
pub(super) struct Rows {
    /// Whether each is known to be damaged.
    pub(super) blobs: BTreeMap<BlobHash, bool>,
    pub(super) all_readable: bool,
}

pub(super) fn rows(connection: &Connection, first_byte: u8, set_aside: &SetAside) -> Result<Rows, Failure> {
    const STEP: &str = "list blobs";
    let range = range(first_byte);
    let mut statement = connection.prepare_cached(SHELF).during(STEP)?;
    let mut rows = statement
        .query((Column(*range.start()), Column(*range.end())))
        .during(STEP)?;
    let mut shelf = Rows {
        blobs: BTreeMap::new(),
        all_readable: true,
    };
    let read = |row: &Row<'_>| Ok((row.get::<_, Column<BlobHash>>(0)?.0, row.get(1)?));
    while let Some(row) = rows.next().during(STEP)? {
        match readable_blob(row, read(row), set_aside).during(STEP)? {
            Some((hash, damaged)) => drop(shelf.blobs.insert(hash, damaged)),
            None => shelf.all_readable = false,
        }
    }
    Ok(shelf)
}

const SHELF: &str = "SELECT hash, damaged FROM blobs WHERE hash BETWEEN ?1 AND ?2";

pub(super) fn damaged(connection: &Connection) -> Result<u64, Failure> {
    const STEP: &str = "count damaged blobs";
    connection
        .prepare_cached(DAMAGED)
        .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)))
        .map(|count| u64::try_from(count).unwrap_or(0))
        .during(STEP)
}

const DAMAGED: &str = "SELECT count(*) FROM blobs WHERE damaged = 1";

/// Removes the files that still have no row. A put has its row in the same group as its file, or has had it in an
/// earlier one, so nothing that is being put is taken for an orphan.
pub(super) fn remove_orphans(group: &mut Group<'_>, files: &[BlobHash]) -> Result<usize, Failure> {
    let mut removed = 0;
    for hash in files {
        if super::blobs::find(group.connection(), *hash)?.is_none() {
            tracing::warn!(%hash, "removed the file of a blob that does not exist; a crash has left it");
            group.doomed(*hash);
            removed += 1;
        }
    }
    Ok(removed)
}

fn range(first_byte: u8) -> RangeInclusive<BlobHash> {
    let end = |rest: u8| {
        let mut hash = [rest; 32];
        hash[0] = first_byte;
        BlobHash(hash)
    };
    end(0)..=end(0xff)
}

#[cfg(test)]
mod tests {
    use super::{DAMAGED, SHELF};
    use crate::sqlite::schema::tests::{database, plan};

    #[test]
    fn a_shelf_and_damage_are_found_without_a_scan() {
        let check = |sql: &str, expected: &str| assert_eq!(plan(&database(), sql), expected);
        check(SHELF, "SEARCH blobs USING PRIMARY KEY (hash>? AND hash<?)");
        check(DAMAGED, "SCAN blobs USING COVERING INDEX blobs_damaged");
    }
}
