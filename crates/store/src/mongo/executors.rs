//! Lists executors, expires silent sessions, and removes executors that are gone.

use std::collections::HashMap;
use std::sync::Arc;

use futures::TryStreamExt;
use model::{ExecutorName, ExecutorState, Health, RecordedEnd, ReleaseReason, StoreAge, TaskForm, UnixTime};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use serde::Deserialize;

use super::age;
use super::bson_values::{ToBson, executor_name, session_id, to_u32};
use super::context::{EXECUTORS, StoreContext, now};
use super::drain::DrainDocument;
use super::failure::MongoFailure;
use super::retry::COMMAND_TIMEOUT;
use super::session::{self, CapacityDocument, ExecutorDocument, ExecutorLookup, LoadDocument, SessionFate};
use super::totals::stored_counters;
use super::transaction::Transaction;
use super::transition_batch::TransitionBatch;
use crate::ObservedSession;

/// The number of tasks that an executor holds: one result document of a MongoDB aggregation.
#[derive(Deserialize)]
struct HeldTaskCount {
    #[serde(rename = "_id")]
    executor: Bson,
    tasks: i64,
}

pub(super) async fn executors(context: Arc<StoreContext>) -> Result<Vec<ExecutorState>, MongoFailure> {
    let documents = find_readable(&context, doc! {}, ExecutorFields::All).await?;
    let held: Vec<HeldTaskCount> = context
        .tasks()
        .aggregate([
            doc! { "$match": { "executor": { "$exists": true } } },
            doc! { "$group": { "_id": "$executor", "tasks": { "$sum": 1_i64 } } },
        ])
        .max_time(COMMAND_TIMEOUT)
        .with_type::<HeldTaskCount>()
        .await?
        .try_collect()
        .await?;
    let held: HashMap<_, _> = held
        .into_iter()
        .filter_map(|held| Some((held.executor.as_str()?.to_string(), held.tasks)))
        .collect();
    let state = |document: ExecutorDocument| -> Result<ExecutorState, MongoFailure> {
        Ok(ExecutorState {
            tools: document.decode_tools(&context).tools.clone(),
            tasks: to_u32("number of tasks", held.get(&document.name).copied().unwrap_or(0))?,
            name: executor_name(document.name)?,
            session: session_id(document.session),
            health: if document.live {
                Health::Alive
            } else {
                Health::Gone
            },
            slots: to_u32("number of slots", document.slots)?,
            host: document.host,
            version: document.version,
            since: UnixTime(document.since),
            report_time: UnixTime(document.report_time),
            capacity: document.capacity.map(CapacityDocument::to_capacity).transpose()?,
            drain: document.drain.as_ref().map(DrainDocument::to_drain),
            load: document.load.and_then(LoadDocument::to_load),
        })
    };
    Ok(collect_readable(&context, documents, state))
}

/// `None` if no executor is live, or if one has not reported its form to a judicator that records it.
pub(super) async fn newest_form(context: Arc<StoreContext>) -> Result<Option<TaskForm>, MongoFailure> {
    let live = doc! { "live": true };
    let executors = find_readable(&context, live, ExecutorFields::WithoutTools).await?;
    let mut newest = None;
    for executor in executors {
        let Some(form) = executor.newest_form else {
            return Ok(None);
        };
        newest = newest.max(Some(TaskForm(to_u32("form of tasks", form)?)));
    }
    Ok(newest)
}

/// Leaves out executors that cannot be read, and logs them.
fn collect_readable<T>(
    context: &StoreContext,
    documents: Vec<ExecutorDocument>,
    read: impl Fn(ExecutorDocument) -> Result<T, MongoFailure>,
) -> Vec<T> {
    let read = |document: ExecutorDocument| {
        let name = document.name.clone();
        let note = |failure: MongoFailure| {
            context
                .unreadable_rows
                .record(format_args!("executor {name}"), failure.into_error("read it"))
        };
        read(document).map_err(note).ok()
    };
    documents.into_iter().filter_map(read).collect()
}

pub(super) async fn live_sessions(context: Arc<StoreContext>) -> Result<Vec<ObservedSession>, MongoFailure> {
    let live_session = |document: RawDocumentBuf| {
        let parsed = session::parse(&context, &document);
        let executor = document.get_str("_id").ok()?;
        // No executor can report under a name that is not valid.
        let executor = ExecutorName::new(executor).ok()?;
        match parsed {
            Ok((_, stored)) => stored.live.then_some(ObservedSession {
                executor,
                session: stored.session,
                seq: stored.seq,
            }),
            Err(_) => Some(ObservedSession::unreadable(executor)),
        }
    };
    let found = find(&context, doc! {}, ExecutorFields::WithoutTools).await?;
    Ok(found.into_iter().filter_map(live_session).collect())
}

