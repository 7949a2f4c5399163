//! Sessions of executors: each executor has one document, with its current or last session.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::sync::Arc;

use futures::TryStreamExt;
use model::{
    Capacity, ExecutorName, MachineLoad, Report, ReportSeq, SessionId, StoreAge, StoredSession, TaskId,
    UnixTime,
};
use mongodb::bson::{
    Bson, Document, RawDocument, RawDocumentBuf, Uuid, deserialize_from_bson, deserialize_from_slice, doc,
};
use mongodb::options::ReadConcern;
use serde::{Deserialize, Serialize};

use super::bson_values::{ToBson, binary, session_id, to_u32, to_u64};
use super::context::{EXECUTORS, StoreContext, now};
use super::counters::CounterDeltas;
use super::drain::{DRAIN_FIELD, DrainDocument};
use super::failure::MongoFailure;
use super::report::PreparedReport;
use super::retry::COMMAND_TIMEOUT;
use super::task_document::{StoredTask, parse_all, without_content};
use crate::tools_cache::DecodedTools;
use crate::{ObservedSession, StoreError};

/// A document of the MongoDB collection `executors`: an executor with its current or last session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ExecutorDocument {
    #[serde(rename = "_id")]
    pub(super) name: String,
    /// The number of writes to this document. A write that depends on an earlier read requires the revision that was
    /// read.
    pub(super) revision: i64,
    pub(super) session: Uuid,
    pub(super) seq: i64,
    pub(super) live: bool,
    pub(super) slots: i64,
    pub(super) host: String,
    pub(super) version: String,
    pub(super) since: i64,
    pub(super) report_time: i64,
    /// Absent for executors of versions that do not report it.
    #[serde(default)]
    pub(super) capacity: Option<CapacityDocument>,
    /// Absent or null unless the executor is drained.
    #[serde(default)]
    pub(super) drain: Option<DrainDocument>,
    /// Absent for executors that do not report it.
    #[serde(default)]
    pub(super) load: Option<LoadDocument>,
    /// The newest form of tasks that it knows. Absent until its next report to a judicator that records it.
    #[serde(default)]
    pub(super) newest_form: Option<i64>,
    /// The tools that the executor has reported, as [`tools_field`] writes them. Any value can be parsed, because an
    /// executor whose tools are unreadable can still run other tasks.
    #[serde(default)]
    pub(super) tools: Option<Bson>,
    /// The sums of the changes that reports of this executor made to the counters of tasks.
    #[serde(default, rename = "tally")]
    pub(super) counters: BTreeMap<String, i64>,
}

/// The field `capacity` of a MongoDB executor document: the resources that one slot of the executor offers to a task.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct CapacityDocument {
    memory: i64,
    processes: i64,
    open_files: i64,
}

impl CapacityDocument {
    pub(super) fn to_capacity(self) -> Result<Capacity, MongoFailure> {
        Ok(Capacity {
            memory: to_u64("memory of a slot", self.memory)?,
            processes: to_u32("number of processes", self.processes)?,
            open_files: to_u64("number of open files", self.open_files)?,
        })
    }
}

/// The field `load` of a MongoDB executor document: the load of the executor's machine.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct LoadDocument {
    load_hundredths: i64,
    cores: i64,
    memory_available: i64,
    memory_total: i64,
}

impl LoadDocument {
    /// The load is for people only, so one that is unreadable counts as none.
    pub(super) fn to_load(self) -> Option<MachineLoad> {
        Some(MachineLoad {
            load_hundredths: u32::try_from(self.load_hundredths).ok()?,
            cores: u32::try_from(self.cores).ok()?,
            memory_available: u64::try_from(self.memory_available).ok()?,
            memory_total: u64::try_from(self.memory_total).ok()?,
        })
    }
}

impl ExecutorDocument {
    fn to_stored_session(&self) -> Result<StoredSession, MongoFailure> {
        Ok(StoredSession {
            session: session_id(self.session),
            seq: ReportSeq(to_u64("report's number", self.seq)?),
            live: self.live,
            host: self.host.clone(),
            since: UnixTime(self.since),
        })
    }
}

