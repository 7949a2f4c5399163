//! What every store decides alike about a search: which index leads to the tasks, how long a page is, and how many
//! tasks may be looked at for it.

mod needle;

use model::{Counts, Query, Status};

pub(crate) use self::needle::Needle;

/// How many tasks are looked at for one page. A search that no index answers, like one for a text, stops there and
/// says where the next page goes on.
pub const SEARCH_WINDOW: usize = 10_000;

/// Searches for a text that run at the same time, and that wait.
pub(crate) const TEXTS_WAITING: usize = 128;
/// Lists that wait. Each takes milliseconds.
pub(crate) const LISTS_WAITING: usize = 512;

const DEFAULT_LIMIT: usize = 50;
/// The narrowest index that the query allows. What else it asks for is checked task by task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Ids,
    IdRange,
    /// Only held tasks have an executor, so these are few.
    Executor,
    User,
    /// Each of these, merged.
    Statuses(Vec<Status>),
    All,
}

impl Way {
    /// `counts` matters only where `needs_counts` says so. Up to `window` tasks with one of the statuses, looking at
    /// each of them beats looking at a user's.
    pub(crate) fn of(query: &Query, counts: &Counts, window: usize) -> Way {
        let mut statuses = query.statuses.clone();
        statuses.sort_unstable();
        statuses.dedup();
        if !query.ids.is_empty() {
            return Way::Ids;
        }
        if in_order_of_ids(query) {
            return Way::IdRange;
        }
        if query.executor.is_some() {
            return Way::Executor;
        }
        let with_status = || {
            statuses
                .iter()
                .filter_map(|status| counts.get(status))
                .sum::<u64>()
        };
        match (&query.user, statuses.len()) {
            (Some(_), 0) => Way::User,
            (Some(_), _) if query.id_prefix.is_some() => Way::User,
            (Some(_), _) if with_status() > window as u64 => Way::User,
            (None, 0) => Way::All,
            (None, known) if known == Status::ALL.len() => Way::All,
            _ => Way::Statuses(statuses),
        }
    }

    /// Whether the walk stops after a window, and the cursor names the task where it did. A user's search must not name
    /// a task of another user. So where it meets such tasks it goes on to the end: these ways are short.
    pub(crate) fn stops_after_a_window(&self, query: &Query) -> bool {
        query.user.is_none() || *self == Way::User
    }

    pub(crate) fn needs_counts(query: &Query) -> bool {
        query.ids.is_empty()
            && query.id_prefix.is_none()
            && query.executor.is_none()
            && query.user.is_some()
            && !query.statuses.is_empty()
    }
}

/// Other lists are in the order of add times. A user's tasks are looked at along an index in that order, for one over
/// ids would lead past the tasks of others.
pub(crate) fn in_order_of_ids(query: &Query) -> bool {
    query.id_prefix.is_some() && query.user.is_none()
}

pub(crate) fn page_length(query: &Query) -> usize {
    match query.limit {
        0 => DEFAULT_LIMIT,
        limit => limit.min(Query::LIMIT),
    }
}
