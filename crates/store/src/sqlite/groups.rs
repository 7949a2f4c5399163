//! The table `groups`: counters of the tasks of each group, which transactions keep up to date.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use model::{
    GroupKey, GroupName, GroupPage, GroupQuery, GroupState, OutcomeReason, TaskState, TaskStatus, UnixTime,
    UserName,
};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, ToSql, params_from_iter};

use super::failure::{SqliteFailure, StepContext};
use super::rows::{read_optional, skip_unreadable_group};
use super::sql_value::SqlValue;
use crate::search::group_page_length;
use crate::unreadable_rows::UnreadableRows;

/// The changes of the counters of groups in one SQLite transaction. They are written once for each group, however many of
/// its tasks change.
#[derive(Debug, Default)]
pub(super) struct GroupCounterChanges(BTreeMap<GroupKey, CounterChange>);

/// The changes of the counters of one group in a SQLite transaction.
#[derive(Debug, Default)]
struct CounterChange {
    counts: BTreeMap<TaskStatus, i64>,
    reasons: BTreeMap<OutcomeReason, i64>,
    /// When the first of the added tasks was added.
    added: Option<UnixTime>,
    last_finish: Option<UnixTime>,
}

impl GroupCounterChanges {
    pub(super) fn record_added(&mut self, key: &GroupKey, time: UnixTime) {
        let change = self.of(key);
        *change.counts.entry(TaskStatus::Pending).or_default() += 1;
        change.added.get_or_insert(time);
    }

    /// `reason` is the new one. A task that changes its status has none before: it is not done.
    pub(super) fn record_status_change(
        &mut self,
        task: &TaskState,
        new: TaskStatus,
        reason: Option<OutcomeReason>,
        time: UnixTime,
    ) {
        let Some(key) = counting_group(task) else { return };
        let change = self.of(key);
        *change.counts.entry(task.status).or_default() -= 1;
        change.count(new, reason, 1);
        if new.is_done() {
            change.last_finish = change.last_finish.max(Some(time));
        }
    }

    /// Records that the group no longer counts the task, because it is removed or retried.
    pub(super) fn record_uncounted(&mut self, task: &TaskState) {
        if let Some(key) = counting_group(task) {
            self.of(key).count(task.status, task.reason, -1);
        }
    }

    pub(super) fn keys(self) -> impl Iterator<Item = GroupKey> {
        self.0.into_keys()
    }

    pub(super) fn write(&self, connection: &Connection) -> Result<(), SqliteFailure> {
        const STEP: &str = "write the counters of a group";
        let execute = |sql: &str, parameters: Vec<Value>| {
            connection
                .prepare_cached(sql)
                .and_then(|mut statement| statement.execute(params_from_iter(parameters)))
                .during(STEP)
        };
        for (key, change) in &self.0 {
            if let Some(add_time) = change.added {
                let mut parameters = key_parameters(key);
                parameters.push(Value::Integer(add_time.0));
                execute(
                    "INSERT OR IGNORE INTO groups (user, name, add_time) VALUES (?1, ?2, ?3)",
                    parameters,
                )?;
            }
            execute(&UPDATE, change.parameters(key))?;
            if change.counts.values().sum::<i64>() < 0 {
                execute(&DELETE_IF_EMPTY, key_parameters(key))?;
            }
        }
        Ok(())
    }

    fn of(&mut self, key: &GroupKey) -> &mut CounterChange {
        self.0.entry(key.clone()).or_default()
    }
}

impl CounterChange {
    /// Only failures are counted by reason.
    fn count(&mut self, status: TaskStatus, reason: Option<OutcomeReason>, by: i64) {
        *self.counts.entry(status).or_default() += by;
        // A task that ends as `system_error` has a reason if it was judged, and no result otherwise.
        let is_failure = matches!(
            status,
            TaskStatus::RunFailed | TaskStatus::CompileFailed | TaskStatus::SystemError
        );
        if let Some(reason) = reason.filter(|_| is_failure) {
            *self.reasons.entry(reason).or_default() += by;
        }
    }

    /// In the order of `UPDATE`.
    fn parameters(&self, key: &GroupKey) -> Vec<Value> {
        let count = |count: Option<&i64>| Value::Integer(count.copied().unwrap_or(0));
        let mut parameters = key_parameters(key);
        parameters.push(
            self.last_finish
                .map_or(Value::Null, |time| Value::Integer(time.0)),
        );
        parameters.extend(TaskStatus::ALL.map(|status| count(self.counts.get(&status))));
        parameters.extend(OutcomeReason::ALL.map(|reason| count(self.reasons.get(&reason))));
        parameters
    }
}

/// The group that counts the task.
fn counting_group(task: &TaskState) -> Option<&GroupKey> {
    task.group.as_ref().filter(|_| !task.retried)
}

fn key_parameters(key: &GroupKey) -> Vec<Value> {
    [key.user.as_str(), key.group.as_str()]
        .map(|text| Value::Text(text.into()))
        .to_vec()
}

/// The columns with counters: by status, then by reason.
fn counter_columns() -> Vec<String> {
    let statuses = TaskStatus::ALL.map(|status| status.as_str().to_string());
    let reasons = OutcomeReason::ALL.map(|reason| format!("failed_{reason}"));
    statuses.into_iter().chain(reasons).collect()
}

