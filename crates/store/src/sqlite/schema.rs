//! The database schema and its migrations.

use model::TaskResult;
use rusqlite::{Connection, TransactionBehavior};

use super::failure::database_error;
use super::store_folder::StoreFolder;
use crate::StoreError;
use crate::document::decode_result;

/// Applied in order, each in its own transaction. The schema version of a store is the number of migrations it has. A
/// released migration is never changed; a further change is a new migration.
const MIGRATIONS: [&str; 10] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
    include_str!("schema/6.sql"),
    include_str!("schema/7.sql"),
    include_str!("schema/8.sql"),
    include_str!("schema/9.sql"),
    include_str!("schema/10.sql"),
];

/// The version since which the table `tasks` has the reasons of outcomes.
const REASONS_VERSION: i64 = 6;

/// Returns the schema version, or an error if this program cannot open it. Writes nothing.
pub(super) fn supported_version(connection: &Connection, folder: &StoreFolder) -> Result<usize, StoreError> {
    let found: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|source| database_error("read the schema version", source, folder.root()))?;
    let known = MIGRATIONS.len() as i64;
    if found > known {
        return Err(StoreError::SchemaTooNew {
            path: folder.root().to_path_buf(),
            found,
            known,
        });
    }
    if found <= 0 {
        refuse_foreign_database(connection, folder)?;
    }
    Ok(usize::try_from(found).unwrap_or(0))
}

pub(super) fn migrate(connection: &mut Connection, found: usize) -> rusqlite::Result<()> {
    for (version, migration) in (1_i64..).zip(MIGRATIONS).skip(found) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(migration)?;
        if version == REASONS_VERSION {
            fill_in_reasons(&transaction)?;
        }
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    Ok(())
}

/// Fills in the reasons of tasks that earlier versions have finished. Results that cannot be decoded are left out.
fn fill_in_reasons(connection: &Connection) -> rusqlite::Result<()> {
    let mut results = connection.prepare("SELECT seq, result FROM results")?;
    let mut update = connection.prepare("UPDATE tasks SET reason = ?2 WHERE seq = ?1")?;
    let mut rows = results.query([])?;
    while let Some(row) = rows.next()? {
        let result = row.get_ref(1)?.as_blob().ok();
        let result = result.and_then(|result| decode_result(result).ok());
        if let Some(outcome) = result.as_ref().and_then(TaskResult::last_outcome) {
            update.execute((row.get::<_, i64>(0)?, outcome.reason.as_str()))?;
        }
    }
    Ok(())
}

/// A database with tables but without a schema version belongs to another program.
fn refuse_foreign_database(connection: &Connection, folder: &StoreFolder) -> Result<(), StoreError> {
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|source| database_error("read the schema", source, folder.root()))?;
    if tables == 0 {
        return Ok(());
    }
    Err(StoreError::Corrupt {
        path: folder.root().to_path_buf(),
        detail: "tasks.db has tables but no schema version, so another program wrote it".into(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sqlite::rows::HELD_BY_EXECUTOR;

    /// An empty database in memory.
    pub(in crate::sqlite) fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        MIGRATIONS
            .iter()
            .for_each(|migration| connection.execute_batch(migration).unwrap());
        connection
    }

    /// The plan that SQLite chooses for a query.
    pub(in crate::sqlite) fn query_plan(connection: &Connection, sql: &str) -> String {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        // The plan does not depend on the values of the parameters, so they stay unbound.
        let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3));
        steps.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
    }

    #[test]
    fn held_tasks_are_found_by_an_index() {
        let connection = database();
        // The tasks of one executor are few, so they may be sorted.
        let held = query_plan(&connection, HELD_BY_EXECUTOR);
        assert_eq!(
            held,
            "SEARCH tasks USING INDEX tasks_held (executor=?); USE TEMP B-TREE FOR ORDER BY"
        );
    }
}
