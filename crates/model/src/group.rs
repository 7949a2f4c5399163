//! Groups: sets of tasks of one user that are followed as one.

use std::collections::BTreeMap;

use crate::{GroupName, OutcomeReason, StatusCounts, TaskStatus, UnixTime, UserName};

/// Identifies a group of tasks: its user, and the name that the user's tasks carry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    pub user: UserName,
    pub group: GroupName,
}

/// The state of a group of tasks: how many there are by status, why some failed, and when they were added and finished.
///
/// A task that was retried is no longer counted: the task that repeats it is counted in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    pub key: GroupKey,
    pub counts: StatusCounts,
    /// Tasks with a status that only newer versions know. They are taken as not done.
    pub unknown: u64,
    /// Why tasks of the group failed (`run_failed`, `compile_failed`), by the reason of their last step.
    pub reasons: BTreeMap<OutcomeReason, u64>,
    /// When the first task was added.
    pub add_time: UnixTime,
    /// When a task last finished.
    pub last_finish: Option<UnixTime>,
}

/// A request for a list of groups: in the order of user and name, after the given group.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GroupQuery {
    pub user: Option<UserName>,
    pub after: Option<GroupKey>,
    pub limit: usize,
}

/// One page of a list of groups.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GroupPage {
    pub groups: Vec<GroupState>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<GroupKey>,
}

impl GroupQuery {
    /// The largest page, in groups.
    pub const MAX_PAGE: usize = 1000;
}

impl GroupState {
    pub fn total(&self) -> u64 {
        self.counts.values().sum::<u64>().saturating_add(self.unknown)
    }

    pub fn done(&self) -> u64 {
        self.sum_of(TaskStatus::is_done)
    }

    /// Whether the group has tasks, and all of them are done.
    pub fn is_done(&self) -> bool {
        self.total() > 0 && self.done() == self.total()
    }

    /// When the last task finished, if all are done.
    pub fn finish_time(&self) -> Option<UnixTime> {
        self.last_finish.filter(|_| self.is_done())
    }

    fn sum_of(&self, counted: impl Fn(TaskStatus) -> bool) -> u64 {
        let counts = self.counts.iter().filter(|(status, _)| counted(**status));
        counts.map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_done_when_all_of_its_tasks_are() {
        let state = |counts: &[(TaskStatus, u64)]| GroupState {
            key: GroupKey {
                user: UserName::new("ada").unwrap(),
                group: GroupName::new("sweep").unwrap(),
            },
            counts: counts.iter().copied().collect(),
            unknown: 0,
            reasons: BTreeMap::new(),
            add_time: UnixTime(1),
            last_finish: Some(UnixTime(7)),
        };
        let running = state(&[(TaskStatus::Success, 2), (TaskStatus::Running, 1)]);
        assert_eq!(
            (running.total(), running.done(), running.finish_time()),
            (3, 2, None)
        );
        let done = state(&[
            (TaskStatus::Success, 2),
            (TaskStatus::Cancelled, 1),
            (TaskStatus::Pending, 0),
        ]);
        assert_eq!(
            (done.total(), done.done(), done.finish_time()),
            (3, 3, Some(UnixTime(7)))
        );
        assert!(!state(&[]).is_done());
    }
}