static UPDATE: LazyLock<String> = LazyLock::new(|| {
    let counters = (4..).zip(counter_columns());
    let counters: Vec<_> = counters
        .map(|(parameter, column)| format!("{column} = {column} + ?{parameter}"))
        .collect();
    format!(
        "UPDATE groups SET last_finish = max(coalesce(last_finish, ?3), coalesce(?3, last_finish)), {}
         WHERE user = ?1 AND name = ?2",
        counters.join(", ")
    )
});

static DELETE_IF_EMPTY: LazyLock<String> = LazyLock::new(|| {
    let statuses = TaskStatus::ALL.map(TaskStatus::as_str).join(" + ");
    format!("DELETE FROM groups WHERE user = ?1 AND name = ?2 AND {statuses} <= 0")
});

fn select_statement(condition: &str) -> String {
    let counters = counter_columns().join(", ");
    format!("SELECT user, name, add_time, last_finish, {counters} FROM groups WHERE {condition}")
}

pub(super) fn group(connection: &Connection, key: &GroupKey) -> Result<Option<GroupState>, SqliteFailure> {
    const STEP: &str = "read a group";
    let mut statement = connection
        .prepare_cached(&select_statement("user = ?1 AND name = ?2"))
        .during(STEP)?;
    let mut rows = statement
        .query((SqlValue(&key.user), SqlValue(&key.group)))
        .during(STEP)?;
    match rows.next().during(STEP)? {
        Some(row) => read_group(row).map(Some).during(STEP),
        None => Ok(None),
    }
}

pub(super) fn groups(
    connection: &Connection,
    query: &GroupQuery,
    unreadable_rows: &UnreadableRows,
) -> Result<GroupPage, SqliteFailure> {
    const STEP: &str = "list groups";
    let page_length = group_page_length(query);
    let user = query.user.as_ref().map(SqlValue);
    let after = query.after.as_ref();
    let after = after.map(|after| (SqlValue(&after.user), SqlValue(&after.group)));
    let parameters: Vec<&dyn ToSql> = match (&user, &after) {
        (None, None) => vec![],
        (Some(user), None) => vec![user],
        (None, Some((after_user, name))) => vec![after_user, name],
        (Some(user), Some((after_user, name))) => vec![user, after_user, name],
    };
    let condition = list_condition(query);
    let mut statement = connection
        .prepare_cached(&select_statement(condition))
        .during(STEP)?;
    let mut rows = statement.query(&parameters[..]).during(STEP)?;
    let mut page = GroupPage::default();
    while let Some(row) = rows.next().during(STEP)? {
        let Some(group) = skip_unreadable_group(row, read_group(row), unreadable_rows).during(STEP)? else {
            continue;
        };
        if page.groups.len() == page_length {
            page.next = page.groups.last().map(|last| last.key.clone());
            break;
        }
        page.groups.push(group);
    }
    Ok(page)
}

fn list_condition(query: &GroupQuery) -> &'static str {
    match (&query.user, &query.after) {
        (None, None) => "1 ORDER BY user, name",
        (Some(_), None) => "user = ?1 ORDER BY name",
        (None, Some(_)) => "(user, name) > (?1, ?2) ORDER BY user, name",
        (Some(_), Some(_)) => "user = ?1 AND (user, name) > (?2, ?3) ORDER BY name",
    }
}

fn read_group(row: &Row<'_>) -> rusqlite::Result<GroupState> {
    let mut counters = vec![];
    for column in 4..4 + TaskStatus::ALL.len() + OutcomeReason::ALL.len() {
        counters.push(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0));
    }
    let (counts, reasons) = counters.split_at(TaskStatus::ALL.len());
    let reasons = OutcomeReason::ALL.into_iter().zip(reasons.iter().copied());
    Ok(GroupState {
        key: GroupKey {
            user: row.get::<_, SqlValue<UserName>>(0)?.0,
            group: row.get::<_, SqlValue<GroupName>>(1)?.0,
        },
        counts: TaskStatus::ALL.into_iter().zip(counts.iter().copied()).collect(),
        unknown: 0,
        reasons: reasons.filter(|(_, count)| *count > 0).collect(),
        add_time: row.get::<_, SqlValue<UnixTime>>(2)?.0,
        last_finish: read_optional(row, 3)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::schema::tests::{database, query_plan};

    /// Also fails if a status or reason has no column.
    #[test]
    fn groups_are_found_by_the_primary_key() {
        let connection = database();
        let check = |sql: &str, expected: &str| assert_eq!(query_plan(&connection, sql), expected);
        let by_key = "SEARCH groups USING PRIMARY KEY (user=? AND name=?)";
        check(&UPDATE, by_key);
        check(&DELETE_IF_EMPTY, by_key);
        check(&select_statement("user = ?1 AND name = ?2"), by_key);
        let key = |user: &str| GroupKey {
            user: UserName::new(user).unwrap(),
            group: GroupName::new("g").unwrap(),
        };
        let list = |user: Option<&str>, after: Option<&str>, expected: &str| {
            let query = GroupQuery {
                user: user.map(|user| UserName::new(user).unwrap()),
                after: after.map(key),
                limit: 1,
            };
            check(&select_statement(list_condition(&query)), expected);
        };
        list(None, None, "SCAN groups");
        list(Some("ada"), None, "SEARCH groups USING PRIMARY KEY (user=?)");
        list(
            None,
            Some("ada"),
            "SEARCH groups USING PRIMARY KEY ((user,name)>(?,?))",
        );
    }
}
