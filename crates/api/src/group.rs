//! Groups of tasks in JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{GroupKey, GroupName, GroupQuery, InvalidField, TaskId, TaskStatus, UnixTime, UserName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{parse, schema, serde_text};

/// The state of a group: how many tasks it has by status, and why some of them failed. A task that was retried is not
/// counted; the task that repeats it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Group)]
pub struct GroupState {
    #[serde(with = "serde_text::group")]
    #[schema(value_type = String, example = "sweep-17")]
    pub group: GroupName,
    /// The owner of the tasks. Groups of different users are different groups.
    #[serde(with = "serde_text::user")]
    #[schema(value_type = String, example = "alice")]
    pub user: UserName,
    /// Number of tasks.
    pub total: u64,
    /// Number of tasks that are done.
    pub done: u64,
    /// Number of tasks by status. Every status is present.
    pub counts: BTreeMap<String, u64>,
    /// Why tasks failed: number of failed tasks by the reason of their last step.
    pub reasons: BTreeMap<String, u64>,
    /// When the first task was added.
    #[serde(with = "serde_text::time")]
    #[schema(value_type = schema::Time)]
    pub add_time: UnixTime,
    /// When the last task finished; null until all are done.
    #[serde(with = "serde_text::optional::time")]
    #[schema(value_type = Option<schema::Time>)]
    pub finish_time: Option<UnixTime>,
    /// How long the remaining tasks take at the rate so far; null if no task has finished or none remains.
    #[serde(default)]
    #[schema(required = true)]
    pub estimate_seconds: Option<f64>,
}

/// A page of the list of groups, sorted by user and name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Groups)]
pub struct GroupPage {
    pub groups: Vec<GroupState>,
    /// The value of `after` for the next page; null on the last page.
    #[schema(value_type = Option<String>)]
    pub next: Option<GroupCursor>,
}

/// Where a page of the list of groups ended: the last group on it. In JSON and URLs it is the text `user/group`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCursor(pub GroupKey);

/// The response to a request that cancels all tasks that match a filter, or all tasks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Cancelled)]
pub struct CancelledTasks {
    /// Number of tasks that the request cancelled.
    pub cancelled: u64,
}

/// The response to a request that retries what did not succeed in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Retried)]
pub struct RetriedTasks {
    /// The ids of the new tasks.
    #[serde(with = "task_ids")]
    #[schema(value_type = Vec<schema::Id>)]
    pub tasks: Vec<TaskId>,
    /// Present and true if the time of the request was over before all tasks were retried. Send it again to retry the rest.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(required = false)]
    pub more: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

mod task_ids {
    use model::TaskId;
    use serde::de::{Deserialize, Deserializer};
    use serde::ser::Serializer;

    use crate::serde_text;

    /// The id of a retried task, which is text in JSON.
    #[derive(serde::Deserialize)]
    struct TaskIdText(#[serde(with = "serde_text::task")] TaskId);

    pub(super) fn serialize<S: Serializer>(ids: &[TaskId], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(ids.iter().map(ToString::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TaskId>, D::Error> {
        let ids: Vec<TaskIdText> = Vec::deserialize(deserializer)?;
        Ok(ids.into_iter().map(|TaskIdText(id)| id).collect())
    }
}

impl From<model::GroupState> for GroupState {
    fn from(state: model::GroupState) -> GroupState {
        let (total, done, finish_time) = (state.total(), state.done(), state.finish_time());
        let estimate = estimate(&state);
        let model::GroupState {
            key: GroupKey { user, group },
            counts,
            unknown: _,
            reasons,
            add_time,
            last_finish: _,
        } = state;
        let count = |status: TaskStatus| counts.get(&status).copied().unwrap_or(0);
        GroupState {
            group,
            user,
            total,
            done,
            counts: TaskStatus::ALL
                .into_iter()
                .map(|status| (status.to_string(), count(status)))
                .collect(),
            reasons: reasons
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(reason, count)| (reason.to_string(), count))
                .collect(),
            add_time,
            finish_time,
            estimate_seconds: estimate.map(|estimate| estimate.as_secs_f64()),
        }
    }
}

/// How long the remaining tasks take at the rate so far. Both times come from the store: the clock of this machine may
/// differ. Cancelled tasks took no time, so they do not count.
fn estimate(state: &model::GroupState) -> Option<Duration> {
    let cancelled = state.counts.get(&TaskStatus::Cancelled).copied().unwrap_or(0);
    let remaining = state.total() - state.done();
    let finished = (state.done() - cancelled.min(state.done())) as f64;
    let spent = state.last_finish?.since(state.add_time).as_secs_f64();
    (remaining > 0 && finished > 0.0)
        .then(|| Duration::try_from_secs_f64(spent / finished * remaining as f64).ok())
        .flatten()
}

impl From<model::GroupPage> for GroupPage {
    fn from(model::GroupPage { groups, next }: model::GroupPage) -> GroupPage {
        GroupPage {
            groups: groups.into_iter().map(Into::into).collect(),
            next: next.map(GroupCursor),
        }
    }
}

impl std::fmt::Display for GroupCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.0.user, self.0.group)
    }
}

impl std::str::FromStr for GroupCursor {
    type Err = String;

