//! Searching for tasks: the query parameters and the page of results.

use model::{
    ExecutorName, GroupName, InvalidField, Labels, LanguageName, OutcomeReason, SearchCursor, SortOrder,
    TaskId, TaskQuery, TaskStatus, UnixTime, UserName,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{TaskExportFormat, format_time, labels, parse, parse_time, schema, serde_text};

/// A page of search results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page {
    pub tasks: Vec<TaskSummary>,
    /// The value of `after` for the next page; null on the last page.
    #[serde(with = "serde_text::optional::cursor")]
    #[schema(value_type = Option<String>)]
    pub next: Option<SearchCursor>,
    /// False if the server examined only part of the tasks, which happens when a text is searched among many tasks.
    /// The search continues at `next`; the page may be short or empty although more tasks match.
    #[serde(default = "complete_if_missing")]
    #[schema(required = true)]
    pub complete: bool,
}

/// Servers of older versions do not send the field; they always examine all tasks.
fn complete_if_missing() -> bool {
    true
}

/// The added tasks of a batch, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Added)]
pub struct AddedTasks {
    pub tasks: Vec<TaskSummary>,
}

/// A task in a list: its main fields, without files and result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Brief)]
pub struct TaskSummary {
    #[serde(with = "serde_text::task")]
    #[schema(value_type = schema::Id)]
    pub id: TaskId,
    #[serde(with = "serde_text::user")]
    #[schema(value_type = String)]
    pub user: UserName,
    pub priority: i32,
    /// The execute command on one line. A command of more than 1 KiB is truncated and ends in `…`.
    pub command: String,
    #[serde(with = "serde_text::status")]
    #[schema(value_type = schema::Status)]
    pub status: TaskStatus,
    pub done: bool,
    /// Why the last step of a finished task ended. Null for tasks that are not done, were cancelled, or that the platform
    /// could not run.
    #[serde(with = "serde_text::optional::reason", default)]
    #[schema(value_type = Option<schema::Reason>, required = true)]
    pub reason: Option<OutcomeReason>,
    #[serde(with = "labels", default)]
    #[schema(value_type = schema::Labels, required = true)]
    pub labels: Labels,
    #[serde(with = "serde_text::optional::group", default)]
    #[schema(value_type = Option<String>, required = true)]
    pub group: Option<GroupName>,
    #[serde(with = "serde_text::optional::language", default)]
    #[schema(value_type = Option<String>, required = true)]
    pub language: Option<LanguageName>,
    #[serde(with = "serde_text::optional::executor")]
    #[schema(value_type = Option<String>)]
    pub executor: Option<ExecutorName>,
    pub attempt: u32,
    #[serde(with = "serde_text::time")]
    #[schema(value_type = schema::Time)]
    pub add_time: UnixTime,
    #[serde(with = "serde_text::optional::time")]
    #[schema(value_type = Option<schema::Time>)]
    pub start_time: Option<UnixTime>,
    #[serde(with = "serde_text::optional::time")]
    #[schema(value_type = Option<schema::Time>)]
    pub finish_time: Option<UnixTime>,
}

impl From<model::Page> for Page {
    fn from(page: model::Page) -> Page {
        let model::Page {
            tasks,
            next,
            complete,
        } = page;
        Page {
            tasks: tasks.into_iter().map(Into::into).collect(),
            next,
            complete,
        }
    }
}

impl From<model::TaskSummary> for TaskSummary {
    fn from(summary: model::TaskSummary) -> TaskSummary {
        let model::TaskSummary {
            id,
            user,
            priority,
            command,
            status,
            reason,
            labels,
            group,
            language,
            executor,
            attempt,
            add_time,
            start_time,
            finish_time,
        } = summary;
        TaskSummary {
            id,
            user,
            priority,
            command,
            status,
            done: status.is_done(),
            reason,
            labels,
            group,
            language,
            executor,
            attempt: attempt.0,
            add_time,
            start_time,
            finish_time,
        }
    }
}

