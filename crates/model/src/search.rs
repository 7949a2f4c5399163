//! Searching for tasks: filters, order and pages.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::{
    AttemptNumber, ExecutorName, GroupName, InvalidField, Labels, LanguageName, OutcomeReason, TaskId,
    TaskIdPrefix, TaskStatus, UnixTime, UserName,
};

/// A search for tasks in the store: filters, order and page. A task must match every filter that is set.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TaskQuery {
    pub ids: Vec<TaskId>,
    /// Matches ids with this prefix. Unless a user is set too, tasks are then listed in the order of their ids, so that the
    /// search reads no others. The ids that Conclave makes rise with time.
    pub id_prefix: Option<TaskIdPrefix>,
    pub user: Option<UserName>,
    /// Matches any of these; empty matches all.
    pub statuses: Vec<TaskStatus>,
    /// Matches tasks whose last step ended for any of these reasons; empty matches all.
    pub reasons: Vec<OutcomeReason>,
    /// Matches tasks that have all of these labels.
    pub labels: Labels,
    pub group: Option<GroupName>,
    /// Matches tasks with this row of the language table.
    pub language: Option<LanguageName>,
    /// Matches tasks that another task repeats, or those that none does.
    pub retried: Option<bool>,
    pub executor: Option<ExecutorName>,
    /// Matches tasks added at or after this time.
    pub from: Option<UnixTime>,
    /// Matches tasks added before this time.
    pub until: Option<UnixTime>,
    /// Matches a part of the execute or compile command, ignoring case.
    pub text: Option<String>,
    pub order: SortOrder,
    pub limit: usize,
    pub after: Option<SearchCursor>,
}

/// The order of the tasks in a search result, by the time at which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SortOrder {
    Oldest,
    #[default]
    Newest,
}

/// Where a page of a task search ended: the last task on it, and the search that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchCursor {
    pub add_time: UnixTime,
    pub id: TaskId,
    /// The `TaskQuery::fingerprint` of the search that made the cursor. The cursor is valid only for that search.
    pub fingerprint: u32,
}

/// One page of the result of a search for tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub tasks: Vec<TaskSummary>,
    pub next: Option<SearchCursor>,
    /// Whether the page is as full as it can be. If not, the search read only part of the tasks, and `next` is where to
    /// continue, even if the page is empty.
    pub complete: bool,
}

/// A task as it is shown in a list of search results: its main fields, without files and outcomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSummary {
    pub id: TaskId,
    pub user: UserName,
    pub priority: i32,
    /// The execute command on one line, shortened by `shorten_command`.
    pub command: String,
    pub status: TaskStatus,
    /// Why the last step of a finished task ended.
    pub reason: Option<OutcomeReason>,
    pub labels: Labels,
    pub group: Option<GroupName>,
    pub language: Option<LanguageName>,
    pub executor: Option<ExecutorName>,
    pub attempt: AttemptNumber,
    pub add_time: UnixTime,
    pub start_time: Option<UnixTime>,
    pub finish_time: Option<UnixTime>,
}

impl TaskSummary {
    /// The longest command in a list, in bytes. A command may have 64 KiB, and a page a thousand tasks.
    pub const MAX_COMMAND_BYTES: usize = 1 << 10;

    /// Replaces the rest of a longer command by `…`.
    pub fn shorten_command(whole: &str) -> String {
        if whole.len() <= TaskSummary::MAX_COMMAND_BYTES {
            return whole.to_string();
        }
        let mut end = TaskSummary::MAX_COMMAND_BYTES - '…'.len_utf8();
        while !whole.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}…", &whole[..end])
    }
}

/// How many tasks match a search, by status.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TaskCounts {
    pub counts: StatusCounts,
    /// Whether all tasks were examined. If not, there may be more than these.
    pub complete: bool,
}

/// The number of tasks in the store for each status.
pub type StatusCounts = BTreeMap<TaskStatus, u64>;

impl TaskQuery {
    /// The largest page, in tasks. Also the most ids in one query.
    pub const MAX_PAGE: usize = 1000;
    /// The longest `text`, in characters.
    pub const MAX_TEXT: usize = 1024;

