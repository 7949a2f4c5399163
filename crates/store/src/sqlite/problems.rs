//! Problems: the table `problems`, and the blobs that each of them names in `problem_blobs`.

use async_trait::async_trait;
use model::{
    BlobHash, JudgeProblem, ProblemEditor, ProblemName, ProblemRef, ProblemSummary, UnixTime, UserName,
};
use rusqlite::{Connection, OptionalExtension, Row};

use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use super::report::BLOB_REF_BYTES;
use super::sql_value::SqlValue;
use super::{SMALL_OPERATION_BYTES, SqliteStore, blobs};
use crate::document::{decode_problem, encode_problem};
use crate::unreadable_rows::UnreadableRows;
use crate::{ProblemBounds, ProblemStore, StoreError};

#[async_trait]
impl ProblemStore for SqliteStore {
    async fn put_problem(
        &self,
        problem: JudgeProblem,
        editor: ProblemEditor,
        bounds: ProblemBounds,
    ) -> Result<JudgeProblem, StoreError> {
        let put = EncodedProblem {
            encoded: encode_problem(&problem.limits, &problem.judging)?,
            blobs: problem.blobs(),
            problem,
        };
        let bytes = SMALL_OPERATION_BYTES + put.encoded.len() + put.blobs.len() * BLOB_REF_BYTES;
        self.writer
            .submit(bytes, move |transaction| write(transaction, put, &editor, bounds))
            .await
    }

    async fn problem(&self, name: ProblemName) -> Result<Option<JudgeProblem>, StoreError> {
        self.short_reads
            .read(move |connection| read(connection, &name))
            .await
    }

    async fn problems(&self) -> Result<Vec<ProblemSummary>, StoreError> {
        let folder = self.folder.clone();
        self.lists
            .read(move |connection| list(connection, folder.unreadable_rows()))
            .await
    }

    async fn remove_problem(&self, name: ProblemName, editor: ProblemEditor) -> Result<bool, StoreError> {
        self.writer
            .submit(SMALL_OPERATION_BYTES, move |transaction| {
                remove(transaction, &name, &editor)
            })
            .await
    }
}

/// A problem for the SQLite store, already encoded, so that the writer thread has less to do.
struct EncodedProblem {
    problem: JudgeProblem,
    encoded: Vec<u8>,
    /// Each once.
    blobs: Vec<BlobHash>,
}

/// The row of a problem in the SQLite store, as far as a replacement of it needs it.
struct ExistingProblem {
    id: i64,
    owner: UserName,
}

fn write(
    transaction: &mut GroupTransaction<'_>,
    put: EncodedProblem,
    editor: &ProblemEditor,
    bounds: ProblemBounds,
) -> Result<JudgeProblem, SqliteFailure> {
    const STEP: &str = "put a problem";
    // A refusal must leave no trace, so all checks come before the first write.
    let existing = find_changeable(transaction, &put.problem.name, editor)?;
    if existing.is_none() {
        check_bounds(transaction, &put.problem.owner, bounds)?;
    }
    if let Some(hash) = blobs::first_missing(transaction, &put.blobs)? {
        return Err(SqliteFailure::Refused(StoreError::BlobNotFound(hash)));
    }
    let problem = match existing {
        Some(existing) => {
            release_blobs(transaction, existing.id)?;
            let owner = existing.owner;
            JudgeProblem { owner, ..put.problem }
        }
        None => put.problem,
    };
    let id: i64 = transaction
        .statement(
            "INSERT INTO problems (name, owner, title, cases, update_time, problem) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (name) DO UPDATE SET title = ?3, cases = ?4, update_time = ?5, problem = ?6
             RETURNING id",
            STEP,
        )?
        .query_row(
            (
                problem.name.as_str(),
                SqlValue(&problem.owner),
                &problem.title,
                problem.summary().cases,
                SqlValue(problem.update_time),
                &put.encoded,
            ),
            |row| row.get(0),
        )
        .during(STEP)?;
    refer(transaction, id, &put.blobs)?;
    Ok(problem)
}

fn remove(
    transaction: &mut GroupTransaction<'_>,
    name: &ProblemName,
    editor: &ProblemEditor,
) -> Result<bool, SqliteFailure> {
    const STEP: &str = "remove a problem";
    let Some(existing) = find_changeable(transaction, name, editor)? else {
        return Ok(false);
    };
    release_blobs(transaction, existing.id)?;
    transaction
        .statement("DELETE FROM problems WHERE id = ?1", STEP)?
        .execute([existing.id])
        .during(STEP)?;
    Ok(true)
}