    /// A group's name has no slash, but a user's name may have one.
    fn from_str(text: &str) -> Result<GroupCursor, String> {
        let parse = || {
            let (user, group) = text.rsplit_once('/')?;
            let (user, group) = (UserName::new(user).ok()?, GroupName::new(group).ok()?);
            Some(GroupCursor(GroupKey { user, group }))
        };
        parse().ok_or_else(|| {
            format!("'{text}' is not a cursor; use the `next` value of an earlier answer unchanged")
        })
    }
}

impl Serialize for GroupCursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GroupCursor {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<GroupCursor, D::Error> {
        serde_text::deserialize_text(deserializer, "a cursor as text", str::parse)
    }
}

/// The length of a page if `limit` is not given.
const DEFAULT_LIMIT: usize = 100;

const PARAMETERS: [&str; 3] = ["user", "after", "limit"];

/// Parses the query parameters of a list of groups. An empty value counts as not given.
pub fn parse_group_query<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<GroupQuery, InvalidField> {
    let mut query = GroupQuery {
        limit: DEFAULT_LIMIT,
        ..GroupQuery::default()
    };
    for (name, value) in pairs {
        let invalid = |problem: String| InvalidField::new(name, problem);
        match name {
            _ if !PARAMETERS.contains(&name) => {
                return Err(invalid(parse::unknown_name("parameter", name, &PARAMETERS)));
            }
            _ if value.is_empty() => {}
            "user" => {
                query.user = Some(UserName::new(value).map_err(|error| invalid(error.to_string()))?);
            }
            "after" => {
                let GroupCursor(after) = value.parse().map_err(invalid)?;
                query.after = Some(after);
            }
            _ => {
                let bounds = 1..=GroupQuery::MAX_PAGE;
                query.limit = value
                    .parse()
                    .ok()
                    .filter(|limit| bounds.contains(limit))
                    .ok_or_else(|| {
                        invalid(format!(
                            "'{value}' is not a whole number from 1 to {}",
                            GroupQuery::MAX_PAGE
                        ))
                    })?;
            }
        }
    }
    Ok(query)
}

#[cfg(test)]
mod tests {
    use model::OutcomeReason;

    use super::*;

    fn key(user: &str, group: &str) -> GroupKey {
        GroupKey {
            user: UserName::new(user).unwrap(),
            group: GroupName::new(group).unwrap(),
        }
    }

    fn state(counts: &[(TaskStatus, u64)]) -> GroupState {
        model::GroupState {
            key: key("alice", "sweep-17"),
            counts: counts.iter().copied().collect(),
            unknown: 0,
            reasons: [(OutcomeReason::TimeLimit, 4), (OutcomeReason::Exited, 0)].into(),
            add_time: UnixTime(1_767_225_600_000_000),
            last_finish: Some(UnixTime(1_767_225_610_000_000)),
        }
        .into()
    }

    #[test]
    fn a_group_in_a_response() {
        let group = state(&[(TaskStatus::Success, 8), (TaskStatus::Running, 4)]);
        let json = serde_json::to_value(&group).unwrap();
        assert_eq!(
            (&json["group"], &json["user"]),
            (&"sweep-17".into(), &"alice".into())
        );
        assert_eq!((&json["total"], &json["done"]), (&12.into(), &8.into()));
        assert_eq!(json["counts"]["success"], 8);
        assert_eq!(json["counts"]["pending"], 0);
        assert_eq!(json["reasons"], serde_json::json!({"time_limit": 4}));
        assert!(json["finish_time"].is_null());
        assert_eq!(serde_json::from_value::<GroupState>(json).unwrap(), group);
    }

    #[test]
    fn the_estimate_follows_from_the_tasks_that_ran() {
        let check = |counts: &[(TaskStatus, u64)], expected: Option<f64>| {
            assert_eq!(state(counts).estimate_seconds, expected, "{counts:?}");
        };
        let (success, pending, cancelled) = (TaskStatus::Success, TaskStatus::Pending, TaskStatus::Cancelled);
        check(&[(success, 8), (pending, 4)], Some(5.0));
        check(&[(success, 8), (cancelled, 100), (pending, 4)], Some(5.0));
        check(&[(success, 8)], None);
        check(&[(pending, 8)], None);
        check(&[(cancelled, 1), (pending, 8)], None);
        check(&[], None);
    }

    #[test]
    fn a_list_continues_after_a_group() {
        let page = GroupPage {
            groups: vec![],
            next: Some(GroupCursor(key("lab/ada", "g 1"))),
        };
        let json = serde_json::to_value(&page).unwrap();
        assert_eq!(json["next"], "lab/ada/g 1");
        assert_eq!(serde_json::from_value::<GroupPage>(json).unwrap(), page);
        let query = parse_group_query([("after", "lab/ada/g 1"), ("user", ""), ("limit", "7")]).unwrap();
        assert_eq!(
            (query.after, query.user, query.limit),
            (Some(key("lab/ada", "g 1")), None, 7)
        );
        let check = |name: &str, value: &str, problem: &str| {
            let invalid = parse_group_query([(name, value)]).unwrap_err();
            assert_eq!(invalid.field, name);
            assert!(invalid.problem.contains(problem), "{invalid}");
        };
        check("after", "x", "not a cursor");
        check("limit", "0", "from 1 to 1000");
        check("limit", "1001", "from 1 to 1000");
        check("usr", "x", "did you mean 'user'?");
    }
}