/// The length of a page if `limit` is not given.
const DEFAULT_LIMIT: usize = 100;

/// The parameters of a search: first the filters, then the parameters of the page.
const PARAMETERS: [&str; 16] = [
    "id",
    "id_prefix",
    "user",
    "status",
    "reason",
    "label",
    "group",
    "language",
    "retried",
    "executor",
    "from",
    "until",
    "text",
    "order",
    "limit",
    "after",
];

const FILTERS: usize = PARAMETERS.len() - 3;

/// Parses the query parameters that choose the tasks of a change. At least one is required, so that a mistake does not
/// change all tasks.
pub fn parse_filter<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<TaskQuery, InvalidField> {
    let mut query = TaskQuery::default();
    if !set_parameters(&mut query, pairs, &PARAMETERS[..FILTERS])? {
        return Err(InvalidField::new(
            "query",
            format!(
                "has no filter; give at least one of {}",
                PARAMETERS[..FILTERS].join(", ")
            ),
        ));
    }
    query.check()?;
    Ok(query)
}

/// Parses the query parameters of an export: filters, order and format. Oldest tasks are first unless it says otherwise.
pub fn parse_export_query<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(TaskQuery, TaskExportFormat), InvalidField> {
    const FORMAT: &str = "format";
    let (formats, others): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(name, _)| *name == FORMAT);
    let mut format = TaskExportFormat::default();
    for (name, value) in formats.into_iter().filter(|(_, value)| !value.is_empty()) {
        format = value
            .parse()
            .map_err(|problem| InvalidField::new(name, problem))?;
    }
    let mut query = TaskQuery {
        order: SortOrder::Oldest,
        ..TaskQuery::default()
    };
    let known = [&PARAMETERS[..=FILTERS], &[FORMAT]].concat();
    set_parameters(&mut query, others, &known)?;
    query.check()?;
    Ok((query, format))
}

/// Parses the query parameters of a search. An empty value counts as not given, as HTML forms send empty fields.
pub fn parse_query<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<TaskQuery, InvalidField> {
    let mut query = TaskQuery {
        limit: DEFAULT_LIMIT,
        ..TaskQuery::default()
    };
    set_parameters(&mut query, pairs, &PARAMETERS)?;
    if query.limit == 0 || query.limit > TaskQuery::MAX_PAGE {
        return Err(InvalidField::over_limit(
            "limit",
            format!("must be from 1 to {}", TaskQuery::MAX_PAGE),
            TaskQuery::MAX_PAGE,
            query.limit,
        ));
    }
    query.check()?;
    Ok(query)
}

/// Returns whether a parameter has a value.
fn set_parameters<'a>(
    query: &mut TaskQuery,
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    known: &[&str],
) -> Result<bool, InvalidField> {
    let mut is_set = false;
    for (name, value) in pairs {
        if !known.contains(&name) {
            return Err(InvalidField::new(
                name,
                parse::unknown_name("parameter", name, known),
            ));
        }
        if !value.is_empty() {
            set_parameter(query, name, value).map_err(|problem| InvalidField::new(name, problem))?;
            is_set = true;
        }
    }
    Ok(is_set)
}

