//! A query as SQL.

use model::{Order, Query, Status, TaskId};
use rusqlite::ToSql;
use rusqlite::types::Value;

use crate::sqlite::column::Column;

/// Which index leads to the tasks. Each ends in the order of adding.
#[derive(Clone, Copy, Debug)]
pub(super) enum Path {
    All,
    Id(TaskId),
    /// In the order of ids.
    IdRange,
    User,
    Status(Status),
    /// Only held tasks have an executor, so these are few.
    Executor,
}

pub(super) struct Conditions {
    pub(super) from: &'static str,
    pub(super) conditions: String,
    pub(super) values: Vec<Value>,
}

impl Conditions {
    pub(super) fn of(query: &Query, path: &Path) -> Conditions {
        let mut all = Conditions {
            from: table(path),
            conditions: String::from("1"),
            values: Vec::new(),
        };
        if let Path::Id(id) = path {
            all.require("id =", &Column(*id));
        }
        if let Some(prefix) = &query.id_prefix {
            all.require("id >=", &Column(prefix.first()));
            all.require("id <=", &Column(prefix.last()));
        }
        if let Some(user) = &query.user {
            all.require("user =", &Column(user));
        }
        if let Some(executor) = &query.executor {
            all.require("executor =", &Column(executor));
        }
        match path {
            Path::Status(status) => all.require("status =", &Column(*status)),
            _ => all.require_any_status(&query.statuses),
        }
        if let Some(from) = query.from {
            all.require("seq >=", &Column(from));
        }
        if let Some(until) = query.until {
            all.require("seq <", &Column(until));
        }
        if let Some(cursor) = query.after {
            let beyond = match query.order {
                Order::Oldest => ">",
                Order::Newest => "<",
            };
            match query.id_prefix {
                Some(_) => all.require(&format!("id {beyond}"), &Column(cursor.id)),
                None => all.require(&format!("seq {beyond}"), &Column(cursor.add_time)),
            }
        }
        all
    }

    fn require(&mut self, condition: &str, value: &impl ToSql) {
        self.push(value);
        self.conditions += &format!(" AND {condition} ?{}", self.values.len());
    }

    fn require_any_status(&mut self, statuses: &[Status]) {
        if statuses.is_empty() {
            return;
        }
        let marks: Vec<_> = statuses
            .iter()
            .map(|status| {
                self.push(&Column(*status));
                format!("?{}", self.values.len())
            })
            .collect();
        // The plus keeps SQLite from taking the index on statuses, which gives no order over several of them.
        self.conditions += &format!(" AND +status IN ({})", marks.join(", "));
    }

    fn push(&mut self, value: &impl ToSql) {
        use rusqlite::types::ToSqlOutput;
        let value = match value.to_sql() {
            Ok(ToSqlOutput::Borrowed(value)) => Value::try_from(value).unwrap_or(Value::Null),
            Ok(ToSqlOutput::Owned(value)) => value,
            // Columns of the model always have a form; null would match nothing.
            _ => Value::Null,
        };
        self.values.push(value);
    }
}

/// SQLite knows nothing of how the values are spread, so it is told which index to take.
fn table(path: &Path) -> &'static str {
    match path {
        Path::All => "tasks NOT INDEXED",
        Path::Id(_) | Path::IdRange => "tasks INDEXED BY sqlite_autoindex_tasks_1",
        Path::User => "tasks INDEXED BY tasks_by_user",
        Path::Status(_) => "tasks INDEXED BY tasks_by_status",
        Path::Executor => "tasks INDEXED BY tasks_held",
    }
}
