//! Looking for tasks: what to match, in which order, and where the last page ended.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::{Attempt, ExecutorName, IdPrefix, Invalid, Moment, Status, TaskId, UserName};

/// Every condition that is set must hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Query {
    pub ids: Vec<TaskId>,
    /// Ids that begin like this. Unless a user is named, tasks are then listed in the order of their ids, so that a
    /// search never looks at others; the ids that Conclave makes rise with the time.
    pub id_prefix: Option<IdPrefix>,
    pub user: Option<UserName>,
    /// Any of these; empty for all.
    pub statuses: Vec<Status>,
    pub executor: Option<ExecutorName>,
    /// Added at or after.
    pub from: Option<Moment>,
    /// Added before.
    pub until: Option<Moment>,
    /// Part of the execute or compile command, whatever the case of its letters.
    pub text: Option<String>,
    pub order: Order,
    pub limit: usize,
    pub after: Option<Cursor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    Oldest,
    #[default]
    Newest,
}

/// Where a page ended: the last task on it, and which search it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub add_time: Moment,
    pub id: TaskId,
    /// `Query::fingerprint` of the search that made the cursor: it fits no other.
    pub fingerprint: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub tasks: Vec<Brief>,
    pub next: Option<Cursor>,
    /// Whether the page is as full as it can be. If not, only part of the tasks was looked at, and `next` says where
    /// to go on, also after a page without a task.
    pub complete: bool,
}

/// A task on a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brief {
    pub id: TaskId,
    pub user: UserName,
    pub priority: i32,
    /// The execute command on one line, as `command` cuts it.
    pub command: String,
    pub status: Status,
    pub executor: Option<ExecutorName>,
    pub attempt: Attempt,
    pub add_time: Moment,
    pub start_time: Option<Moment>,
    pub finish_time: Option<Moment>,
}

impl Brief {
    /// Bytes of a command on a list. A command may be 64 KiB long, and a page has a thousand of them.
    pub const COMMAND: usize = 1 << 10;

    /// A longer command ends in `…` in place of its rest.
    pub fn command(whole: &str) -> String {
        if whole.len() <= Brief::COMMAND {
            return whole.to_string();
        }
        let mut end = Brief::COMMAND - '…'.len_utf8();
        while !whole.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}…", &whole[..end])
    }
}

pub type Counts = BTreeMap<Status, u64>;

impl Query {
    /// The largest page.
    pub const LIMIT: usize = 1000;
    /// The longest `text`, in characters.
    pub const TEXT_LIMIT: usize = 1024;

    /// Whether it is small enough to be searched for.
    pub fn check(&self) -> Result<(), Invalid> {
        let too_many = |ids: usize| Invalid::beyond("id", "is given too often", Query::LIMIT, ids);
        let too_long = |length: usize| {
            let problem = format!("may have up to {} characters", Query::TEXT_LIMIT);
            Invalid::beyond("text", problem, Query::TEXT_LIMIT, length)
        };
        let text = self.text.as_ref().map_or(0, |text| text.chars().count());
        match (self.ids.len(), text) {
            (ids, _) if ids > Query::LIMIT => Err(too_many(ids)),
            (_, length) if length > Query::TEXT_LIMIT => Err(too_long(length)),
            _ => Ok(()),
        }
    }

    /// A number for what is searched and in which order, not for where the page starts or how long it is.
    pub fn fingerprint(&self) -> u32 {
        let Query {
            ids,
            id_prefix,
            user,
            statuses,
            executor,
            from,
            until,
            text,
            order,
            limit: _,
            after: _,
        } = self;
        let mut text = format!("{ids:?}{user:?}{statuses:?}{executor:?}{from:?}{until:?}{text:?}{order:?}");
        // Only where there is one, so that the cursors of other searches stay the same over versions.
        if let Some(prefix) = id_prefix {
            text += &format!("{prefix:?}");
        }
        // FNV-1a: it has to be the same in every process and version, which std's hasher does not promise.
        text.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        })
    }

    pub fn cursor_after(&self, last: &Brief) -> Cursor {
        self.cursor_at(last.add_time, last.id)
    }

    /// Right behind the task that was added then under this id.
    pub fn cursor_at(&self, add_time: Moment, id: TaskId) -> Cursor {
        Cursor {
            add_time,
            id,
            fingerprint: self.fingerprint(),
        }
    }
}

/// The last page, with nothing on it.
impl Default for Page {
    fn default() -> Page {
        Page {
            tasks: vec![],
            next: None,
            complete: true,
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::Oldest => "oldest",
            Order::Newest => "newest",
        })
    }
}

impl FromStr for Order {
    type Err = String;
    fn from_str(text: &str) -> Result<Order, String> {
        match text {
            "oldest" => Ok(Order::Oldest),
            "newest" => Ok(Order::Newest),
            _ => Err(format!("'{text}' is no order; there are oldest and newest")),
        }
    }
}

impl fmt::Display for Cursor {
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

impl FromStr for Cursor {
    type Err = String;
    fn from_str(text: &str) -> Result<Cursor, String> {
        let parse = || {
            let mut parts = text.split('.');
            let add_time = Moment(i64::from_str_radix(parts.next()?, 16).ok()?);
            let id = TaskId(uuid::Uuid::try_parse(parts.next()?).ok()?);
            let fingerprint = u32::from_str_radix(parts.next()?, 16).ok()?;
            parts.next().is_none().then_some(Cursor {
                add_time,
                id,
                fingerprint,
            })
        };
        parse()
            .ok_or_else(|| format!("'{text}' is not a cursor; use the `next` of an earlier answer as it is"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_survive_text_and_know_their_search() {
        let query = Query {
            text: Some("g++".into()),
            ..Query::default()
        };
        let cursor = Cursor {
            add_time: Moment(1_700_000_000_123_456),
            id: TaskId::generate(),
            fingerprint: query.fingerprint(),
        };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        let longer = Query {
            limit: 7,
            after: Some(cursor),
            ..query.clone()
        };
        assert_eq!(longer.fingerprint(), cursor.fingerprint);
        let other = Query {
            order: Order::Oldest,
            ..query
        };
        assert_ne!(other.fingerprint(), cursor.fingerprint);
        for bad in [
            "",
            "1.2.3",
            "zz.00000000000000000000000000000000.1",
            "1.00000000000000000000000000000000.1.1",
        ] {
            assert!(bad.parse::<Cursor>().is_err(), "{bad:?}");
        }
    }
}
