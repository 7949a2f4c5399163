use std::time::Duration;

use model::{GroupKey, GroupPage, GroupQuery, GroupState, InvalidField, UnixTime};

use super::ids::{parse_group, parse_user};
use super::{ParseMessage, micros, parse_each, parse_optional, parse_required, parse_text, proto};

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
        let count = |count: proto::Count| Ok((parse_text("status", &count.status)?, count.tasks));
        let reason = |count: proto::ReasonCount| Ok((parse_text("reason", &count.reason)?, count.tasks));
        Ok(GroupState {
            key: parse_required("key", self.key)?,
            counts: self
                .counts
                .into_iter()
                .map(count)
                .collect::<Result<_, InvalidField>>()?,
            reasons: self
                .reasons
                .into_iter()
                .map(reason)
                .collect::<Result<_, InvalidField>>()?,
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
            groups: parse_each("groups", self.groups)?,
            next: parse_optional("next", self.next)?,
        })
    }
}
