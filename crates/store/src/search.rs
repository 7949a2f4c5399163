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
/// Below this many tasks with one of the statuses, looking at each of them beats looking at a user's.
const FEW: u64 = 10_000;

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
    /// `counts` matters only where `needs_counts` says so.
    pub(crate) fn of(query: &Query, counts: &Counts) -> Way {
        let mut statuses = query.statuses.clone();
        statuses.sort_unstable();
        statuses.dedup();
        if !query.ids.is_empty() {
            return Way::Ids;
        }
        if query.id_prefix.is_some() {
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
            (Some(_), _) if with_status() >= FEW => Way::User,
            (None, 0) => Way::All,
            (None, known) if known == Status::ALL.len() => Way::All,
            _ => Way::Statuses(statuses),
        }
    }

    pub(crate) fn needs_counts(query: &Query) -> bool {
        query.ids.is_empty()
            && query.id_prefix.is_none()
            && query.executor.is_none()
            && query.user.is_some()
            && !query.statuses.is_empty()
    }
}

pub(crate) fn page_length(query: &Query) -> usize {
    match query.limit {
        0 => DEFAULT_LIMIT,
        limit => limit.min(Query::LIMIT),
    }
}
