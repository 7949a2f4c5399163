//! Flags that choose tasks.

use anyhow::{Result, anyhow};
use api::parse_time;
use clap::Args;
use model::{
    ExecutorName, GroupName, Labels, LanguageName, OutcomeReason, TaskQuery, TaskStatus, UnixTime, UserName,
};

use super::task::language_name;
use super::task_set::{group_name, parse_label};
use super::{executor_name, user_name};

/// Flags of `search` and `export` that choose tasks. A task must match all of them.
#[derive(Args, Debug)]
pub(crate) struct TaskFilterFlags {
    /// Only tasks of this user
    #[arg(long, value_name = "NAME", value_parser = user_name)]
    user: Option<UserName>,
    /// Only tasks with this status; repeatable
    #[arg(long, value_name = "STATUS")]
    status: Vec<TaskStatus>,
    /// Only tasks whose last step ended for this reason, like time_limit; repeatable
    #[arg(long, value_name = "REASON")]
    reason: Vec<OutcomeReason>,
    /// Only tasks with this label; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    label: Vec<(String, String)>,
    /// Only tasks of this group
    #[arg(long, value_name = "NAME", value_parser = group_name)]
    group: Option<GroupName>,
    /// Only tasks of this language, by its name or an alias
    #[arg(long, value_name = "NAME", value_parser = language_name)]
    language: Option<LanguageName>,
    /// Only tasks that this executor holds
    #[arg(long, value_name = "NAME", value_parser = executor_name)]
    executor: Option<ExecutorName>,
    /// Only tasks added at this time or later, like 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<UnixTime>,
    /// Only tasks added before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<UnixTime>,
    /// Only tasks with this text in their command
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
}

/// Flags of `cancel` that choose tasks. A task must match all of them.
#[derive(Args, Debug)]
pub(crate) struct CancelFilterFlags {
    /// Cancel the tasks of this group
    #[arg(long, value_name = "NAME", value_parser = group_name, conflicts_with = "ids")]
    group: Option<GroupName>,
    /// Cancel the tasks of this user
    #[arg(long, value_name = "NAME", value_parser = user_name, conflicts_with = "ids")]
    user: Option<UserName>,
    /// Cancel the tasks with this status, like pending; repeatable
    #[arg(long, value_name = "STATUS", value_parser = unfinished_status, conflicts_with = "ids")]
    status: Vec<TaskStatus>,
    /// Cancel the tasks with this label; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label, conflicts_with = "ids")]
    label: Vec<(String, String)>,
    /// Cancel the tasks of this language, by its name or an alias
    #[arg(long, value_name = "NAME", value_parser = language_name, conflicts_with = "ids")]
    language: Option<LanguageName>,
}

impl TaskFilterFlags {
    pub(crate) fn query(&self) -> Result<TaskQuery> {
        Ok(TaskQuery {
            user: self.user.clone(),
            statuses: self.status.clone(),
            reasons: self.reason.clone(),
            labels: labels(&self.label)?,
            group: self.group.clone(),
            language: self.language.clone(),
            executor: self.executor.clone(),
            from: self.from,
            until: self.until,
            text: self.text.clone(),
            ..TaskQuery::default()
        })
    }
}

impl CancelFilterFlags {
    /// `None` if no flag is given.
    pub(crate) fn query(&self) -> Result<Option<TaskQuery>> {
        let query = TaskQuery {
            user: self.user.clone(),
            statuses: self.status.clone(),
            labels: labels(&self.label)?,
            group: self.group.clone(),
            language: self.language.clone(),
            ..TaskQuery::default()
        };
        Ok((query != TaskQuery::default()).then_some(query))
    }
}

fn labels(pairs: &[(String, String)]) -> Result<Labels> {
    let mut labels = std::collections::BTreeMap::new();
    for (key, value) in pairs {
        let earlier = labels.insert(key.clone(), value.clone());
        if earlier.is_some_and(|earlier| earlier != *value) {
            return Err(anyhow!(
                "--label {key} is given with two values, and a task has only one"
            ));
        }
    }
    Labels::new(labels).map_err(|error| anyhow!(error))
}

fn unfinished_status(text: &str) -> Result<TaskStatus, String> {
    match text.parse::<TaskStatus>()? {
        status if status.is_done() => Err(format!(
            "a task that is {status} is done and cannot be cancelled; use one of pending, compiling, running, retrying"
        )),
        status => Ok(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_one_value_and_only_unfinished_tasks_can_be_cancelled() {
        let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
        assert!(labels(&[pair("a", "1"), pair("a", "1"), pair("b", "=")]).is_ok());
        assert!(labels(&[pair("a", "1"), pair("a", "2")]).is_err());
        assert_eq!(unfinished_status("pending"), Ok(TaskStatus::Pending));
        for word in ["success", "cancelled", "finished"] {
            assert!(unfinished_status(word).is_err(), "{word}");
        }
    }
}
