//! Retention: removing tasks that were done long ago, and blobs that nothing needs any more.

use model::{BlobHash, Moment};

use super::column::Column;
use super::failure::{During, Failure};
use super::group::Group;
use super::rows::{POSITION, readable, to_position};
use crate::Retired;

#[derive(Clone, Copy, Debug)]
pub(super) struct Retention {
    pub(super) done_before: Moment,
    pub(super) unused_since: Moment,
    pub(super) limit: u32,
}

pub(super) fn retire(group: &mut Group<'_>, retention: Retention) -> Result<Retired, Failure> {
    Ok(Retired {
        tasks: retire_tasks(group, retention)?,
        blobs: retire_blobs(group, retention)?,
    })
}

fn retire_tasks(group: &mut Group<'_>, retention: Retention) -> Result<usize, Failure> {
    const STEP: &str = "retire tasks";
    let mut statement = group.statement(
        &format!("SELECT {POSITION} FROM tasks WHERE finish_time < ?1 ORDER BY finish_time"),
        STEP,
    )?;
    let mut rows = statement.query([Column(retention.done_before)]).during(STEP)?;
    let mut done = vec![];
    // What cannot be read stays, and does not count.
    while done.len() < retention.limit as usize
        && let Some(row) = rows.next().during(STEP)?
    {
        done.extend(readable(row, to_position(row), group.set_aside()).during(STEP)?);
    }
    drop(rows);
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
    let idle: Vec<Column<BlobHash>> = group
        .statement(
            "SELECT hash FROM blobs WHERE refs = 0 AND used < ?1 ORDER BY used LIMIT ?2",
            STEP,
        )?
        .query_map((Column(retention.unused_since), retention.limit), |row| {
            row.get(0)
        })
        .and_then(Iterator::collect)
        .during(STEP)?;
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
