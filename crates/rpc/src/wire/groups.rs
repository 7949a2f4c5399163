use std::time::Duration;

use model::{GroupKey, GroupPage, GroupQuery, GroupState, InvalidField, StatusCounts, TaskQuery, UnixTime};

use super::ids::{encode_id, parse_group, parse_id, parse_user};
use super::{
    ParseMessage, micros, parse_known, parse_known_text, parse_optional, parse_required, parse_text, proto,
};
use crate::{CancelledTasks, RetriedTasks, RetryProgress};

/// A request for the state of a group, with the time for which the caller wants to wait until the group is done.
pub(crate) struct GroupWait {
    pub(crate) key: GroupKey,
    pub(crate) wait: Option<Duration>,
}

impl From<GroupWait> for proto::GroupRequest {
    fn from(request: GroupWait) -> Self {
        proto::GroupRequest {
            key: Some(request.key.into()),
            wait: request.wait.map(micros),
        }
    }
}

impl ParseMessage<GroupWait> for proto::GroupRequest {
    fn parse(self) -> Result<GroupWait, InvalidField> {
        Ok(GroupWait {
            key: parse_required("key", self.key)?,
            wait: self.wait.map(Duration::from_micros),
        })
    }
}

/// A request to retry a group, or to continue with that.
pub(crate) struct GroupRetry {
    pub(crate) key: GroupKey,
    pub(crate) continues: Option<RetryProgress>,
}

/// A request to retry the tasks that match a search, or to continue with that.
pub(crate) struct MatchingRetry {
    pub(crate) query: TaskQuery,
    pub(crate) continues: Option<RetryProgress>,
}

impl From<MatchingRetry> for proto::RetryMatchingRequest {
    fn from(request: MatchingRetry) -> Self {
        proto::RetryMatchingRequest {
            query: Some(request.query.into()),
            continues: request.continues.map(Into::into),
        }
    }
}

impl ParseMessage<MatchingRetry> for proto::RetryMatchingRequest {
    fn parse(self) -> Result<MatchingRetry, InvalidField> {
        Ok(MatchingRetry {
            query: parse_required("query", self.query)?,
            continues: parse_optional("continues", self.continues)?,
        })
    }
}

impl From<GroupRetry> for proto::RetryGroupRequest {
    fn from(request: GroupRetry) -> Self {
        let proto::GroupKey { user, group } = request.key.into();
        proto::RetryGroupRequest {
            user,
            group,
            continues: request.continues.map(Into::into),
        }
    }
}

impl ParseMessage<GroupRetry> for proto::RetryGroupRequest {
    fn parse(self) -> Result<GroupRetry, InvalidField> {
        let (user, group) = (self.user, self.group);
        Ok(GroupRetry {
            key: proto::GroupKey { user, group }.parse()?,
            continues: parse_optional("continues", self.continues)?,
        })
    }
}

impl From<RetryProgress> for proto::GroupRetryProgress {
    fn from(progress: RetryProgress) -> Self {
        proto::GroupRetryProgress {
            until: progress.until.0,
            after: progress.after.map(|cursor| cursor.to_string()),
        }
    }
}

impl ParseMessage<RetryProgress> for proto::GroupRetryProgress {
    fn parse(self) -> Result<RetryProgress, InvalidField> {
        let after = self.after.map(|cursor| parse_text("after", &cursor));
        Ok(RetryProgress {
            until: UnixTime(self.until),
            after: after.transpose()?,
        })
    }
}

impl From<RetriedTasks> for proto::RetriedTasks {
    fn from(retried: RetriedTasks) -> Self {
        proto::RetriedTasks {
            ids: retried.ids.into_iter().map(|id| encode_id(id.0)).collect(),
            next: retried.next.map(Into::into),
        }
    }
}

impl ParseMessage<RetriedTasks> for proto::RetriedTasks {
    fn parse(self) -> Result<RetriedTasks, InvalidField> {
        let ids = self.ids.iter().map(|id| parse_id("ids", id));
        Ok(RetriedTasks {
            ids: ids.collect::<Result<_, _>>()?,
            next: parse_optional("next", self.next)?,
        })
    }
}

impl From<CancelledTasks> for proto::CancelledTasks {
    fn from(answer: CancelledTasks) -> Self {
        proto::CancelledTasks {
            cancelled: answer.cancelled,
            next: answer.next.map(|cursor| cursor.to_string()),
        }
    }
}

