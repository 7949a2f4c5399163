//! Retention: removes tasks that were done long ago, and blobs that no task uses.

use model::{BlobHash, StoreAge};

use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use super::rows::{read_task_state, skip_unreadable_blob, skip_unreadable_task, task_state_columns};
use super::sql_value::SqlValue;
use crate::RetentionSummary;

/// The arguments of `TaskStore::apply_retention` on their way to the SQLite writer thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetentionRequest {
    pub(super) done_before: StoreAge,
    pub(super) unused_since: StoreAge,
    pub(super) limit: u32,
}

const DONE_TASKS: &str = concat!(
    "SELECT ",
    task_state_columns!(),
    " FROM tasks WHERE finish_age < ?1 ORDER BY finish_age"
);
const UNUSED_BLOBS: &str = "SELECT hash FROM blobs WHERE refs = 0 AND used_age < ?1 ORDER BY used_age";

pub(super) fn apply(
    transaction: &mut GroupTransaction<'_>,
    request: RetentionRequest,
) -> Result<RetentionSummary, SqliteFailure> {
    Ok(RetentionSummary {
        tasks: remove_tasks(transaction, request)?,
        blobs: remove_blobs(transaction, request)?,
    })
}

fn remove_tasks(
    transaction: &mut GroupTransaction<'_>,
    request: RetentionRequest,
) -> Result<usize, SqliteFailure> {
    const STEP: &str = "remove old tasks";
    let mut statement = transaction.statement(DONE_TASKS, STEP)?;
    let mut rows = statement.query([SqlValue(request.done_before)]).during(STEP)?;
    let mut done = vec![];
    // Unreadable rows are kept and do not count towards the limit.
    while done.len() < request.limit as usize
        && let Some(row) = rows.next().during(STEP)?
    {
        let task = read_task_state(row);
        done.extend(skip_unreadable_task(row, task, transaction.unreadable_rows()).during(STEP)?);
    }
    drop(rows);
    drop(statement);
    for task in &done {
        for sql in [
            "UPDATE blobs SET refs = refs - 1 WHERE hash IN (SELECT hash FROM blob_refs WHERE seq = ?1)",
            "DELETE FROM blob_refs WHERE seq = ?1",
            "DELETE FROM results WHERE seq = ?1",
            "DELETE FROM specs WHERE seq = ?1",
            "DELETE FROM tasks WHERE seq = ?1",
        ] {
            transaction
                .statement(sql, STEP)?
                .execute([SqlValue(task.add_time)])
                .during(STEP)?;
        }
        transaction.record_removed(task.status);
    }
    Ok(done.len())
}

/// Deletes the rows now and the files after the commit. In the opposite order, a crash would leave a row without its
/// file.
fn remove_blobs(
    transaction: &mut GroupTransaction<'_>,
    request: RetentionRequest,
) -> Result<usize, SqliteFailure> {
    const STEP: &str = "remove unused blobs";
    let mut statement = transaction.statement(UNUSED_BLOBS, STEP)?;
    let mut rows = statement.query([SqlValue(request.unused_since)]).during(STEP)?;
    let mut unused = vec![];
    // Unreadable rows are kept and do not count towards the limit.
    while unused.len() < request.limit as usize
        && let Some(row) = rows.next().during(STEP)?
    {
        let hash = row.get::<_, SqlValue<BlobHash>>(0);
        unused.extend(skip_unreadable_blob(row, hash, transaction.unreadable_rows()).during(STEP)?);
    }
    drop(rows);
    drop(statement);
    let count = unused.len();
    for hash in unused {
        transaction
            .statement("DELETE FROM blobs WHERE hash = ?1", STEP)?
            .execute([hash])
            .during(STEP)?;
        transaction.remove_blob_file_after_commit(hash.0);
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::{DONE_TASKS, UNUSED_BLOBS};
    use crate::sqlite::schema::tests::{database, query_plan};

    #[test]
    fn retention_finds_its_rows_by_an_index() {
        let check = |sql: &str, expected: &str| assert_eq!(query_plan(&database(), sql), expected);
        check(DONE_TASKS, "SEARCH tasks USING INDEX tasks_done (finish_age<?)");
        check(
            UNUSED_BLOBS,
            "SEARCH blobs USING COVERING INDEX blobs_idle (used_age<?)",
        );
    }
}