fn set_parameter(query: &mut TaskQuery, name: &str, value: &str) -> Result<(), String> {
    match name {
        "id" => {
            for id in value.split(',') {
                let id = id.trim();
                query
                    .ids
                    .push(id.parse().map_err(|error| format!("'{id}' {error}"))?);
            }
        }
        "status" => {
            for status in value.split(',') {
                query.statuses.push(status.trim().parse()?);
            }
        }
        "reason" => {
            for reason in value.split(',') {
                query.reasons.push(reason.trim().parse()?);
            }
        }
        "label" => add_label(&mut query.labels, value)?,
        "group" => query.group = Some(GroupName::new(value).map_err(|error| error.to_string())?),
        "language" => {
            query.language = Some(LanguageName::new(value).map_err(|error| error.to_string())?);
        }
        "retried" => {
            query.retried = Some(
                value
                    .parse()
                    .map_err(|_| format!("'{value}' is not true or false"))?,
            );
        }
        "id_prefix" => {
            query.id_prefix = Some(value.parse().map_err(|error| format!("'{value}' {error}"))?);
        }
        "user" => query.user = Some(UserName::new(value).map_err(|error| error.to_string())?),
        "executor" => query.executor = Some(ExecutorName::new(value).map_err(|error| error.to_string())?),
        "from" => query.from = Some(parse_time(value)?),
        "until" => query.until = Some(parse_time(value)?),
        "text" => query.text = Some(value.to_string()),
        "order" => query.order = value.parse()?,
        "limit" => {
            query.limit = value.parse().map_err(|_| {
                format!(
                    "'{value}' is not a whole number from 1 to {}",
                    TaskQuery::MAX_PAGE
                )
            })?;
        }
        _ => query.after = Some(value.parse()?),
    }
    Ok(())
}

/// Adds a label of the form `key:value`. A key has no colon, but a value may have one.
fn add_label(labels: &mut Labels, text: &str) -> Result<(), String> {
    let Some((key, value)) = text.split_once(':') else {
        return Err(format!("'{text}' is not a label; write it as key:value"));
    };
    let mut all = std::mem::take(labels).into_map();
    if let Some(other) = all.insert(key.to_string(), value.to_string())
        && other != value
    {
        return Err(format!(
            "'{key}' is given as both '{other}' and '{value}', and a task has only one"
        ));
    }
    *labels = Labels::new(all).map_err(|invalid| invalid.problem)?;
    Ok(())
}

/// Writes a search as the parameters that `parse_query` reads.
pub fn query_pairs(query: &TaskQuery) -> Vec<(&'static str, String)> {
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
        limit,
        after,
    } = query;
    let mut pairs = Vec::new();
    let mut put = |name, value: Option<String>| pairs.extend(value.map(|value| (name, value)));
    put("id", join_with_commas(ids));
    put("id_prefix", id_prefix.as_ref().map(ToString::to_string));
    put("user", user.as_ref().map(ToString::to_string));
    put("status", join_with_commas(statuses));
    put("reason", join_with_commas(reasons));
    for (key, value) in labels.iter() {
        put("label", Some(format!("{key}:{value}")));
    }
    put("group", group.as_ref().map(ToString::to_string));
    put("language", language.as_ref().map(ToString::to_string));
    put("retried", retried.map(|retried| retried.to_string()));
    put("executor", executor.as_ref().map(ToString::to_string));
    put("from", from.map(format_time));
    put("until", until.map(format_time));
    put("text", text.clone());
    put("order", Some(order.to_string()));
    // Zero means that the limit is not set.
    put("limit", (*limit > 0).then(|| limit.to_string()));
    put("after", after.map(|after| after.to_string()));
    pairs
}