    /// Refuses a query that is too large.
    pub fn check(&self) -> Result<(), InvalidField> {
        let too_many =
            |ids: usize| InvalidField::over_limit("id", "is given too many times", TaskQuery::MAX_PAGE, ids);
        let too_long = |length: usize| {
            let problem = format!("may have up to {} characters", TaskQuery::MAX_TEXT);
            InvalidField::over_limit("text", problem, TaskQuery::MAX_TEXT, length)
        };
        let text = self.text.as_ref().map_or(0, |text| text.chars().count());
        match (self.ids.len(), text) {
            (ids, _) if ids > TaskQuery::MAX_PAGE => Err(too_many(ids)),
            (_, length) if length > TaskQuery::MAX_TEXT => Err(too_long(length)),
            _ => Ok(()),
        }
    }

    /// Whether it has a condition, so that it does not match every task. Order and page are none.
    pub fn has_filter(&self) -> bool {
        let TaskQuery {
            ids,
            id_prefix,
            user,
            statuses,
            reasons,
            labels,
            group,
            language,
            retried,
            executor,
            from,
            until,
            text,
            order: _,
            limit: _,
            after: _,
        } = self;
        !ids.is_empty()
            || id_prefix.is_some()
            || user.is_some()
            || !statuses.is_empty()
            || !reasons.is_empty()
            || !labels.is_empty()
            || group.is_some()
            || language.is_some()
            || retried.is_some()
            || executor.is_some()
            || from.is_some()
            || until.is_some()
            || text.is_some()
    }

    /// Refuses a query that matches every task, for a call that changes all tasks that match.
    pub fn require_filter(&self) -> Result<(), InvalidField> {
        match self.has_filter() {
            true => Ok(()),
            false => {
                let problem = "set at least one, such as a user, a group, a label or a status";
                Err(InvalidField::new("filter", problem))
            }
        }
    }

    /// A number that identifies the filters and the order, but not the page.
    pub fn fingerprint(&self) -> u32 {
        let TaskQuery {
            ids,
            id_prefix,
            user,
            statuses,
            reasons,
            labels,
            group,
            language,
            retried,
            executor,
            from,
            until,
            text,
            order,
            limit: _,
            after: _,
        } = self;
        // The names `Moment` and `IdPrefix` are those of the first version. They must stay, and later filters are added
        // only if they are set, so that cursors stay valid across versions.
        let time = |time: &Option<UnixTime>| match time {
            Some(UnixTime(micros)) => format!("Some(Moment({micros}))"),
            None => "None".to_string(),
        };
        let (from, until) = (time(from), time(until));
        let mut text = format!("{ids:?}{user:?}{statuses:?}{executor:?}{from}{until}{text:?}{order:?}");
        if let Some(prefix) = id_prefix {
            text += &format!("IdPrefix({prefix})");
        }
        if !reasons.is_empty() {
            text += &format!("Reasons({reasons:?})");
        }
        for (key, value) in labels.iter() {
            text += &format!("Label({key}:{value:?})");
        }
        if let Some(group) = group {
            text += &format!("Group({group:?})");
        }
        if let Some(retried) = retried {
            text += &format!("Retried({retried})");
        }
        if let Some(language) = language {
            text += &format!("Language({language})");
        }
        // FNV-1a, because the value must be the same in every process and version. The hasher of std does not promise
        // that.
        text.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        })
    }

    pub fn cursor_after(&self, last: &TaskSummary) -> SearchCursor {
        self.cursor_at(last.add_time, last.id)
    }

    /// The position after the task with this time and id.
    pub fn cursor_at(&self, add_time: UnixTime, id: TaskId) -> SearchCursor {
        SearchCursor {
            add_time,
            id,
            fingerprint: self.fingerprint(),
        }
    }
}

/// An empty last page.
impl Default for Page {
    fn default() -> Page {
        Page {
            tasks: vec![],
            next: None,
            complete: true,
        }
    }
}

impl fmt::Display for SortOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SortOrder::Oldest => "oldest",
            SortOrder::Newest => "newest",
        })
    }
}

impl FromStr for SortOrder {
    type Err = String;
    fn from_str(text: &str) -> Result<SortOrder, String> {
        match text {
            "oldest" => Ok(SortOrder::Oldest),
            "newest" => Ok(SortOrder::Newest),
            _ => Err(format!("'{text}' is not an order; use oldest or newest")),
        }
    }
}