/// The result of reading an executor's document from MongoDB: missing, readable or unreadable.
pub(super) enum ExecutorLookup {
    Missing,
    Readable(Box<ExecutorDocument>, StoredSession),
    Unreadable(RawDocumentBuf, StoreError),
}

impl ExecutorLookup {
    fn parse(context: &StoreContext, document: Option<RawDocumentBuf>) -> ExecutorLookup {
        let Some(document) = document else {
            return ExecutorLookup::Missing;
        };
        match parse(context, &document) {
            Ok((document, stored)) => ExecutorLookup::Readable(Box::new(document), stored),
            Err(error) => ExecutorLookup::Unreadable(document, error),
        }
    }

    /// An unreadable document is an error.
    pub(super) fn into_readable(self) -> Result<Option<(ExecutorDocument, StoredSession)>, MongoFailure> {
        match self {
            ExecutorLookup::Missing => Ok(None),
            ExecutorLookup::Readable(document, stored) => Ok(Some((*document, stored))),
            ExecutorLookup::Unreadable(_, error) => Err(MongoFailure::Refused(error)),
        }
    }
}

/// An unreadable document is logged.
pub(super) fn parse(
    context: &StoreContext,
    document: &RawDocument,
) -> Result<(ExecutorDocument, StoredSession), StoreError> {
    let name = match document.get_str("_id") {
        Ok(name) => name.to_string(),
        Err(_) => format!("{:?}", document.get("_id").ok().flatten()),
    };
    let document = deserialize_from_slice(document.as_bytes()).map_err(|error| error.to_string());
    let parsed = document.and_then(|document: ExecutorDocument| match document.to_stored_session() {
        Ok(stored) => Ok((document, stored)),
        Err(failure) => Err(failure.into_error("read an executor").to_string()),
    });
    parsed.map_err(|problem| {
        context
            .unreadable_rows
            .record(format_args!("executor {name}"), &problem);
        StoreError::Unreadable {
            what: "executor",
            detail: format!("{name}: {problem}"),
        }
    })
}

/// Reads with local read concern. The data may still be rolled back; a write that depends on it is then rolled back
/// too.
pub(super) async fn read(
    context: &StoreContext,
    name: &ExecutorName,
) -> Result<ExecutorLookup, MongoFailure> {
    find(context, name, ReadConcern::local()).await
}

async fn find(
    context: &StoreContext,
    name: &ExecutorName,
    concern: ReadConcern,
) -> Result<ExecutorLookup, MongoFailure> {
    let found = context
        .collection::<RawDocumentBuf>(EXECUTORS)
        .find_one(doc! { "_id": name.to_bson() })
        .read_concern(concern)
        .max_time(COMMAND_TIMEOUT)
        .await?;
    Ok(ExecutorLookup::parse(context, found))
}

/// Checks by a linearizable read that the session is as it was read, and that a majority has it. An answer without a
/// write needs this, because a write would have proved it.
pub(super) async fn confirm_unchanged(
    context: &StoreContext,
    name: &ExecutorName,
    expected: Option<&ExecutorDocument>,
) -> Result<(), MongoFailure> {
    let found = find(context, name, ReadConcern::linearizable())
        .await?
        .into_readable()?;
    match found.map(|(document, _)| document.revision) == expected.map(|document| document.revision) {
        true => Ok(()),
        false => Err(MongoFailure::Conflict),
    }
}

/// The tasks that the MongoDB store has read for an operation on an executor's session.
pub(super) struct HeldTasks {
    pub(super) readable: Vec<StoredTask>,
    /// See [`ParsedTasks`](super::task_document::ParsedTasks). While an executor holds one of them, its session does not
    /// end, and the executor is not removed: nobody would release the task then. A newer leader ends the session.
    pub(super) newer: HashSet<TaskId>,
}