/// The problem of this name. Refuses an editor who may not change it.
fn find_changeable(
    transaction: &GroupTransaction<'_>,
    name: &ProblemName,
    editor: &ProblemEditor,
) -> Result<Option<ExistingProblem>, SqliteFailure> {
    const STEP: &str = "look for a problem";
    let found: Option<(i64, String)> = transaction
        .statement("SELECT id, owner FROM problems WHERE name = ?1", STEP)?
        .query_row([name.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .during(STEP)?;
    let Some((id, owner)) = found else {
        return Ok(None);
    };
    let owner = UserName::new(owner).map_err(|error| SqliteFailure::Refused(unreadable(name, error)))?;
    match editor.may_change(&owner) {
        true => Ok(Some(ExistingProblem { id, owner })),
        false => Err(SqliteFailure::Refused(StoreError::NotOwner(ProblemRef {
            name: name.clone(),
            owner,
        }))),
    }
}

/// Refuses a further problem of this owner if there are enough.
fn check_bounds(
    transaction: &GroupTransaction<'_>,
    owner: &UserName,
    bounds: ProblemBounds,
) -> Result<(), SqliteFailure> {
    const STEP: &str = "count problems";
    let own: u32 = transaction
        .statement(COUNT_OF_OWNER, STEP)?
        .query_row([SqlValue(owner)], |row| row.get(0))
        .during(STEP)?;
    let all: u32 = transaction
        .statement("SELECT count(*) FROM problems", STEP)?
        .query_row([], |row| row.get(0))
        .during(STEP)?;
    bounds.check(owner, own, all).map_err(SqliteFailure::Refused)
}

const COUNT_OF_OWNER: &str = "SELECT count(*) FROM problems WHERE owner = ?1";

/// Records that the problem names the blobs. Retention keeps them.
fn refer(transaction: &GroupTransaction<'_>, id: i64, hashes: &[BlobHash]) -> Result<(), SqliteFailure> {
    const STEP: &str = "record the blobs of a problem";
    for hash in hashes {
        transaction
            .statement("INSERT INTO problem_blobs (problem, hash) VALUES (?1, ?2)", STEP)?
            .execute((id, SqlValue(*hash)))
            .during(STEP)?;
        transaction
            .statement("UPDATE blobs SET refs = refs + 1 WHERE hash = ?1", STEP)?
            .execute([SqlValue(*hash)])
            .during(STEP)?;
    }
    Ok(())
}

fn release_blobs(transaction: &GroupTransaction<'_>, id: i64) -> Result<(), SqliteFailure> {
    const STEP: &str = "release the blobs of a problem";
    for sql in [RELEASE_BLOBS, "DELETE FROM problem_blobs WHERE problem = ?1"] {
        transaction.statement(sql, STEP)?.execute([id]).during(STEP)?;
    }
    Ok(())
}

const RELEASE_BLOBS: &str =
    "UPDATE blobs SET refs = refs - 1 WHERE hash IN (SELECT hash FROM problem_blobs WHERE problem = ?1)";

fn read(connection: &Connection, name: &ProblemName) -> Result<Option<JudgeProblem>, SqliteFailure> {
    const STEP: &str = "read a problem";
    let row = connection
        .prepare_cached("SELECT owner, title, update_time, problem FROM problems WHERE name = ?1")
        .and_then(|mut statement| {
            let row = |row: &Row<'_>| {
                let encoded: Vec<u8> = row.get(3)?;
                Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?, encoded))
            };
            statement.query_row([name.as_str()], row).optional()
        })
        .during(STEP)?;
    let Some((owner, title, update_time, encoded)) = row else {
        return Ok(None);
    };
    let refused = |detail: String| SqliteFailure::Refused(unreadable(name, detail));
    let owner = UserName::new(owner).map_err(|error| refused(error.to_string()))?;
    let (limits, judging) = decode_problem(&encoded).map_err(|error| refused(error.to_string()))?;
    Ok(Some(JudgeProblem {
        name: name.clone(),
        owner,
        title,
        limits,
        judging,
        update_time: UnixTime(update_time),
    }))
}

fn list(
    connection: &Connection,
    unreadable_rows: &UnreadableRows,
) -> Result<Vec<ProblemSummary>, SqliteFailure> {
    const STEP: &str = "list problems";
    let mut statement = connection
        .prepare_cached("SELECT name, owner, title, cases, update_time FROM problems ORDER BY name")
        .during(STEP)?;
    let mut rows = statement.query([]).during(STEP)?;
    let mut problems = vec![];
    while let Some(row) = rows.next().during(STEP)? {
        let (name, owner): (String, String) = (row.get(0).during(STEP)?, row.get(1).during(STEP)?);
        let (name, owner) = match (ProblemName::new(&*name), UserName::new(owner)) {
            (Ok(name), Ok(owner)) => (name, owner),
            (Err(problem), _) | (_, Err(problem)) => {
                unreadable_rows.record(format_args!("problem {name}"), problem);
                continue;
            }
        };
        problems.push(ProblemSummary {
            name,
            owner,
            title: row.get(2).during(STEP)?,
            cases: row.get(3).during(STEP)?,
            update_time: UnixTime(row.get(4).during(STEP)?),
        });
    }
    Ok(problems)
}

fn unreadable(name: &ProblemName, detail: impl ToString) -> StoreError {
    StoreError::Unreadable {
        what: "problem",
        detail: format!("{name}: {}", detail.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::schema::tests::{database, query_plan};

    #[test]
    fn the_blobs_and_the_owner_of_a_problem_are_found_by_an_index() {
        let check = |sql: &str, expected: &str| assert_eq!(query_plan(&database(), sql), expected);
        check(
            COUNT_OF_OWNER,
            "SEARCH problems USING COVERING INDEX problems_by_owner (owner=?)",
        );
        check(
            RELEASE_BLOBS,
            "SEARCH blobs USING PRIMARY KEY (hash=?); LIST SUBQUERY 1; SEARCH problem_blobs USING PRIMARY KEY (problem=?)",
        );
    }
}
