//! Sessions: one document for each executor, with the session it is in or was in last.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use model::{Age, Capacity, ExecutorName, KnownSession, Moment, Report, Seq};
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, Uuid, deserialize_from_slice, doc};
use mongodb::options::ReadConcern;
use serde::{Deserialize, Serialize};

use super::attempts::COMMAND;
use super::base::{Base, EXECUTORS, now};
use super::failure::Failure;
use super::field::{Field, large, session_id, small};
use super::row::{Position, readable, without_content};
use super::tally::Tally;
use crate::{SessionSeen, StoreError};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ExecutorRow {
    #[serde(rename = "_id")]
    pub(super) name: String,
    /// Counts the writes. Whoever decided by what he had read writes only if it is still the same.
    pub(super) revision: i64,
    pub(super) session: Uuid,
    pub(super) seq: i64,
    pub(super) live: bool,
    pub(super) slots: i64,
    pub(super) host: String,
    pub(super) version: String,
    pub(super) since: i64,
    pub(super) report_time: i64,
    /// Left out by executors of older versions.
    #[serde(default)]
    pub(super) capacity: Option<CapacityRow>,
    /// What its reports changed of the sums.
    #[serde(default)]
    pub(super) tally: BTreeMap<String, i64>,
}

/// What a slot of it can give to one task.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct CapacityRow {
    memory: i64,
    processes: i64,
    open_files: i64,
}

impl CapacityRow {
    pub(super) fn read(self) -> Result<Capacity, Failure> {
        Ok(Capacity {
            memory: large("memory of a slot", self.memory)?,
            processes: small("number of processes", self.processes)?,
            open_files: large("number of open files", self.open_files)?,
        })
    }
}

/// The most memory that a live executor can give to a task, as far as was seen lately.
#[derive(Debug, Default)]
pub(super) struct LargestExecutor(Mutex<Option<(Instant, u64)>>);

/// A claim must not cost a look at all executors each time.
const LARGEST_VALID_FOR: Duration = Duration::from_secs(1);

/// Whether a live executor can give more to a task, or does not say what it can give.
pub(super) async fn has_larger(base: &Base, own: Capacity) -> Result<bool, Failure> {
    let known = *base.largest.0.lock().unwrap_or_else(PoisonError::into_inner);
    let largest = match known {
        Some((read, largest)) if read.elapsed() < LARGEST_VALID_FOR => largest,
        _ => {
            let read = Instant::now();
            let largest = largest(base).await?;
            *base.largest.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((read, largest));
            largest
        }
    };
    Ok(largest > own.memory)
}

async fn largest(base: &Base) -> Result<u64, Failure> {
    let live: Vec<Document> = base
        .collection::<Document>(EXECUTORS)
        .find(doc! { "live": true })
        .projection(doc! { "capacity.memory": 1 })
        .read_concern(ReadConcern::local())
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    let memory = |executor: &Document| {
        let memory = executor.get_document("capacity").ok()?.get_i64("memory").ok()?;
        u64::try_from(memory).ok()
    };
    let largest = live
        .iter()
        .map(|executor| memory(executor).unwrap_or(u64::MAX))
        .max();
    Ok(largest.unwrap_or(0))
}

impl ExecutorRow {
    fn known(&self) -> Result<KnownSession, Failure> {
        Ok(KnownSession {
            session: session_id(self.session),
            seq: Seq(large("report's number", self.seq)?),
            live: self.live,
            host: self.host.clone(),
            since: Moment(self.since),
        })
    }
}

/// Of an executor's document.
pub(super) enum Found {
    Nothing,
    Session(ExecutorRow, KnownSession),
    Unreadable(RawDocumentBuf, StoreError),
}

impl Found {
    fn of(base: &Base, document: Option<RawDocumentBuf>) -> Found {
        let Some(document) = document else {
            return Found::Nothing;
        };
        match parse(base, &document) {
            Ok((row, known)) => Found::Session(row, known),
            Err(error) => Found::Unreadable(document, error),
        }
    }

    /// One that cannot be read is refused.
    pub(super) fn readable(self) -> Result<Option<(ExecutorRow, KnownSession)>, Failure> {
        match self {
            Found::Nothing => Ok(None),
            Found::Session(row, known) => Ok(Some((row, known))),
            Found::Unreadable(_, error) => Err(Failure::Refused(error)),
        }
    }
}

/// What cannot be read is noted.
pub(super) fn parse(base: &Base, document: &RawDocument) -> Result<(ExecutorRow, KnownSession), StoreError> {
    let name = match document.get_str("_id") {
        Ok(name) => name.to_string(),
        Err(_) => format!("{:?}", document.get("_id").ok().flatten()),
    };
    let row = deserialize_from_slice(document.as_bytes()).map_err(|error| error.to_string());
    let parsed = row.and_then(|row: ExecutorRow| match row.known() {
        Ok(known) => Ok((row, known)),
        Err(failure) => Err(failure.into_error("read an executor").to_string()),
    });
    parsed.map_err(|problem| {
        base.set_aside.note(format_args!("executor {name}"), &problem);
        StoreError::Unreadable {
            what: "executor",
            detail: format!("{name}: {problem}"),
        }
    })
}