/// The tasks that an executor holds in any session, and the tasks `also`, which any executor or none may hold.
pub(super) async fn held_tasks(
    context: &StoreContext,
    name: &ExecutorName,
    also: &[TaskId],
) -> Result<HeldTasks, MongoFailure> {
    let mut condition = doc! { "executor": name.to_bson() };
    if !also.is_empty() {
        let ids: Vec<_> = also.iter().map(ToBson::to_bson).collect();
        condition = doc! { "$or": [condition, { "_id": { "$in": ids } }] };
    }
    let found: Vec<_> = context
        .tasks()
        .find(condition)
        .projection(without_content())
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    let tasks = parse_all(context, &found);
    let readable = tasks.readable.iter().map(StoredTask::try_from);
    Ok(HeldTasks {
        readable: readable.collect::<Result<_, _>>()?,
        newer: tasks.newer,
    })
}

/// What becomes of an executor's session in the MongoDB store with a report or an expiry.
#[derive(Clone, Copy, Debug)]
pub(super) enum SessionFate {
    Live,
    /// Without the store's age, the leader stamps the end when it applies retention.
    Ended(Option<StoreAge>),
}

impl SessionFate {
    /// The session's fields of the document.
    fn fields(self) -> Document {
        match self {
            SessionFate::Live => doc! { "live": true, "end_age": null },
            SessionFate::Ended(age) => doc! { "live": false, "end_age": age.to_bson() },
        }
    }
}

/// The update for a report of the current session.
pub(super) fn renewal_update(
    executor: &ExecutorDocument,
    prepared: &PreparedReport,
    deltas: &CounterDeltas,
    fate: SessionFate,
) -> Document {
    let set = reported_fields(Some(executor), prepared, fate);
    doc! {
        "q": { "_id": &executor.name, "revision": executor.revision },
        "u": { "$set": set, "$inc": increments(deltas) },
    }
}

/// The update for the first report of a new session, whether the executor has a document or not.
pub(super) fn opening_update(
    executor: Option<&ExecutorDocument>,
    prepared: &PreparedReport,
    deltas: &CounterDeltas,
    fate: SessionFate,
) -> Document {
    let report = &prepared.report;
    let mut set = reported_fields(executor, prepared, fate);
    set.insert("session", report.session.to_bson());
    set.insert("since", now().to_bson());
    // No document has revision 0, so the upsert inserts one, or fails if another report has inserted it meanwhile.
    let revision = executor.map_or(0, |executor| executor.revision);
    doc! {
        "q": { "_id": report.executor.to_bson(), "revision": revision },
        "u": { "$set": set, "$inc": increments(deltas) },
        "upsert": true,
    }
}

/// The update for an expiry. The document of an ended session stays, so that the executor is still listed and late reports
/// of the session are answered as ended.
pub(super) fn expiry_update(
    executor: &ExecutorDocument,
    deltas: &CounterDeltas,
    fate: SessionFate,
) -> Document {
    doc! {
        "q": { "_id": &executor.name, "revision": executor.revision },
        "u": { "$set": fate.fields(), "$inc": increments(deltas) },
    }
}

/// The update that replaces an unreadable document by a session without reports, if the document is unchanged.
pub(super) fn replacement_update(
    document: &RawDocument,
    observed: &ObservedSession,
    fate: SessionFate,
) -> Document {
    let stored_value = |name: &str| {
        let value = document.get(name).ok().flatten();
        value
            .and_then(|value| Bson::try_from(value).ok())
            .unwrap_or(Bson::Null)
    };
    let is_readable_drain = |drain: &Bson| deserialize_from_bson::<DrainDocument>(drain.clone()).is_ok();
    let mut condition = doc! { "_id": observed.executor.to_bson() };
    for name in ["revision", "session", "seq", "live", "host"] {
        condition.insert(name, stored_value(name));
    }
    let now = now().to_bson();
    let mut replacement = doc! {
        // A revision that no report has read.
        "revision": now.clone(),
        "session": observed.session.to_bson(),
        "seq": observed.seq.to_bson(),
        "slots": 0_i64,
        "host": "",
        "version": "",
        "since": now.clone(),
        "report_time": now,
        DRAIN_FIELD: Some(stored_value(DRAIN_FIELD)).filter(is_readable_drain),
    };
    replacement.extend(fate.fields());
    doc! { "q": condition, "u": replacement }
}

