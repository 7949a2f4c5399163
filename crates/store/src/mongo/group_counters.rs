//! Counters of groups, which every transition of a task keeps up to date.
//!
//! If one document held the counters of a group, all transactions that change tasks of the group would write it and could
//! not run concurrently. So the counters of a group are spread over several documents, its stripes: a report adds to the
//! stripe of its executor, other operations to a random one. The state of the group is the sum of its stripes.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use model::{
    ExecutorName, GroupKey, GroupName, GroupState, OutcomeReason, TaskState, TaskStatus, UnixTime, UserName,
};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use serde::{Deserialize, Serialize};

use super::bson_values::{ToBson, unreadable};
use super::failure::MongoFailure;
use super::retry::random_u64;

/// How many stripes a group has at most. Executors are spread over all of them.
const STRIPES: u64 = 64;
/// How many of the stripes other operations than reports use. They are few, so that a small group has few stripes.
const SHARED_STRIPES: u64 = 8;

/// The number of the document that an operation of the MongoDB store adds its changes of a group's counters to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupStripe(i64);

impl GroupStripe {
    /// The stripe for reports of this executor. Reports of one executor are serialized, so they do not conflict in it.
    pub(super) fn of(executor: &ExecutorName) -> GroupStripe {
        let mut hasher = DefaultHasher::new();
        executor.hash(&mut hasher);
        GroupStripe::numbered(hasher.finish() % STRIPES)
    }

    /// A random stripe, so that a retry after a conflict writes another one.
    pub(super) fn random() -> GroupStripe {
        GroupStripe::numbered(random_u64() % SHARED_STRIPES)
    }

    fn numbered(number: u64) -> GroupStripe {
        GroupStripe(i64::try_from(number).unwrap_or(0))
    }
}

/// The id of a document of the MongoDB collection `groups`. The ids of one group's stripes are adjacent, and groups are in
/// the order of user and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StripeId {
    user: String,
    group: String,
    stripe: i64,
}

impl StripeId {
    pub(super) fn key(&self) -> Result<GroupKey, MongoFailure> {
        let user = UserName::new(self.user.as_str()).map_err(|error| unreadable("user's name", error))?;
        let group = GroupName::new(self.group.as_str()).map_err(|error| unreadable("group's name", error))?;
        Ok(GroupKey { user, group })
    }
}

/// A value in the order of stripe ids before or after all stripes of the group, by the number's place: `Bson::MinKey` or
/// `Bson::MaxKey`.
pub(super) fn stripe_bound(key: &GroupKey, stripe: Bson) -> Document {
    doc! { "user": key.user.to_bson(), "group": key.group.to_bson(), "stripe": stripe }
}

/// A document of the MongoDB collection `groups`: one stripe of the counters of a group. A counter of a stripe may be
/// negative; the sums over all stripes of the group are not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StripeDocument {
    #[serde(rename = "_id")]
    pub(super) id: StripeId,
    /// The number of writes to this document.
    pub(super) revision: i64,
    /// Distinguishes this document from an earlier one with the same id, which was removed.
    pub(super) created_as: Option<ObjectId>,
    /// By status.
    #[serde(default)]
    tally: BTreeMap<String, i64>,
    /// By the reason of failed tasks.
    #[serde(default)]
    reasons: BTreeMap<String, i64>,
    add_time: Option<i64>,
    last_finish: Option<i64>,
}

/// The sum of the stripes of one group in the MongoDB store.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupSum {
    statuses: BTreeMap<TaskStatus, i64>,
    /// By statuses that only newer versions know.
    newer_statuses: BTreeMap<String, i64>,
    reasons: BTreeMap<OutcomeReason, i64>,
    add_time: Option<UnixTime>,
    last_finish: Option<UnixTime>,
}

impl GroupSum {
    /// Reasons that this program does not know are left out.
    pub(super) fn add(&mut self, stripe: &StripeDocument) {
        for (status, count) in &stripe.tally {
            match status.parse() {
                Ok(status) => *self.statuses.entry(status).or_default() += count,
                Err(_) => *self.newer_statuses.entry(status.clone()).or_default() += count,
            }
        }
        for (reason, count) in &stripe.reasons {
            if let Ok(reason) = reason.parse() {
                *self.reasons.entry(reason).or_default() += count;
            }
        }
        let add_times = [self.add_time, stripe.add_time.map(UnixTime)];
        self.add_time = add_times.into_iter().flatten().min();
        self.last_finish = self.last_finish.max(stripe.last_finish.map(UnixTime));
    }

    /// Whether the group has no tasks, also none of a status that only newer versions know.
    pub(super) fn is_empty(&self) -> bool {
        let no_newer = self.newer_statuses.values().all(|count| *count == 0);
        no_newer && self.statuses.values().all(|count| *count <= 0)
    }