impl fmt::Display for SearchCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:x}.{}.{:x}",
            self.add_time.0,
            self.id.0.simple(),
            self.fingerprint
        )
    }
}

impl FromStr for SearchCursor {
    type Err = String;
    fn from_str(text: &str) -> Result<SearchCursor, String> {
        let parse = || {
            let mut parts = text.split('.');
            let add_time = UnixTime(i64::from_str_radix(parts.next()?, 16).ok()?);
            let id = TaskId(uuid::Uuid::try_parse(parts.next()?).ok()?);
            let fingerprint = u32::from_str_radix(parts.next()?, 16).ok()?;
            parts.next().is_none().then_some(SearchCursor {
                add_time,
                id,
                fingerprint,
            })
        };
        parse().ok_or_else(|| {
            format!("'{text}' is not a cursor; use the `next` value of an earlier answer unchanged")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cursor of an earlier version must be valid for the same search in this version.
    #[test]
    fn fingerprints_are_the_same_in_every_version() {
        let query = TaskQuery {
            ids: vec![TaskId(uuid::Uuid::from_u128(7))],
            user: Some(UserName::new("ada").unwrap()),
            statuses: vec![TaskStatus::Running],
            executor: Some(ExecutorName::new("e-1").unwrap()),
            from: Some(UnixTime(1)),
            text: Some("g++".into()),
            order: SortOrder::Oldest,
            ..TaskQuery::default()
        };
        assert_eq!(query.fingerprint(), 0xda4e_0be7);
        let with_prefix = TaskQuery {
            id_prefix: Some("01890a5d-ac".parse().unwrap()),
            ..query
        };
        assert_eq!(with_prefix.fingerprint(), 0xe740_093a);
        assert_eq!(TaskQuery::default().fingerprint(), 0xeb48_8091);
        let with_language = TaskQuery {
            language: Some(LanguageName::new("c++").unwrap()),
            ..TaskQuery::default()
        };
        assert_eq!(with_language.fingerprint(), 0x3125_4fe3);
    }

    #[test]
    fn order_and_page_are_no_filters() {
        let page = TaskQuery {
            order: SortOrder::Oldest,
            limit: 7,
            ..TaskQuery::default()
        };
        assert!(!page.has_filter() && page.require_filter().is_err());
        let labels = Labels::new([("a".to_string(), "b".to_string())].into()).unwrap();
        for query in [
            TaskQuery {
                labels,
                ..TaskQuery::default()
            },
            TaskQuery {
                group: Some(GroupName::new("g").unwrap()),
                ..TaskQuery::default()
            },
            TaskQuery {
                language: Some(LanguageName::new("go").unwrap()),
                ..TaskQuery::default()
            },
            TaskQuery {
                until: Some(UnixTime(1)),
                ..TaskQuery::default()
            },
            TaskQuery {
                statuses: vec![TaskStatus::Pending],
                ..TaskQuery::default()
            },
        ] {
            assert!(query.has_filter() && query.require_filter().is_ok(), "{query:?}");
        }
    }

    #[test]
    fn a_cursor_parses_from_its_text_and_belongs_to_one_search() {
        let query = TaskQuery {
            text: Some("g++".into()),
            ..TaskQuery::default()
        };
        let cursor = SearchCursor {
            add_time: UnixTime(1_700_000_000_123_456),
            id: TaskId(uuid::Uuid::from_u128(7)),
            fingerprint: query.fingerprint(),
        };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        let longer = TaskQuery {
            limit: 7,
            after: Some(cursor),
            ..query.clone()
        };
        assert_eq!(longer.fingerprint(), cursor.fingerprint);
        let other = TaskQuery {
            order: SortOrder::Oldest,
            ..query
        };
        assert_ne!(other.fingerprint(), cursor.fingerprint);
        for bad in [
            "",
            "1.2.3",
            "zz.00000000000000000000000000000000.1",
            "1.00000000000000000000000000000000.1.1",
        ] {
            assert!(bad.parse::<SearchCursor>().is_err(), "{bad:?}");
        }
    }
}
