//! Who works here, and who is gone.

use std::collections::HashMap;
use std::sync::Arc;

use futures::TryStreamExt;
use model::{Age, ExecutorName, ExecutorState, Health, Moment, Release};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use serde::Deserialize;

use super::age;
use super::attempts::COMMAND;
use super::base::{Base, EXECUTORS, now};
use super::failure::Failure;
use super::field::{Field, executor_name, session_id, small};
use super::session::{self, CapacityRow, ExecutorRow, Found};
use super::table::Table;
use super::totals::sums;
use super::transaction::Transaction;
use crate::SessionSeen;

#[derive(Deserialize)]
struct Holds {
    #[serde(rename = "_id")]
    executor: Bson,
    tasks: i64,
}

pub(super) async fn executors(base: Arc<Base>) -> Result<Vec<ExecutorState>, Failure> {
    let rows = rows(&base, doc! {}).await?;
    let holds: Vec<Holds> = base
        .tasks()
        .aggregate([
            doc! { "$match": { "executor": { "$exists": true } } },
            doc! { "$group": { "_id": "$executor", "tasks": { "$sum": 1_i64 } } },
        ])
        .max_time(COMMAND)
        .with_type::<Holds>()
        .await?
        .try_collect()
        .await?;
    let holds: HashMap<_, _> = holds
        .into_iter()
        .filter_map(|holds| Some((holds.executor.as_str()?.to_string(), holds.tasks)))
        .collect();
    let state = |row: ExecutorRow| -> Result<ExecutorState, Failure> {
        Ok(ExecutorState {
            tasks: small("number of tasks", holds.get(&row.name).copied().unwrap_or(0))?,
            name: executor_name(row.name)?,
            session: session_id(row.session),
            health: if row.live { Health::Alive } else { Health::Gone },
            slots: small("number of slots", row.slots)?,
            host: row.host,
            version: row.version,
            since: Moment(row.since),
            report_time: Moment(row.report_time),
            capacity: row.capacity.map(CapacityRow::read).transpose()?,
        })
    };
    Ok(each_readable(&base, rows, state))
}

/// Passes over executors that cannot be read, and notes them.
fn each_readable<T>(
    base: &Base,
    rows: Vec<ExecutorRow>,
    read: impl Fn(ExecutorRow) -> Result<T, Failure>,
) -> Vec<T> {
    let read = |row: ExecutorRow| {
        let name = row.name.clone();
        let note = |failure: Failure| {
            base.set_aside
                .note(format_args!("executor {name}"), failure.into_error("read it"))
        };
        read(row).map_err(note).ok()
    };
    rows.into_iter().filter_map(read).collect()
}

pub(super) async fn live_sessions(base: Arc<Base>) -> Result<Vec<SessionSeen>, Failure> {
    let seen = |document: RawDocumentBuf| {
        let parsed = session::parse(&base, &document);
        let executor = document.get_str("_id").ok()?;
        // No executor can report under another kind of name.
        let executor = ExecutorName::new(executor).ok()?;
        match parsed {
            Ok((_, known)) => known.live.then_some(SessionSeen {
                executor,
                session: known.session,
                seq: known.seq,
            }),
            Err(_) => Some(SessionSeen::unreadable(executor)),
        }
    };
    let found = documents(&base, doc! {}).await?;
    Ok(found.into_iter().filter_map(seen).collect())
}

pub(super) async fn expire(base: Arc<Base>, seen: Arc<SessionSeen>) -> Result<Option<usize>, Failure> {
    let age = age::now(&base).await?;
    let mut table = Table::new(now(), base.max_attempts).at_age(Some(age));
    let found = session::read(&base, &seen.executor).await?;
    for task in session::holdings(&base, &seen.executor, &[]).await? {
        table.lay(task);
    }
    let lost = match &found {
        Found::Session(_, known) if known.live && known.session == seen.session && known.seq == seen.seq => {
            table.held(&seen.executor, seen.session)
        }
        // Which session it was is not known.
        Found::Unreadable(..) if seen.is_unreadable() => table.held_otherwise(&seen.executor, seen.session),
        _ => return Ok(None),
    };
    let trouble = format!("executor {} was not heard of any more", seen.executor);
    for task in &lost {
        table.withdraw(task.id);
        table.release(task.id, Release::Lost(&trouble));
    }
    for task in table.held_otherwise(&seen.executor, seen.session) {
        table.release(task.id, Release::GivenBack);
    }
    let mut transaction = Transaction::default();
    match found {
        Found::Session(row, _) => {
            transaction.update(EXECUTORS, [session::ended(&row, &table.tally(), age)])?;
        }
        Found::Unreadable(document, _) => {
            // What can be read of its sums stays in them.
            let mut tally = table.tally();
            tally.take_over(&sums(&base, &document));
            transaction.update(EXECUTORS, [session::ended_unreadable(&document, &seen, age)])?;
            transaction.count(&tally)?;
        }
        Found::Nothing => {}
    }
    table.write(&mut transaction)?;
    transaction.commit(&base).await?;
    Ok(Some(lost.len()))
}

pub(super) async fn forget(base: Arc<Base>, gone_before: Age) -> Result<usize, Failure> {
    stamp(&base).await?;
    let mut gone = rows(
        &base,
        doc! { "live": false, "end_age": { "$lt": gone_before.field() } },
    )
    .await?;
    // What cannot be read stays.
    gone.retain(|row| executor_name(row.name.clone()).is_ok());
    if gone.is_empty() {
        return Ok(0);
    }
    // What its reports had added to the sums stays in them. What it should still hold nobody else would release.
    let mut table = Table::new(now(), base.max_attempts);
    for row in &gone {
        let name = executor_name(row.name.clone())?;
        for task in session::holdings(&base, &name, &[]).await? {
            let id = task.id;
            table.lay(task);
            table.release(id, Release::GivenBack);
        }
    }
    let mut tally = table.tally();
    gone.iter().for_each(|row| tally.take_over(&row.tally));
    let mut transaction = Transaction::default();
    table.write(&mut transaction)?;
    let conditions = gone
        .iter()
        .map(|row| doc! { "_id": &row.name, "revision": row.revision });
    transaction.delete_each(EXECUTORS, conditions)?;
    transaction.count(&tally)?;
    transaction.commit(&base).await?;
    Ok(gone.len())
}

/// Those that a judicator of the first version has ended count as gone now.
async fn stamp(base: &Base) -> Result<(), Failure> {
    let age = age::now(base).await?;
    base.collection::<ExecutorRow>(EXECUTORS)
        .update_many(
            doc! { "live": false, "end_age": null },
            doc! { "$set": { "end_age": age.field() } },
        )
        .await?;
    Ok(())
}

async fn rows(base: &Base, condition: Document) -> Result<Vec<ExecutorRow>, Failure> {
    let found = documents(base, condition).await?;
    let read = |document: &RawDocumentBuf| session::parse(base, document).ok().map(|(row, _)| row);
    Ok(found.iter().filter_map(read).collect())
}

async fn documents(base: &Base, condition: Document) -> Result<Vec<RawDocumentBuf>, Failure> {
    let found = base
        .collection(EXECUTORS)
        .find(condition)
        .sort(doc! { "_id": 1 })
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    Ok(found)
}
