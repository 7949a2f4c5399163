//! Retention: removes tasks that were done long ago, and blobs that no task uses.

use model::{BlobHash, Labels, StoreAge, TaskForm, TaskState};
use rusqlite::OptionalExtension;

use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use super::rows::{read_task_state, skip_unreadable_blob, skip_unreadable_task, task_state_columns};
use super::sql_value::SqlValue;
use crate::{MAX_REFERENCES_REMOVED_AT_ONCE, RetentionSummary};

/// The arguments of `TaskStore::apply_retention` on their way to the SQLite writer thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetentionRequest {
    pub(super) done_before: StoreAge,
    pub(super) unused_since: StoreAge,
    pub(super) limit: u32,
}

/// Tasks of newer forms than ?2 are left to newer nodes: their results may refer to something that this program does not
/// know.
const DONE_TASKS: &str = concat!(
    "SELECT ",
    task_state_columns!(),
    " FROM tasks WHERE finish_age < ?1 AND form <= ?2 ORDER BY finish_age"
);
const REMOVE_LABEL: &str = "DELETE FROM labels WHERE owner = ?1 AND key = ?2 AND value = ?3 AND task = ?4";
const COUNT_REFERENCES: &str = "SELECT count(*) FROM blob_refs WHERE seq = ?1";
const UNUSED_BLOBS: &str = "SELECT hash FROM blobs WHERE refs = 0 AND used_age < ?1 ORDER BY used_age";

pub(super) fn apply(
    transaction: &mut GroupTransaction<'_>,
    request: RetentionRequest,
) -> Result<RetentionSummary, SqliteFailure> {
    let limit = request.limit as usize;
    let (tasks, references) = remove_tasks(transaction, request)?;
    let blobs = remove_blobs(transaction, request)?;
    Ok(RetentionSummary {
        tasks,
        blobs,
        more: tasks == limit || references >= MAX_REFERENCES_REMOVED_AT_ONCE || blobs == limit,
    })
}

/// Returns the numbers of removed tasks and of their references to blobs.
fn remove_tasks(
    transaction: &mut GroupTransaction<'_>,
    request: RetentionRequest,
) -> Result<(usize, usize), SqliteFailure> {
    const STEP: &str = "remove old tasks";
    let mut statement = transaction.statement(DONE_TASKS, STEP)?;
    let mut rows = statement
        .query((SqlValue(request.done_before), TaskForm::NEWEST.0))
        .during(STEP)?;
    let (mut done, mut references) = (vec![], 0);
    // Unreadable rows are kept and do not count towards the limit.
    while done.len() < request.limit as usize
        && references < MAX_REFERENCES_REMOVED_AT_ONCE
        && let Some(row) = rows.next().during(STEP)?
    {
        let task = read_task_state(row);
        if let Some(task) = skip_unreadable_task(row, task, transaction.unreadable_rows()).during(STEP)? {
            let counted: u32 = transaction
                .statement(COUNT_REFERENCES, STEP)?
                .query_row([SqlValue(task.add_time)], |row| row.get(0))
                .during(STEP)?;
            references += counted as usize;
            done.push(task);
        }
    }
    drop(rows);
    drop(statement);
    for task in &done {
        for sql in [
            "UPDATE blobs SET refs = refs - 1 WHERE hash IN (SELECT hash FROM blob_refs WHERE seq = ?1)",
            "DELETE FROM blob_refs WHERE seq = ?1",
            "DELETE FROM results WHERE seq = ?1",
            "DELETE FROM specs WHERE seq = ?1",
        ] {
            transaction
                .statement(sql, STEP)?
                .execute([SqlValue(task.add_time)])
                .during(STEP)?;
        }
        remove_task(transaction, task)?;
        transaction.record_removed(task);
    }
    Ok((done.len(), references))
}

/// Removes the row of the task and its labels.
fn remove_task(transaction: &GroupTransaction<'_>, task: &TaskState) -> Result<(), SqliteFailure> {
    const STEP: &str = "remove an old task";
    let removed: Option<(String, rusqlite::Result<SqlValue<Labels>>)> = transaction
        .statement("DELETE FROM tasks WHERE seq = ?1 RETURNING user, labels", STEP)?
        .query_row([SqlValue(task.add_time)], |row| Ok((row.get(0)?, row.get(1))))
        .optional()
        .during(STEP)?;
    // If the labels are unreadable, their rows stay. A search skips them.
    let Some((user, Ok(SqlValue(labels)))) = removed else {
        return Ok(());
    };
    for (key, value) in labels.iter() {
        transaction
            .statement(REMOVE_LABEL, STEP)?
            .execute((&user, key, value, SqlValue(task.add_time)))
            .during(STEP)?;
    }
    Ok(())
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
    use super::{COUNT_REFERENCES, DONE_TASKS, REMOVE_LABEL, UNUSED_BLOBS};
    use crate::sqlite::schema::tests::{database, query_plan};

    #[test]
    fn retention_finds_its_rows_by_an_index() {
        let check = |sql: &str, expected: &str| assert_eq!(query_plan(&database(), sql), expected);
        check(DONE_TASKS, "SEARCH tasks USING INDEX tasks_done (finish_age<?)");
        check(COUNT_REFERENCES, "SEARCH blob_refs USING PRIMARY KEY (seq=?)");
        check(
            UNUSED_BLOBS,
            "SEARCH blobs USING COVERING INDEX blobs_idle (used_age<?)",
        );
        check(
            REMOVE_LABEL,
            "SEARCH labels USING COVERING INDEX labels_of_all_users (key=? AND value=? AND task=? AND owner=?)",
        );
    }
}