/// The newest that the primary has. It may not last; but then a write that is decided by it will not either.
pub(super) async fn read(base: &Base, name: &ExecutorName) -> Result<Found, Failure> {
    find(base, name, ReadConcern::local()).await
}

async fn find(base: &Base, name: &ExecutorName, concern: ReadConcern) -> Result<Found, Failure> {
    let found = base
        .collection::<RawDocumentBuf>(EXECUTORS)
        .find_one(doc! { "_id": name.field() })
        .read_concern(concern)
        .max_time(COMMAND)
        .await?;
    Ok(Found::of(base, found))
}

/// For an answer that comes without a write, which would have shown that what was read lasts: it must still be so,
/// and a majority must have it.
pub(super) async fn confirm(
    base: &Base,
    name: &ExecutorName,
    seen: Option<&ExecutorRow>,
) -> Result<(), Failure> {
    let found = find(base, name, ReadConcern::linearizable()).await?.readable()?;
    match found.map(|(row, _)| row.revision) == seen.map(|row| row.revision) {
        true => Ok(()),
        false => Err(Failure::Overtaken),
    }
}

/// What an executor holds, in whichever session, and tasks that are asked for besides.
pub(super) async fn holdings(
    base: &Base,
    name: &ExecutorName,
    besides: &[model::TaskId],
) -> Result<Vec<Position>, Failure> {
    let mut condition = doc! { "executor": name.field() };
    if !besides.is_empty() {
        let ids: Vec<_> = besides.iter().map(Field::field).collect();
        condition = doc! { "$or": [condition, { "_id": { "$in": ids } }] };
    }
    let found = base
        .tasks()
        .find(condition)
        .projection(without_content())
        .read_concern(ReadConcern::local())
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    readable(base, found).iter().map(Position::try_from).collect()
}

/// The session goes on, at this report.
pub(super) fn renewed(seen: &ExecutorRow, report: &Report, tally: &Tally, age: Option<Age>) -> Document {
    let mut set = presence(Some(seen), report, age);
    set.insert("live", lives(report));
    doc! {
        "q": { "_id": &seen.name, "revision": seen.revision },
        "u": { "$set": set, "$inc": increments(tally) },
    }
}

/// A new session begins, whether there was one under this name before or not.
pub(super) fn opened(
    seen: Option<&ExecutorRow>,
    report: &Report,
    tally: &Tally,
    age: Option<Age>,
) -> Document {
    let mut set = presence(seen, report, age);
    set.insert("session", report.session.field());
    set.insert("since", now().field());
    set.insert("live", lives(report));
    // No document has the revision 0, so this makes one, or fails if there is one by now.
    let revision = seen.map_or(0, |seen| seen.revision);
    doc! {
        "q": { "_id": report.executor.field(), "revision": revision },
        "u": { "$set": set, "$inc": increments(tally) },
        "upsert": true,
    }
}

/// The document stays, so that people see who was here and late reports of the session are told that it has ended.
pub(super) fn ended(seen: &ExecutorRow, tally: &Tally, age: Age) -> Document {
    doc! {
        "q": { "_id": &seen.name, "revision": seen.revision },
        "u": { "$set": { "live": false, "end_age": age.field() }, "$inc": increments(tally) },
    }
}

/// Puts an ended session in the place of a document that cannot be read, if it is still as it was read.
pub(super) fn ended_unreadable(document: &RawDocument, seen: &SessionSeen, age: Age) -> Document {
    let as_read = |name: &str| {
        let value = document.get(name).ok().flatten();
        value
            .and_then(|value| Bson::try_from(value).ok())
            .unwrap_or(Bson::Null)
    };
    let mut condition = doc! { "_id": seen.executor.field() };
    for name in ["revision", "session", "seq", "live", "host"] {
        condition.insert(name, as_read(name));
    }
    let now = now().field();
    doc! {
        "q": condition,
        "u": {
            // One that no report has read.
            "revision": now.clone(),
            "session": seen.session.field(),
            "seq": seen.seq.field(),
            "live": false,
            "slots": 0_i64,
            "host": "",
            "version": "",
            "since": now.clone(),
            "report_time": now,
            "end_age": age.field(),
        },
    }
}

fn lives(report: &Report) -> bool {
    report.intent == model::Intent::Stay
}

/// With the age at which the session ends, if it does with this report.
fn presence(seen: Option<&ExecutorRow>, report: &Report, age: Option<Age>) -> Document {
    let presence = &report.presence;
    let earlier = seen.map_or(Moment(i64::MIN), |seen| Moment(seen.report_time));
    doc! {
        "seq": report.seq.field(),
        "report_time": now().max(earlier).field(),
        "end_age": age.filter(|_| !lives(report)).field(),
        "slots": presence.slots.field(),
        "host": &presence.host,
        "version": &presence.version,
        "capacity": presence.capacity.map(|capacity| doc! {
            "memory": bounded(capacity.memory),
            "processes": i64::from(capacity.processes),
            "open_files": bounded(capacity.open_files),
        }),
    }
}

/// MongoDB has no larger number.
fn bounded(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn increments(tally: &Tally) -> Document {
    let mut increments = tally.increments();
    increments.insert("revision", 1_i64);
    increments
}
