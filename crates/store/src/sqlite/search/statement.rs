//! Translates a search query to SQL.

use model::{OutcomeReason, SortOrder, TaskId, TaskQuery, TaskStatus};
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value};

use crate::search::{SearchIndex, is_ordered_by_id};
use crate::sqlite::rows::SUMMARY_COLUMNS;
use crate::sqlite::sql_value::SqlValue;

/// The SQL statement of a task search, which scans an index in the order of the results. Its last column tells whether
/// the task passes the filters; the caller checks the text.
pub(super) struct SearchStatement {
    pub(super) sql: String,
    pub(super) parameters: Vec<Value>,
    /// Whether the statement can return tasks that do not match.
    pub(super) has_filters: bool,
}

impl SearchStatement {
    pub(super) fn of(query: &TaskQuery, index: &SearchIndex) -> SearchStatement {
        SearchStatement::with_columns(query, index, SUMMARY_COLUMNS)
    }

    /// The columns must begin with the id. The add time precedes them.
    pub(super) fn with_columns(query: &TaskQuery, index: &SearchIndex, columns: &str) -> SearchStatement {
        let mut parameters = SqlParameters::default();
        let scan = (query, index);
        let selects: Vec<_> = match index {
            SearchIndex::Ids => {
                let ids = parameters.add_list(&query.ids, |id: &TaskId| SqlValue(*id));
                vec![select(scan, columns, format!("id IN ({ids})"), &mut parameters)]
            }
            SearchIndex::IdRange => {
                let prefix = query.id_prefix.as_ref();
                let first = parameters.add(&prefix.map(|prefix| SqlValue(prefix.first())));
                let last = parameters.add(&prefix.map(|prefix| SqlValue(prefix.last())));
                let range = format!("id >= {first} AND id <= {last}");
                vec![select(scan, columns, range, &mut parameters)]
            }
            SearchIndex::Executor => {
                let executor = parameters.add(&query.executor.as_ref().map(SqlValue));
                vec![select(
                    scan,
                    columns,
                    format!("executor = {executor}"),
                    &mut parameters,
                )]
            }
            SearchIndex::Group => {
                let group = parameters.add(&query.group.as_ref().map(SqlValue));
                let user = query.user.as_ref().map(|user| parameters.add(&SqlValue(user)));
                let group = match user {
                    Some(user) => format!("user = {user} AND grp = {group}"),
                    None => format!("grp = {group}"),
                };
                vec![select(scan, columns, group, &mut parameters)]
            }
            SearchIndex::Label => {
                let (key, value) = query.labels.iter().next().unwrap_or_default();
                let (key, value) = (parameters.add(&key), parameters.add(&value));
                let user = query.user.as_ref().map(|user| parameters.add(&SqlValue(user)));
                let label = match user {
                    Some(user) => format!("owner = {user} AND key = {key} AND value = {value}"),
                    None => format!("key = {key} AND value = {value}"),
                };
                vec![select(scan, columns, label, &mut parameters)]
            }
            SearchIndex::User => {
                let user = parameters.add(&query.user.as_ref().map(SqlValue));
                vec![select(scan, columns, format!("user = {user}"), &mut parameters)]
            }
            // SQLite merges the selects, and reads no further than the caller does.
            SearchIndex::Statuses(statuses) => statuses
                .iter()
                .map(|status| {
                    let status = parameters.add(&SqlValue(*status));
                    select(scan, columns, format!("status = {status}"), &mut parameters)
                })
                .collect(),
            SearchIndex::All => vec![select(scan, columns, "1".into(), &mut parameters)],
        };
        let direction = match query.order {
            SortOrder::Oldest => "ASC",
            SortOrder::Newest => "DESC",
        };
        // The columns begin with the add time and the id.
        let sort_column = match is_ordered_by_id(query) {
            true => 2,
            false => 1,
        };
        let has_filters = !filters(query, index, &mut SqlParameters::default()).is_empty();
        let sql = format!(
            "{} ORDER BY {sort_column} {direction}",
            selects.join(" UNION ALL ")
        );
        SearchStatement {
            sql,
            parameters: parameters.0,
            has_filters,
        }
    }
}

/// `indexed` is the condition that the index answers.
fn select(
    (query, index): (&TaskQuery, &SearchIndex),
    columns: &str,
    indexed: String,
    parameters: &mut SqlParameters,
) -> String {
    let mut range = vec![indexed];
    let add_time = add_time_column(index);
    // The add time is the key of the table, so every index except the one on ids ends with it.
    if *index != SearchIndex::IdRange {
        range.extend(time_conditions(query, add_time, parameters));
    }
    if let Some(cursor) = query.after {
        let beyond = match query.order {
            SortOrder::Oldest => ">",
            SortOrder::Newest => "<",
        };
        range.push(match is_ordered_by_id(query) {
            true => format!("id {beyond} {}", parameters.add(&SqlValue(cursor.id))),
            false => format!(
                "{add_time} {beyond} {}",
                parameters.add(&SqlValue(cursor.add_time))
            ),
        });
    }
    let mut filters = filters(query, index, parameters);
    filters.push("1".into());
    let (range, filters) = (range.join(" AND "), filters.join(" AND "));
    let table = indexed_table(query, index);
    format!("SELECT {add_time}, {columns}, {filters} AS matches FROM {table} WHERE {range}")
}

