//! The tables, and how an older store is brought up to them.

use rusqlite::{Connection, TransactionBehavior};

use super::failure::database_error;
use super::folder::Folder;
use crate::StoreError;

/// Applied in order, each in its own transaction; a store's version is the number of those it has seen.
/// One that was ever released is never changed, only followed by another.
const MIGRATIONS: [&str; 5] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
];

/// Answers the version, if it is one that can be opened. Nothing is written before this is known.
pub(super) fn check(connection: &Connection, folder: &Folder) -> Result<usize, StoreError> {
    let found: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|source| database_error("read the schema version", source, folder.root()))?;
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
    Ok(usize::try_from(found).unwrap_or(0))
}

pub(super) fn migrate(connection: &mut Connection, found: usize) -> rusqlite::Result<()> {
    for (version, migration) in (1_i64..).zip(MIGRATIONS).skip(found) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sqlite::rows::{HELD, WAITING};

    pub(in crate::sqlite) fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        MIGRATIONS
            .iter()
            .for_each(|migration| connection.execute_batch(migration).unwrap());
        connection
    }

    /// How SQLite would go about a query.
    pub(in crate::sqlite) fn plan(connection: &Connection, sql: &str) -> String {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        // Without values for the parameters: the plan does not depend on them.
        let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3));
        steps.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
    }

    #[test]
    fn the_queue_and_the_holdings_are_never_scanned() {
        let connection = database();
        assert_eq!(plan(&connection, WAITING), "SCAN tasks USING INDEX tasks_waiting");
        let held = plan(&connection, HELD);
        assert_eq!(
            held,
            "SEARCH tasks USING INDEX tasks_held (executor=? AND session=?)"
        );
    }
}
