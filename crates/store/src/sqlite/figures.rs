//! The history: the figures of minutes, and the oldest task in the queue.

use std::ops::Range;

use async_trait::async_trait;
use model::{HistoryMinute, TaskStatus, UnixTime};
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use super::sql_value::SqlValue;
use super::{SMALL_OPERATION_BYTES, SqliteStore};
use crate::document::{decode_figures, encode_figures};
use crate::unreadable_rows::UnreadableRows;
use crate::{EndsWithoutResult, HistoryStore, StoreError, WrittenFigures};

#[async_trait]
impl HistoryStore for SqliteStore {
    async fn oldest_queued(&self) -> Result<Option<UnixTime>, StoreError> {
        self.short_reads
            .read(|connection| find_oldest_queued(connection))
            .await
    }

    fn ends_without_result(&self) -> EndsWithoutResult {
        self.writer.ends_without_result()
    }

    async fn put_figures(&self, written: Vec<WrittenFigures>) -> Result<(), StoreError> {
        let rows = written.iter().map(EncodedFigures::encode);
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        self.writer
            .submit(rows.len() * SMALL_OPERATION_BYTES, move |transaction| {
                put_rows(transaction, &rows)
            })
            .await
    }

    async fn figures(&self, minutes: Range<HistoryMinute>) -> Result<Vec<WrittenFigures>, StoreError> {
        let folder = self.folder.clone();
        self.short_reads
            .read(move |connection| read_rows(connection, minutes, folder.unreadable_rows()))
            .await
    }

    async fn remove_figures(&self, before: HistoryMinute) -> Result<(), StoreError> {
        self.writer
            .submit(SMALL_OPERATION_BYTES, move |transaction| {
                remove_rows(transaction, before)
            })
            .await
    }
}

/// Figures of a minute for the SQLite store, already encoded, so that the writer thread has less to do.
struct EncodedFigures {
    minute: HistoryMinute,
    writer: Uuid,
    figures: Vec<u8>,
}

impl EncodedFigures {
    fn encode(written: &WrittenFigures) -> Result<EncodedFigures, StoreError> {
        Ok(EncodedFigures {
            minute: written.minute,
            writer: written.writer,
            figures: encode_figures(&written.figures)?,
        })
    }
}

fn put_rows(transaction: &mut GroupTransaction<'_>, figures: &[EncodedFigures]) -> Result<(), SqliteFailure> {
    const STEP: &str = "write figures";
    let mut write = transaction.statement(
        "INSERT OR REPLACE INTO figures (minute, writer, figures) VALUES (?1, ?2, ?3)",
        STEP,
    )?;
    for row in figures {
        write
            .execute((row.minute.0, row.writer.as_bytes(), &row.figures))
            .during(STEP)?;
    }
    Ok(())
}

/// Figures that cannot be read are left out.
fn read_rows(
    connection: &Connection,
    minutes: Range<HistoryMinute>,
    unreadable_rows: &UnreadableRows,
) -> Result<Vec<WrittenFigures>, SqliteFailure> {
    const STEP: &str = "read figures";
    let mut statement = connection
        .prepare_cached(
            "SELECT minute, writer, figures FROM figures WHERE minute >= ?1 AND minute < ?2
             ORDER BY minute, writer",
        )
        .during(STEP)?;
    let mut rows = statement.query((minutes.start.0, minutes.end.0)).during(STEP)?;
    let mut found = vec![];
    while let Some(row) = rows.next().during(STEP)? {
        let minute = HistoryMinute(row.get(0).during(STEP)?);
        let writer: Vec<u8> = row.get(1).during(STEP)?;
        let figures: Vec<u8> = row.get(2).during(STEP)?;
        match (Uuid::from_slice(&writer), decode_figures(&figures)) {
            (Ok(writer), Ok(figures)) => found.push(WrittenFigures {
                minute,
                writer,
                figures,
            }),
            (Err(problem), _) => {
                unreadable_rows.record(format_args!("figures of minute {}", minute.0), problem)
            }
            (_, Err(problem)) => {
                unreadable_rows.record(format_args!("figures of minute {}", minute.0), problem)
            }
        }
    }
    Ok(found)
}

fn remove_rows(transaction: &mut GroupTransaction<'_>, before: HistoryMinute) -> Result<(), SqliteFailure> {
    const STEP: &str = "remove old figures";
    transaction
        .statement("DELETE FROM figures WHERE minute < ?1", STEP)?
        .execute([before.0])
        .map(drop)
        .during(STEP)
}

/// A queued task is pending or retrying. The index by status also contains the tasks with these statuses that executors
/// hold, so the read passes these. They are few: an executor holds little more than it has slots.
const OLDEST_QUEUED: &str =
    "SELECT seq FROM tasks WHERE status = ?1 AND executor IS NULL ORDER BY seq LIMIT 1";

fn find_oldest_queued(connection: &Connection) -> Result<Option<UnixTime>, SqliteFailure> {
    const STEP: &str = "look for the oldest task in the queue";
    let mut statement = connection.prepare_cached(OLDEST_QUEUED).during(STEP)?;
    let mut oldest: Option<UnixTime> = None;
    for status in [TaskStatus::Pending, TaskStatus::Retrying] {
        let found = statement
            .query_row([SqlValue(status)], |row| row.get(0).map(UnixTime))
            .optional()
            .during(STEP)?;
        oldest = [oldest, found].into_iter().flatten().min();
    }
    Ok(oldest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::schema::tests::{database, query_plan};

    #[test]
    fn the_oldest_task_in_the_queue_is_found_by_an_index() {
        let plan = query_plan(&database(), OLDEST_QUEUED);
        assert_eq!(plan, "SEARCH tasks USING INDEX tasks_by_status (status=?)");
    }
}
