//! Flags about a task that also apply to tasks which are read from a file.

use anyhow::{Result, anyhow, ensure};
use api::NewTask;
use clap::Args;
use model::{GroupName, KeepPattern, KeepPatternError, Labels, NameError};

/// Flags of `run` and `add` that apply to every task of the command, also to those of `--file` and `--lines`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TaskSetFlags {
    /// Pattern of files to keep when the command has ended, like 'out/*.csv'; repeatable
    #[arg(long, value_name = "PATTERN", value_parser = keep_pattern)]
    pub(crate) keep: Vec<KeepPattern>,
    /// Label to search by; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    label: Vec<(String, String)>,
    /// Group that the task belongs to; `conclave wait` and others take its name
    #[arg(long, value_name = "NAME", value_parser = group_name)]
    group: Option<GroupName>,
    /// How many attempts may be lost with their executors before the task ends as system_error
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempts: Option<u32>,
}

impl TaskSetFlags {
    /// Sets what the flags say. What the task itself says has precedence, except that another group is refused.
    pub(crate) fn apply_to(&self, task: &mut NewTask) -> Result<()> {
        if let Some(group) = &self.group {
            let own = task.group.get_or_insert_with(|| group.clone());
            ensure!(
                own == group,
                "group: is {own}, and --group is {group}; leave one of them out"
            );
        }
        if task.keep.is_empty() {
            task.keep.clone_from(&self.keep);
        }
        task.attempts = task.attempts.or(self.attempts);
        if !self.label.is_empty() {
            let own = std::mem::take(&mut task.labels).into_map();
            let labels = self.label.iter().cloned().chain(own);
            task.labels = Labels::new(labels.collect()).map_err(|error| anyhow!(error))?;
        }
        Ok(())
    }
}

/// A label on the command line, as KEY=VALUE.
pub(crate) fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_string(), value.to_string())),
        _ => Err("write it like KEY=VALUE".to_string()),
    }
}

pub(crate) fn group_name(text: &str) -> Result<GroupName, NameError> {
    GroupName::new(text)
}

fn keep_pattern(text: &str) -> Result<KeepPattern, KeepPatternError> {
    KeepPattern::new(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(group: Option<&str>, labels: &[(&str, &str)]) -> TaskSetFlags {
        let label = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
        TaskSetFlags {
            keep: vec![keep_pattern("out/*").unwrap()],
            label: labels.iter().map(label).collect(),
            group: group.map(|group| group_name(group).unwrap()),
            attempts: Some(9),
        }
    }

    #[test]
    fn the_task_has_precedence_over_the_flags() {
        let json =
            r#"{"execute": {"command": "true"}, "labels": {"a": "own"}, "keep": ["x"], "attempts": 2}"#;
        let mut task: NewTask = api::parse_json(json.as_bytes()).unwrap();
        flags(Some("g"), &[("a", "flag"), ("b", "flag")])
            .apply_to(&mut task)
            .unwrap();
        let labels: Vec<_> = task.labels.iter().collect();
        assert_eq!(labels, [("a", "own"), ("b", "flag")]);
        assert_eq!(
            (task.keep[0].as_str(), task.keep.len(), task.attempts),
            ("x", 1, Some(2))
        );
        assert_eq!(task.group, Some(group_name("g").unwrap()));
        let error = flags(Some("h"), &[]).apply_to(&mut task).unwrap_err().to_string();
        assert!(error.contains("group: is g, and --group is h"), "{error}");
        let error = flags(None, &[("a b", "")]).apply_to(&mut task).unwrap_err();
        assert!(error.to_string().contains("labels.a b"), "{error}");
    }
}