    /// `None` if the group has no tasks.
    pub(super) fn state(self, key: GroupKey) -> Option<GroupState> {
        let state = GroupState {
            key,
            counts: positive(self.statuses),
            unknown: positive(self.newer_statuses).values().sum(),
            reasons: positive(self.reasons),
            add_time: self.add_time.unwrap_or(UnixTime(0)),
            last_finish: self.last_finish,
        };
        (state.total() > 0).then_some(state)
    }
}

fn positive<K: Ord>(counters: BTreeMap<K, i64>) -> BTreeMap<K, u64> {
    let counters = counters.into_iter();
    counters
        .filter_map(|(key, count)| Some((key, u64::try_from(count).ok()?)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// The changes of groups that a transaction of the MongoDB store makes, by group.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupDeltas(BTreeMap<GroupKey, GroupDelta>);

/// The changes of one group's counters and times that a transaction of the MongoDB store makes.
#[derive(Clone, Debug, Default)]
struct GroupDelta {
    statuses: BTreeMap<TaskStatus, i64>,
    reasons: BTreeMap<OutcomeReason, i64>,
    add_time: Option<UnixTime>,
    last_finish: Option<UnixTime>,
}

impl GroupDeltas {
    pub(super) fn add(&mut self, task: &TaskState) {
        self.count(task, 1);
        if let Some(key) = task.group.as_ref().filter(|_| !task.retried) {
            let delta = self.0.entry(key.clone()).or_default();
            let earlier = [delta.add_time, Some(task.add_time)];
            delta.add_time = earlier.into_iter().flatten().min();
        }
    }

    pub(super) fn remove(&mut self, task: &TaskState) {
        self.count(task, -1);
    }

    pub(super) fn transition(&mut self, from: &TaskState, to: &TaskState, finish_time: Option<UnixTime>) {
        self.count(from, -1);
        self.count(to, 1);
        if let Some(key) = to.group.as_ref().filter(|_| finish_time.is_some() && !to.retried) {
            let delta = self.0.entry(key.clone()).or_default();
            delta.last_finish = delta.last_finish.max(finish_time);
        }
    }

    /// A task that another one repeats is not counted.
    fn count(&mut self, task: &TaskState, by: i64) {
        let Some(key) = task.group.as_ref().filter(|_| !task.retried) else {
            return;
        };
        let delta = self.0.entry(key.clone()).or_default();
        *delta.statuses.entry(task.status).or_default() += by;
        // A task that ends as `system_error` has a reason if it was judged, and no result otherwise.
        let has_failed = matches!(
            task.status,
            TaskStatus::RunFailed | TaskStatus::CompileFailed | TaskStatus::SystemError
        );
        if let Some(reason) = task.reason.filter(|_| has_failed) {
            *delta.reasons.entry(reason).or_default() += by;
        }
    }

    /// The updates of the groups that change, each `{q: condition, u: change}` with `upsert`.
    pub(super) fn updates(&self, stripe: GroupStripe) -> Vec<Document> {
        let updates = self.0.iter().filter_map(|(key, delta)| {
            let change = delta.change();
            let id = stripe_bound(key, stripe.0.into());
            (!change.is_empty()).then(|| doc! { "q": { "_id": id }, "u": change, "upsert": true })
        });
        updates.collect()
    }
}

impl GroupDelta {
    fn change(&self) -> Document {
        let statuses = self
            .statuses
            .iter()
            .map(|(status, by)| ("tally", status.as_str(), by));
        let reasons = self
            .reasons
            .iter()
            .map(|(reason, by)| ("reasons", reason.as_str(), by));
        let mut increments: Document = statuses
            .chain(reasons)
            .filter(|(_, _, by)| **by != 0)
            .map(|(field, name, by)| (format!("{field}.{name}"), (*by).into()))
            .collect();
        let mut change = Document::new();
        if let Some(time) = self.add_time {
            change.insert("$min", doc! { "add_time": time.to_bson() });
        }
        if let Some(time) = self.last_finish {
            change.insert("$max", doc! { "last_finish": time.to_bson() });
        }
        if !change.is_empty() || !increments.is_empty() {
            increments.insert("revision", 1_i64);
            change.insert("$inc", increments);
            change.insert("$setOnInsert", doc! { "created_as": ObjectId::new() });
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use model::{AttemptNumber, FailedAttempts, ReportSeq, ResourceRequest, TaskForm, TaskId};

    use super::*;

    fn task(status: TaskStatus, reason: Option<OutcomeReason>) -> TaskState {
        TaskState {
            id: TaskId(uuid::Uuid::from_u128(1)),
            form: TaskForm::CURRENT,
            group: Some(GroupKey {
                user: UserName::new("ada").unwrap(),
                group: GroupName::new("g").unwrap(),
            }),
            retried: false,
            priority: 0,
            add_time: UnixTime(5),
            status,
            executor: None,
            session: None,
            attempt: AttemptNumber(0),
            failed_attempts: FailedAttempts::default(),
            max_attempts: None,
            reason,
            resources: ResourceRequest::default(),
            requires: model::ToolRequirement::default(),
            assigned_in: ReportSeq(0),
            start_time: None,
            report_time: None,
        }
    }

    fn changes(make: impl FnOnce(&mut GroupDeltas)) -> Vec<Document> {
        let mut deltas = GroupDeltas::default();
        make(&mut deltas);
        let change = |update: Document| {
            let mut change = update.get_document("u").unwrap().clone();
            let created = change.remove("$setOnInsert").unwrap();
            assert!(created.as_document().unwrap().get_object_id("created_as").is_ok());
            change
        };
        deltas.updates(GroupStripe(3)).into_iter().map(change).collect()
    }

    #[test]
    fn a_group_counts_statuses_and_the_reasons_of_failures() {
        use OutcomeReason::{Exited, TimeLimit};
        use TaskStatus::{Pending, RunFailed, Running, Success};
        let finish = |status, reason| {
            changes(|deltas| {
                deltas.transition(&task(Running, None), &task(status, reason), Some(UnixTime(9)));
            })
        };
        let counted = |increments: Document| [doc! { "$max": { "last_finish": 9_i64 }, "$inc": increments }];
        assert_eq!(
            finish(Success, Some(Exited)),
            counted(doc! { "tally.running": -1_i64, "tally.success": 1_i64, "revision": 1_i64 })
        );
        assert_eq!(
            finish(RunFailed, Some(TimeLimit)),
            counted(doc! {
                "tally.running": -1_i64, "tally.run_failed": 1_i64, "reasons.time_limit": 1_i64, "revision": 1_i64,
            })
        );
        let added =
            doc! { "$min": { "add_time": 5_i64 }, "$inc": { "tally.pending": 2_i64, "revision": 1_i64 } };
        let add_two = |deltas: &mut GroupDeltas| (0..2).for_each(|_| deltas.add(&task(Pending, None)));
        assert_eq!(changes(add_two), [added]);
        // A claim changes no status, and a retried task is not counted.
        let claim =
            |deltas: &mut GroupDeltas| deltas.transition(&task(Pending, None), &task(Pending, None), None);
        assert_eq!(changes(claim), []);
        let retried = TaskState {
            retried: true,
            ..task(RunFailed, Some(Exited))
        };
        assert_eq!(changes(|deltas| deltas.remove(&retried)), []);
    }

    #[test]
    fn a_group_is_the_sum_of_its_stripes() {
        let stripe = |tally: &[(&str, i64)], add_time, last_finish| StripeDocument {
            id: StripeId {
                user: "ada".into(),
                group: "g".into(),
                stripe: 0,
            },
            revision: 1,
            created_as: None,
            tally: tally
                .iter()
                .map(|(name, count)| (name.to_string(), *count))
                .collect(),
            reasons: BTreeMap::new(),
            add_time,
            last_finish,
        };
        let sum = |stripes: &[StripeDocument]| {
            let mut sum = GroupSum::default();
            stripes.iter().for_each(|stripe| sum.add(stripe));
            let key = stripes[0].id.key().unwrap();
            (sum.is_empty(), sum.state(key))
        };
        let (is_empty, state) = sum(&[
            stripe(&[("pending", 3), ("later_status", 1)], Some(4), None),
            stripe(&[("pending", -3), ("success", 2), ("running", 1)], None, Some(8)),
            stripe(&[("running", -1), ("run_failed", 1)], Some(2), Some(7)),
        ]);
        assert!(!is_empty);
        let state = state.unwrap();
        let expected = [(TaskStatus::Success, 2), (TaskStatus::RunFailed, 1)];
        assert_eq!(state.counts, expected.into());
        assert_eq!(
            (state.add_time, state.last_finish),
            (UnixTime(2), Some(UnixTime(8)))
        );
        let sum_of = |first: (&str, i64), second: (&str, i64)| {
            sum(&[stripe(&[first], None, None), stripe(&[second], None, None)])
        };
        for status in ["success", "later_status"] {
            assert_eq!(sum_of((status, 1), (status, -1)), (true, None));
        }
        let (is_empty, state) = sum_of(("success", 0), ("later_status", 1));
        assert_eq!((is_empty, state.map(|state| state.unknown)), (false, Some(1)));
    }
}
