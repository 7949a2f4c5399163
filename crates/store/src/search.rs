//! What both stores decide in the same way about a search: which index it scans, how long a page is, and how many
//! tasks it may examine for one.

mod text_matcher;

use model::{GroupQuery, StatusCounts, TaskQuery, TaskStatus};

pub(crate) use self::text_matcher::TextMatcher;

/// How many tasks a search examines for one page. A search that no index answers, for example for a text, stops there
/// and returns a cursor to continue from.
pub const SEARCH_SCAN_LIMIT: usize = 10_000;

/// How many tasks a count examines at most. It reads every one of them, and a page waits for it: with 10,000 it took 50 ms of
/// CPU time, with 2,000 it took 10 ms.
pub(crate) const COUNT_SCAN_LIMIT: usize = 2_000;

/// How many text searches may wait for a connection.
pub(crate) const MAX_WAITING_TEXT_SEARCHES: usize = 128;
/// How many other searches may wait for a connection. Each takes milliseconds.
pub(crate) const MAX_WAITING_LISTS: usize = 512;

const DEFAULT_PAGE_LENGTH: usize = 50;

/// The database index that a task search scans, in both stores: the narrowest one that the query allows. The store
/// checks the query's other conditions on each task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SearchIndex {
    Ids,
    IdRange,
    /// Only held tasks have an executor, so this index is small.
    Executor,
    /// The tasks of a group; if the query has a user, only those of the group of this user.
    Group,
    /// The tasks with the first label of the query; if the query has a user, only those of this user.
    Label,
    User,
    /// One index scan for each status, merged.
    Statuses(Vec<TaskStatus>),
    All,
}

impl SearchIndex {
    /// `counts` is used only if `needs_counts`. For a query with a user and statuses, the status index is the better
    /// one as long as no more than `scan_limit` tasks have these statuses.
    pub(crate) fn choose(query: &TaskQuery, counts: &StatusCounts, scan_limit: usize) -> SearchIndex {
        let mut statuses = query.statuses.clone();
        statuses.sort_unstable();
        statuses.dedup();
        if !query.ids.is_empty() {
            return SearchIndex::Ids;
        }
        if is_ordered_by_id(query) {
            return SearchIndex::IdRange;
        }
        if query.executor.is_some() {
            return SearchIndex::Executor;
        }
        if query.group.is_some() {
            return SearchIndex::Group;
        }
        if !query.labels.is_empty() {
            return SearchIndex::Label;
        }
        let with_status = || {
            statuses
                .iter()
                .filter_map(|status| counts.get(status))
                .sum::<u64>()
        };
        match (&query.user, statuses.len()) {
            (Some(_), 0) => SearchIndex::User,
            (Some(_), _) if query.id_prefix.is_some() => SearchIndex::User,
            (Some(_), _) if with_status() > scan_limit as u64 => SearchIndex::User,
            (None, 0) => SearchIndex::All,
            (None, known) if known == TaskStatus::ALL.len() => SearchIndex::All,
            _ => SearchIndex::Statuses(statuses),
        }
    }

    /// Whether the scan may stop at the scan limit. The cursor then names the last examined task, and a user's search
    /// must not reveal a task of another user. So a scan that can meet such tasks runs to its end: these indexes are
    /// small.
    pub(crate) fn may_stop_at_scan_limit(&self, query: &TaskQuery) -> bool {
        let has_only_own_tasks = matches!(self, SearchIndex::User | SearchIndex::Group | SearchIndex::Label);
        query.user.is_none() || has_only_own_tasks
    }

    pub(crate) fn needs_counts(query: &TaskQuery) -> bool {
        query.ids.is_empty()
            && query.id_prefix.is_none()
            && query.executor.is_none()
            && query.group.is_none()
            && query.labels.is_empty()
            && query.user.is_some()
            && !query.statuses.is_empty()
    }
}

/// Whether the results are sorted by task id instead of by add time. A user's search is always sorted by add time,
/// because a scan of the id index would meet the tasks of other users.
pub(crate) fn is_ordered_by_id(query: &TaskQuery) -> bool {
    query.id_prefix.is_some() && query.user.is_none()
}

pub(crate) fn page_length(query: &TaskQuery) -> usize {
    match query.limit {
        0 => DEFAULT_PAGE_LENGTH,
        limit => limit.min(TaskQuery::MAX_PAGE),
    }
}

pub(crate) fn group_page_length(query: &GroupQuery) -> usize {
    match query.limit {
        0 => DEFAULT_PAGE_LENGTH,
        limit => limit.min(GroupQuery::MAX_PAGE),
    }
}