fn join_with_commas<T: ToString>(items: &[T]) -> Option<String> {
    let words: Vec<_> = items.iter().map(ToString::to_string).collect();
    (!words.is_empty()).then(|| words.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_survives_formatting_and_parsing() {
        let query = TaskQuery {
            ids: vec![TaskId(uuid::Uuid::now_v7()), TaskId(uuid::Uuid::now_v7())],
            id_prefix: Some("01890a5d-ac".parse().unwrap()),
            user: Some(UserName::new("Ada L").unwrap()),
            statuses: vec![TaskStatus::Pending, TaskStatus::RunFailed],
            reasons: vec![OutcomeReason::TimeLimit, OutcomeReason::Exited],
            labels: Labels::new([("a/b".into(), "x:y".into()), ("c".into(), String::new())].into()).unwrap(),
            group: Some(GroupName::new("sweep 17").unwrap()),
            language: Some(LanguageName::new("c++").unwrap()),
            retried: Some(false),
            executor: Some(ExecutorName::new("e-1").unwrap()),
            from: Some(UnixTime(5)),
            until: Some(UnixTime(1_767_225_600_123_456)),
            text: Some("g++ & co".into()),
            order: SortOrder::Oldest,
            limit: 7,
            after: Some(SearchCursor {
                add_time: UnixTime(1),
                id: TaskId(uuid::Uuid::now_v7()),
                fingerprint: 9,
            }),
        };
        let pairs = query_pairs(&query);
        let again = parse_query(pairs.iter().map(|(name, value)| (*name, value.as_str())));
        assert_eq!(again, Ok(query));
    }

    #[test]
    fn errors_name_the_wrong_parameter() {
        let check = |name: &str, value: &str, problem: &str| {
            let invalid = parse_query([(name, value)]).unwrap_err();
            assert_eq!(invalid.field, name);
            assert!(invalid.problem.contains(problem), "{invalid}");
        };
        check("stauts", "pending", "did you mean 'status'?");
        check("q", "x", "the known ones are");
        check("status", "pending,done", "'done' is not a status");
        check("id", "7", "UUID");
        check("id_prefix", "018", "from 4 to 36 characters");
        check("id_prefix", "task", "'task' is not the beginning of a UUID");
        check("limit", "0", "from 1 to 1000");
        check("limit", "1001", "from 1 to 1000");
        check("limit", "-1", "whole number");
        check("order", "random", "oldest or newest");
        check("reason", "tired", "'tired' is no reason");
        check("label", "hw3", "write it as key:value");
        check("label", "a b:c", "may contain only letters");
        check("group", "a/b", "must not contain '/'");
        check("language", "a b", "letters, digits");
        check("retried", "yes", "not true or false");
        let twice = parse_query([("label", "a:1"), ("label", "a:2")]).unwrap_err();
        assert!(twice.problem.contains("has only one"), "{twice}");
        check("from", "now", "not a time");
        check("after", "x", "not a cursor");
        check("executor", "a b", "letters");
        assert!(parse_query([("text", "ü".repeat(1000).as_str())]).is_ok());
        assert!(parse_query([("user", ""), ("text", "")]).is_ok());
        check("text", &"é".repeat(1025), "up to 1024 characters");
        assert!(parse_query([("text", "é".repeat(1024).as_str())]).is_ok());
    }

    #[test]
    fn an_export_has_filters_an_order_and_a_format() {
        let parse = |pairs: &[(&str, &str)]| parse_export_query(pairs.iter().copied());
        let (query, format) = parse(&[("user", "ada"), ("format", "csv"), ("order", "newest")]).unwrap();
        assert_eq!((format, query.order), (TaskExportFormat::Csv, SortOrder::Newest));
        let (query, format) = parse(&[("format", ""), ("user", "")]).unwrap();
        assert_eq!(
            (format, query.order),
            (TaskExportFormat::Jsonl, SortOrder::Oldest)
        );
        for (name, value, problem) in [
            ("format", "xlsx", "use jsonl or csv"),
            ("limit", "7", "not a known parameter"),
            ("formt", "csv", "did you mean 'format'?"),
        ] {
            let invalid = parse(&[(name, value)]).unwrap_err();
            assert_eq!(invalid.field, name);
            assert!(invalid.problem.contains(problem), "{invalid}");
        }
    }

    #[test]
    fn a_filter_is_required() {
        let filter = |pairs: &[(&str, &str)]| parse_filter(pairs.iter().copied());
        assert_eq!(
            filter(&[("group", "g")]).unwrap().group,
            Some(GroupName::new("g").unwrap())
        );
        assert!(filter(&[("user", "ada"), ("status", "")]).is_ok());
        for none in [&[][..], &[("user", ""), ("label", "")]] {
            let invalid = filter(none).unwrap_err();
            assert!(
                invalid.problem.contains("at least one of id, id_prefix, user"),
                "{invalid}"
            );
        }
        assert_eq!(
            filter(&[("group", "g"), ("limit", "7")]).unwrap_err().field,
            "limit"
        );
    }
}
