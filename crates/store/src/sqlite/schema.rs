//! The tables, and how an older store is brought up to them.

use rusqlite::{Connection, TransactionBehavior};

use super::failure::database_error;
use super::folder::Folder;
use crate::StoreError;

/// Applied in order, each in its own transaction; a store's version is the number of those it has seen.
/// One that was ever released is never changed, only followed by another.
const MIGRATIONS: [&str; 1] = [include_str!("schema/1.sql")];

pub(super) fn migrate(connection: &mut Connection, folder: &Folder) -> Result<(), StoreError> {
    let failed = |step| move |source| database_error(step, source, folder.root());
    let found: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(failed("read the schema version"))?;
    let known = MIGRATIONS.len() as i64;
    if found > known {
        return Err(StoreError::TooNew {
            path: folder.root().to_path_buf(),
            found,
            known,
        });
    }
    if found <= 0 {
        refuse_foreign(connection, folder)?;
    }
    for (version, migration) in (1..).zip(MIGRATIONS).skip(usize::try_from(found).unwrap_or(0)) {
        let step = "migrate the schema";
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed(step))?;
        transaction.execute_batch(migration).map_err(failed(step))?;
        transaction
            .pragma_update(None, "user_version", version)
            .map_err(failed(step))?;
        transaction.commit().map_err(failed(step))?;
    }
    Ok(())
}

/// A database without a version must be an empty one: anything else is another program's.
fn refuse_foreign(connection: &Connection, folder: &Folder) -> Result<(), StoreError> {
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|source| database_error("read the schema", source, folder.root()))?;
    if tables == 0 {
        return Ok(());
    }
    Err(StoreError::Corrupt {
        path: folder.root().to_path_buf(),
        detail: "tasks.db has no schema version but holds tables, so another program wrote it".into(),
    })
}