/// The conditions that the index does not answer. They are a column and not part of `WHERE`, so that the caller can
/// count every examined row.
fn filters(query: &TaskQuery, index: &SearchIndex, parameters: &mut SqlParameters) -> Vec<String> {
    let mut filters = vec![];
    let has_user = matches!(index, SearchIndex::User | SearchIndex::Group | SearchIndex::Label);
    if let (Some(user), false) = (&query.user, has_user) {
        filters.push(format!("user = {}", parameters.add(&SqlValue(user))));
    }
    if let (Some(executor), false) = (&query.executor, *index == SearchIndex::Executor) {
        filters.push(format!("executor IS {}", parameters.add(&SqlValue(executor))));
    }
    if let (Some(prefix), false) = (&query.id_prefix, *index == SearchIndex::IdRange) {
        let (first, last) = (prefix.first(), prefix.last());
        filters.push(format!("id >= {}", parameters.add(&SqlValue(first))));
        filters.push(format!("id <= {}", parameters.add(&SqlValue(last))));
    }
    if !query.statuses.is_empty() && !matches!(index, SearchIndex::Statuses(_) | SearchIndex::All) {
        let statuses = parameters.add_list(&query.statuses, |status: &TaskStatus| SqlValue(*status));
        filters.push(format!("status IN ({statuses})"));
    }
    if let (Some(group), false) = (&query.group, *index == SearchIndex::Group) {
        filters.push(format!("grp IS {}", parameters.add(&SqlValue(group))));
    }
    if !query.reasons.is_empty() {
        let reasons = parameters.add_list(&query.reasons, |reason: &OutcomeReason| SqlValue(*reason));
        // The comparison of a missing reason is null.
        filters.push(format!("(reason IN ({reasons})) IS TRUE"));
    }
    if let Some(language) = &query.language {
        // `ROOT/LANGUAGE`, or nothing, or `+ROOT/LANGUAGE ` and more; no name has a slash or a blank.
        let language = parameters.add(&format!("{language} "));
        let begin = "instr(needs, '/') + 1";
        filters.push(format!(
            "substr(needs || ' ', {begin}, length({language})) = {language}"
        ));
    }
    if let Some(retried) = query.retried {
        filters.push(format!("retried = {}", parameters.add(&retried)));
    }
    let found_by_index = usize::from(*index == SearchIndex::Label);
    for (key, value) in query.labels.iter().skip(found_by_index) {
        let (key, value) = (parameters.add(&key), parameters.add(&value));
        filters.push(format!(
            "EXISTS (SELECT 1 FROM labels AS other WHERE other.owner = tasks.user AND other.key = {key}
                     AND other.value = {value} AND other.task = tasks.seq)"
        ));
    }
    if *index == SearchIndex::IdRange {
        filters.extend(time_conditions(query, add_time_column(index), parameters));
    }
    filters
}

fn time_conditions(query: &TaskQuery, add_time: &str, parameters: &mut SqlParameters) -> Vec<String> {
    let from = query
        .from
        .map(|from| format!("{add_time} >= {}", parameters.add(&SqlValue(from))));
    let until = query
        .until
        .map(|until| format!("{add_time} < {}", parameters.add(&SqlValue(until))));
    from.into_iter().chain(until).collect()
}

/// The values of a SQL search statement's numbered parameters, in the order of their numbers.
#[derive(Default)]
struct SqlParameters(Vec<Value>);

impl SqlParameters {
    /// Adds a value and returns its parameter, like `?3`.
    fn add(&mut self, value: &impl ToSql) -> String {
        let value = match value.to_sql() {
            Ok(ToSqlOutput::Borrowed(value)) => Value::try_from(value).unwrap_or(Value::Null),
            Ok(ToSqlOutput::Owned(value)) => value,
            // Values of the model always convert. Null would match nothing.
            _ => Value::Null,
        };
        self.0.push(value);
        format!("?{}", self.0.len())
    }

    /// Adds several values and returns their parameters, separated by commas.
    fn add_list<T, C: ToSql>(&mut self, items: &[T], column: impl Fn(&T) -> C) -> String {
        let parameters: Vec<_> = items.iter().map(|item| self.add(&column(item))).collect();
        parameters.join(", ")
    }
}

/// The column with the add time by which the index is ordered.
fn add_time_column(index: &SearchIndex) -> &'static str {
    match index {
        SearchIndex::Label => "task",
        _ => "seq",
    }
}

/// The table with the index to use. SQLite has no statistics about the values, so it cannot choose the index itself.
fn indexed_table(query: &TaskQuery, index: &SearchIndex) -> &'static str {
    let has_user = query.user.is_some();
    match index {
        SearchIndex::Group if has_user => "tasks INDEXED BY tasks_by_user_group",
        SearchIndex::Group => "tasks INDEXED BY tasks_by_group",
        // With a user, all columns of the primary key are given.
        SearchIndex::Label if has_user => "labels CROSS JOIN tasks ON tasks.seq = labels.task",
        SearchIndex::Label => {
            "labels INDEXED BY labels_of_all_users CROSS JOIN tasks ON tasks.seq = labels.task"
        }
        SearchIndex::All => "tasks NOT INDEXED",
        SearchIndex::Ids | SearchIndex::IdRange => "tasks INDEXED BY sqlite_autoindex_tasks_1",
        SearchIndex::User => "tasks INDEXED BY tasks_by_user",
        SearchIndex::Statuses(_) => "tasks INDEXED BY tasks_by_status",
        SearchIndex::Executor => "tasks INDEXED BY tasks_held",
    }
}