pub(super) async fn expire(
    context: Arc<StoreContext>,
    observed: Arc<ObservedSession>,
) -> Result<Option<usize>, MongoFailure> {
    let age = age::now(&context).await?;
    let mut batch = TransitionBatch::new(now(), context.max_attempts).with_store_age(Some(age));
    let found = session::read(&context, &observed.executor).await?;
    let held = session::held_tasks(&context, &observed.executor, &[]).await?;
    held.readable.into_iter().for_each(|task| batch.insert(task));
    let is_unchanged = match &found {
        ExecutorLookup::Readable(_, stored) => {
            stored.live && stored.session == observed.session && stored.seq == observed.seq
        }
        ExecutorLookup::Unreadable(..) => observed.is_unreadable(),
        ExecutorLookup::Missing => false,
    };
    if !is_unchanged {
        return Ok(None);
    }
    let lost = batch.held(&observed.executor);
    let fate = match held.newer.is_empty() {
        true => SessionFate::Ended(Some(age)),
        // All other tasks were released before.
        false if lost.is_empty() => return Ok(None),
        false => SessionFate::Live,
    };
    let trouble = observed.expiry_trouble();
    for task in &lost {
        batch.revoke(task.state.id);
        batch.release(task.state.id, ReleaseReason::Lost(&trouble), RecordedEnd::Lost);
    }
    let mut transaction = Transaction::default();
    match found {
        ExecutorLookup::Readable(document, _) => {
            transaction.update(
                EXECUTORS,
                [session::expiry_update(&document, &batch.counter_deltas(), fate)],
            )?;
        }
        ExecutorLookup::Unreadable(document, _) => {
            // The replacement has no counters, so the readable ones move to the ledger.
            let mut deltas = batch.counter_deltas();
            deltas.add_stored(&stored_counters(&context, &document));
            transaction.update(
                EXECUTORS,
                [session::replacement_update(&document, &observed, fate)],
            )?;
            transaction.add_to_counters(&deltas)?;
        }
        ExecutorLookup::Missing => {}
    }
    batch.write(&mut transaction)?;
    transaction.commit(&context).await?;
    batch.record_ends(&context.ends);
    Ok(Some(lost.len()))
}

pub(super) async fn remove_ended(
    context: Arc<StoreContext>,
    gone_before: StoreAge,
) -> Result<usize, MongoFailure> {
    stamp_missing_ages(&context).await?;
    let ended = find_readable(
        &context,
        doc! { "live": false, "drain": null, "end_age": { "$lt": gone_before.to_bson() } },
        ExecutorFields::WithoutTools,
    )
    .await?;
    // No other operation would release tasks that a removed executor still holds. Its counters move to the ledger.
    let mut batch = TransitionBatch::new(now(), context.max_attempts);
    let mut gone = vec![];
    for document in ended {
        // Unreadable documents stay.
        let Ok(name) = executor_name(document.name.clone()) else {
            continue;
        };
        let held = session::held_tasks(&context, &name, &[]).await?;
        if !held.newer.is_empty() {
            continue;
        }
        for task in held.readable {
            let id = task.state.id;
            batch.insert(task);
            batch.release(id, ReleaseReason::GivenBack, RecordedEnd::GivenBack);
        }
        gone.push(document);
    }
    if gone.is_empty() {
        return Ok(0);
    }
    let mut deltas = batch.counter_deltas();
    gone.iter()
        .for_each(|document| deltas.add_stored(&document.counters));
    let mut transaction = Transaction::default();
    batch.write(&mut transaction)?;
    let conditions = gone
        .iter()
        .map(|document| doc! { "_id": &document.name, "revision": document.revision });
    transaction.delete_each(EXECUTORS, conditions)?;
    transaction.add_to_counters(&deltas)?;
    transaction.commit(&context).await?;
    Ok(gone.len())
}

/// Judicators of schema version 1 end sessions without an age. Such sessions count as ended now.
async fn stamp_missing_ages(context: &StoreContext) -> Result<(), MongoFailure> {
    let age = age::now(context).await?;
    context
        .collection::<ExecutorDocument>(EXECUTORS)
        .update_many(
            doc! { "live": false, "end_age": null },
            doc! { "$set": { "end_age": age.to_bson() } },
        )
        .await?;
    Ok(())
}

async fn find_readable(
    context: &StoreContext,
    condition: Document,
    fields: ExecutorFields,
) -> Result<Vec<ExecutorDocument>, MongoFailure> {
    let found = find(context, condition, fields).await?;
    let read = |document: &RawDocumentBuf| {
        session::parse(context, document)
            .ok()
            .map(|(document, _)| document)
    };
    Ok(found.iter().filter_map(read).collect())
}

/// Which fields of the executors' documents a read of the MongoDB store needs.
#[derive(Clone, Copy)]
enum ExecutorFields {
    All,
    /// The tools are larger than all other fields together.
    WithoutTools,
}

async fn find(
    context: &StoreContext,
    condition: Document,
    fields: ExecutorFields,
) -> Result<Vec<RawDocumentBuf>, MongoFailure> {
    let found = context
        .collection(EXECUTORS)
        .find(condition)
        .projection(match fields {
            ExecutorFields::All => doc! {},
            ExecutorFields::WithoutTools => doc! { "tools": 0 },
        })
        .sort(doc! { "_id": 1 })
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    Ok(found)
}
