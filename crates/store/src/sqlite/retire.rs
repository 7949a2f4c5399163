//! Retention: removing tasks that were done long ago, and blobs that nothing needs any more.

use model::{Age, BlobHash};

use super::column::Column;
use super::failure::{During, Failure};
use super::group::Group;
use super::rows::{position_columns, readable, readable_blob, to_position};
use crate::Retired;

#[derive(Clone, Copy, Debug)]
pub(super) struct Retention {
    pub(super) done_before: Age,
    pub(super) unused_since: Age,
    pub(super) limit: u32,
}

const DONE: &str = concat!(
    "SELECT ",
    position_columns!(),
    " FROM tasks WHERE finish_age < ?1 ORDER BY finish_age"
);
const IDLE: &str = "SELECT hash FROM blobs WHERE refs = 0 AND used_age < ?1 ORDER BY used_age";

pub(super) fn retire(group: &mut Group<'_>, retention: Retention) -> Result<Retired, Failure> {
    Ok(Retired {
        tasks: retire_tasks(group, retention)?,
        blobs: retire_blobs(group, retention)?,
    })
}

fn retire_tasks(group: &mut Group<'_>, retention: Retention) -> Result<usize, Failure> {
    const STEP: &str = "retire tasks";
    let mut statement = group.statement(DONE, STEP)?;
    let mut rows = statement.query([Column(retention.done_before)]).during(STEP)?;
    let mut done = vec![];
    // What cannot be read stays, and does not count.
    while done.len() < retention.limit as usize
        && let Some(row) = rows.next().during(STEP)?
    {
        done.extend(readable(row, to_position(row), group.set_aside()).during(STEP)?);
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
            group.statement(sql, STEP)?.execute([task.seq]).during(STEP)?;
        }
        group.removed(task.status);
    }
    Ok(done.len())
}

/// Rows first, files after the commit: the other way round, a crash would leave a row without its file.
fn retire_blobs(group: &mut Group<'_>, retention: Retention) -> Result<usize, Failure> {
    const STEP: &str = "retire blobs";
    let mut statement = group.statement(IDLE, STEP)?;
    let mut rows = statement.query([Column(retention.unused_since)]).during(STEP)?;
    let mut idle = vec![];
    // What cannot be read stays, and does not count.
    while idle.len() < retention.limit as usize
        && let Some(row) = rows.next().during(STEP)?
    {
        idle.extend(readable_blob(row, row.get::<_, Column<BlobHash>>(0), group.set_aside()).during(STEP)?);
    }
    drop(rows);
    drop(statement);
    let count = idle.len();
    for hash in idle {
        group
            .statement("DELETE FROM blobs WHERE hash = ?1", STEP)?
            .execute([hash])
            .during(STEP)?;
        group.doomed(hash.0);
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::{DONE, IDLE};
    use crate::sqlite::schema::tests::{database, plan};

    #[test]
    fn what_is_to_go_is_found_without_a_scan() {
        let check = |sql: &str, expected: &str| assert_eq!(plan(&database(), sql), expected);
        check(DONE, "SEARCH tasks USING INDEX tasks_done (finish_age<?)");
        check(IDLE, "SEARCH blobs USING COVERING INDEX blobs_idle (used_age<?)");
    }
}
