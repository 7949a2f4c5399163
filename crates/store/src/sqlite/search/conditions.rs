//! A query as SQL.

use model::{Order, Query, Status, TaskId};
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value};

use crate::search::{Way, in_order_of_ids};
use crate::sqlite::column::Column;
use crate::sqlite::rows::BRIEF;

/// A statement whose rows are the tasks on a way, in the order of the page. Its last column says whether a task is
/// as the query asks; the text is left to the caller.
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
    /// Whether there may be rows that are not.
    pub(super) checks: bool,
}

impl Statement {
    pub(super) fn of(query: &Query, way: &Way) -> Statement {
        let mut values = Values::default();
        let selects: Vec<_> = match way {
            Way::Ids => {
                let ids = values.list(&query.ids, |id: &TaskId| Column(*id));
                vec![select(query, way, format!("id IN ({ids})"), &mut values)]
            }
            Way::IdRange => {
                let prefix = query.id_prefix.as_ref();
                let first = values.add(&prefix.map(|prefix| Column(prefix.first())));
                let last = values.add(&prefix.map(|prefix| Column(prefix.last())));
                let range = format!("id >= {first} AND id <= {last}");
                vec![select(query, way, range, &mut values)]
            }
            Way::Executor => {
                let executor = values.add(&query.executor.as_ref().map(Column));
                vec![select(query, way, format!("executor = {executor}"), &mut values)]
            }
            Way::User => {
                let user = values.add(&query.user.as_ref().map(Column));
                vec![select(query, way, format!("user = {user}"), &mut values)]
            }
            // SQLite merges them, and reads no more of each than is asked for.
            Way::Statuses(statuses) => statuses
                .iter()
                .map(|status| {
                    let status = values.add(&Column(*status));
                    select(query, way, format!("status = {status}"), &mut values)
                })
                .collect(),
            Way::All => vec![select(query, way, "1".into(), &mut values)],
        };
        let direction = match query.order {
            Order::Oldest => "ASC",
            Order::Newest => "DESC",
        };
        // The columns of `BRIEF` begin with the add time and the id.
        let key = match in_order_of_ids(query) {
            true => 2,
            false => 1,
        };
        let checks = !checks(query, way, &mut Values::default()).is_empty();
        let sql = format!("{} ORDER BY {key} {direction}", selects.join(" UNION ALL "));
        Statement {
            sql,
            values: values.0,
            checks,
        }
    }
}

/// `along` is what the index finds.
fn select(query: &Query, way: &Way, along: String, values: &mut Values) -> String {
    let mut range = vec![along];
    // The add time is the key of the table, so that every index but the one over ids ends in it.
    if *way != Way::IdRange {
        range.extend(times(query, values));
    }
    if let Some(cursor) = query.after {
        let beyond = match query.order {
            Order::Oldest => ">",
            Order::Newest => "<",
        };
        range.push(match in_order_of_ids(query) {
            true => format!("id {beyond} {}", values.add(&Column(cursor.id))),
            false => format!("seq {beyond} {}", values.add(&Column(cursor.add_time))),
        });
    }
    let mut checks = checks(query, way, values);
    checks.push("1".into());
    let (range, checks) = (range.join(" AND "), checks.join(" AND "));
    format!("SELECT {BRIEF}, {checks} FROM {} WHERE {range}", table(way))
}

/// What no index finds is checked row by row, outside of the condition: so each row that is looked at is counted.
fn checks(query: &Query, way: &Way, values: &mut Values) -> Vec<String> {
    let mut checks = vec![];
    if let (Some(user), false) = (&query.user, *way == Way::User) {
        checks.push(format!("user = {}", values.add(&Column(user))));
    }
    if let (Some(executor), false) = (&query.executor, *way == Way::Executor) {
        checks.push(format!("executor IS {}", values.add(&Column(executor))));
    }
    if let (Some(prefix), false) = (&query.id_prefix, *way == Way::IdRange) {
        let (first, last) = (prefix.first(), prefix.last());
        checks.push(format!("id >= {}", values.add(&Column(first))));
        checks.push(format!("id <= {}", values.add(&Column(last))));
    }
    if !query.statuses.is_empty() && !matches!(way, Way::Statuses(_) | Way::All) {
        let statuses = values.list(&query.statuses, |status: &Status| Column(*status));
        checks.push(format!("status IN ({statuses})"));
    }
    if *way == Way::IdRange {
        checks.extend(times(query, values));
    }
    checks
}

fn times(query: &Query, values: &mut Values) -> Vec<String> {
    let from = query
        .from
        .map(|from| format!("seq >= {}", values.add(&Column(from))));
    let until = query
        .until
        .map(|until| format!("seq < {}", values.add(&Column(until))));
    from.into_iter().chain(until).collect()
}

/// The values of a statement's parameters, in the order of their numbers.
#[derive(Default)]
struct Values(Vec<Value>);

impl Values {
    /// Answers the parameter that stands for the value.
    fn add(&mut self, value: &impl ToSql) -> String {
        let value = match value.to_sql() {
            Ok(ToSqlOutput::Borrowed(value)) => Value::try_from(value).unwrap_or(Value::Null),
            Ok(ToSqlOutput::Owned(value)) => value,
            // Columns of the model always have a form; null would match nothing.
            _ => Value::Null,
        };
        self.0.push(value);
        format!("?{}", self.0.len())
    }

    fn list<T, C: ToSql>(&mut self, items: &[T], column: impl Fn(&T) -> C) -> String {
        let marks: Vec<_> = items.iter().map(|item| self.add(&column(item))).collect();
        marks.join(", ")
    }
}

/// SQLite knows nothing of how the values are spread, so it is told which index to take.
fn table(way: &Way) -> &'static str {
    match way {
        Way::All => "tasks NOT INDEXED",
        Way::Ids | Way::IdRange => "tasks INDEXED BY sqlite_autoindex_tasks_1",
        Way::User => "tasks INDEXED BY tasks_by_user",
        Way::Statuses(_) => "tasks INDEXED BY tasks_by_status",
        Way::Executor => "tasks INDEXED BY tasks_held",
    }
}