impl ParseMessage<CancelledTasks> for proto::CancelledTasks {
    fn parse(self) -> Result<CancelledTasks, InvalidField> {
        let next = self.next.map(|cursor| parse_text("next", &cursor));
        Ok(CancelledTasks {
            cancelled: self.cancelled,
            next: next.transpose()?,
        })
    }
}

impl From<GroupKey> for proto::GroupKey {
    fn from(key: GroupKey) -> Self {
        proto::GroupKey {
            user: key.user.to_string(),
            group: key.group.to_string(),
        }
    }
}

impl ParseMessage<GroupKey> for proto::GroupKey {
    fn parse(self) -> Result<GroupKey, InvalidField> {
        Ok(GroupKey {
            user: parse_user(self.user)?,
            group: parse_group(self.group)?,
        })
    }
}

impl From<GroupState> for proto::GroupState {
    fn from(state: GroupState) -> Self {
        let count = |(status, tasks): (model::TaskStatus, u64)| proto::Count {
            status: status.to_string(),
            tasks,
        };
        let reason = |(reason, tasks): (model::OutcomeReason, u64)| proto::ReasonCount {
            reason: reason.to_string(),
            tasks,
        };
        proto::GroupState {
            key: Some(state.key.into()),
            counts: state.counts.into_iter().map(count).collect(),
            reasons: state.reasons.into_iter().map(reason).collect(),
            add_time: state.add_time.0,
            last_finish: state.last_finish.map(|time| time.0),
        }
    }
}

impl ParseMessage<GroupState> for proto::GroupState {
    fn parse(self) -> Result<GroupState, InvalidField> {
        let mut counts = StatusCounts::new();
        let mut unknown = 0_u64;
        for proto::Count { status, tasks } in self.counts {
            match parse_known_text("counts.status", &status) {
                Some(status) => drop(counts.insert(status, tasks)),
                None => unknown = unknown.saturating_add(tasks),
            }
        }
        let reason =
            |count: proto::ReasonCount| Some((parse_known_text("reasons", &count.reason)?, count.tasks));
        Ok(GroupState {
            key: parse_required("key", self.key)?,
            counts,
            unknown,
            reasons: self.reasons.into_iter().filter_map(reason).collect(),
            add_time: UnixTime(self.add_time),
            last_finish: self.last_finish.map(UnixTime),
        })
    }
}

impl From<GroupQuery> for proto::GroupQuery {
    fn from(query: GroupQuery) -> Self {
        proto::GroupQuery {
            user: query.user.map(|user| user.to_string()),
            after: query.after.map(Into::into),
            limit: u32::try_from(query.limit).unwrap_or(u32::MAX),
        }
    }
}

impl ParseMessage<GroupQuery> for proto::GroupQuery {
    fn parse(self) -> Result<GroupQuery, InvalidField> {
        Ok(GroupQuery {
            user: self.user.map(parse_user).transpose()?,
            after: parse_optional("after", self.after)?,
            limit: self.limit as usize,
        })
    }
}

impl From<GroupPage> for proto::GroupPage {
    fn from(page: GroupPage) -> Self {
        proto::GroupPage {
            groups: page.groups.into_iter().map(Into::into).collect(),
            next: page.next.map(Into::into),
        }
    }
}

impl ParseMessage<GroupPage> for proto::GroupPage {
    fn parse(self) -> Result<GroupPage, InvalidField> {
        Ok(GroupPage {
            groups: parse_known("groups", self.groups),
            next: parse_optional("next", self.next)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use model::{OutcomeReason, TaskStatus};

    use super::*;

    /// The tasks with an unknown status still belong to the group, which is not done without them.
    #[test]
    fn counts_that_a_newer_version_sent_are_put_aside() {
        let count = |status: &str, tasks| proto::Count {
            status: status.into(),
            tasks,
        };
        let reason = |reason: &str, tasks| proto::ReasonCount {
            reason: reason.into(),
            tasks,
        };
        let sent = proto::GroupState {
            key: Some(proto::GroupKey {
                user: "ada".into(),
                group: "sweep".into(),
            }),
            counts: vec![count("success", 5), count("hibernating", 2)],
            reasons: vec![reason("time_limit", 3), reason("moon_phase", 1)],
            ..proto::GroupState::default()
        };
        let state: GroupState = sent.parse().unwrap();
        assert_eq!(state.counts, [(TaskStatus::Success, 5)].into());
        assert_eq!(state.reasons, [(OutcomeReason::TimeLimit, 3)].into());
        assert_eq!((state.total(), state.done(), state.is_done()), (7, 5, false));
    }
}