/// The fields that every report sets.
fn reported_fields(
    executor: Option<&ExecutorDocument>,
    prepared: &PreparedReport,
    fate: SessionFate,
) -> Document {
    let report = &prepared.report;
    let executor_info = &report.executor_info;
    let earlier = executor.map_or(UnixTime(i64::MIN), |executor| UnixTime(executor.report_time));
    let mut fields = doc! {
        "seq": report.seq.to_bson(),
        "report_time": now().max(earlier).to_bson(),
        "slots": executor_info.slots.to_bson(),
        "host": &executor_info.host,
        "version": &executor_info.version,
        "newest_form": i64::from(executor_info.newest_form.0),
        "capacity": executor_info.capacity.map(|capacity| doc! {
            "memory": saturating_i64(capacity.memory),
            "processes": i64::from(capacity.processes),
            "open_files": saturating_i64(capacity.open_files),
        }),
        "load": executor_info.load.map(|load| doc! {
            "load_hundredths": i64::from(load.load_hundredths),
            "cores": i64::from(load.cores),
            "memory_available": saturating_i64(load.memory_available),
            "memory_total": saturating_i64(load.memory_total),
        }),
    };
    if let Some(tools) = &prepared.tools {
        fields.insert("tools", tools_field(report.session, tools));
    }
    fields.extend(fate.fields());
    fields
}

/// The field `tools`. It names the session, so that the tools end with it also if a judicator of an earlier version, which
/// does not know the field, opens the next one.
fn tools_field(session: SessionId, tools: &[u8]) -> Document {
    doc! { "session": session.to_bson(), "encoded": binary(tools.to_vec()) }
}

impl ExecutorDocument {
    /// The tools that the executor has reported in its session. Unreadable ones are logged and count as none.
    pub(super) fn decode_tools(&self, context: &StoreContext) -> Arc<DecodedTools> {
        let Some(tools) = &self.tools else {
            return Arc::default();
        };
        decode_tools(context, &self.name, self.session, tools).unwrap_or_default()
    }
}

/// `None` if they belong to another session, or are unreadable.
pub(super) fn decode_tools(
    context: &StoreContext,
    executor: &str,
    session: Uuid,
    tools: &Bson,
) -> Option<Arc<DecodedTools>> {
    let problem = |problem: &dyn Display| {
        context
            .unreadable_rows
            .record(format_args!("tools of executor {executor}"), problem);
    };
    let Some(fields) = tools.as_document() else {
        problem(&"they are no document");
        return None;
    };
    if fields.get("session") != Some(&session.into()) {
        return None;
    }
    let Ok(encoded) = fields.get_binary_generic("encoded") else {
        problem(&"they have no bytes");
        return None;
    };
    let decoded = context.tools_cache.decode(encoded);
    decoded.map_err(|error| problem(&error)).ok()
}

/// The tools with which the executor of the report claims: from the report, or else from the last report of its session
/// that had them.
pub(super) fn claiming_tools(
    context: &StoreContext,
    executor: Option<&ExecutorDocument>,
    report: &Report,
) -> Arc<DecodedTools> {
    if let Some(tools) = &report.executor_info.tools {
        return Arc::new(DecodedTools::from(tools.clone()));
    }
    match executor {
        Some(executor) if session_id(executor.session) == report.session => executor.decode_tools(context),
        _ => Arc::default(),
    }
}

/// BSON has no larger integers.
fn saturating_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn increments(deltas: &CounterDeltas) -> Document {
    let mut increments = deltas.increments();
    increments.insert("revision", 1_i64);
    increments
}
