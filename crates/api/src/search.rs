//! Looking for tasks: the parameters of a search, and a page of what was found.

use model::{Cursor, ExecutorName, Invalid, Moment, Query, Status, TaskId, UserName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{name, nearest, parse_time, schema, show_time};

/// A page of tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page {
    pub tasks: Vec<Brief>,
    /// Give it as `after` for the next page; null on the last.
    #[serde(with = "name::optional::cursor")]
    #[schema(value_type = Option<String>)]
    pub next: Option<Cursor>,
    /// False if the server looked at part of the tasks only, as a search for a text does where there are many. Then
    /// `next` says where to go on, and the page may be short or empty although more tasks match.
    #[serde(default = "complete_if_unsaid")]
    #[schema(required = true)]
    pub complete: bool,
}

/// Servers that do not say it look at all tasks.
fn complete_if_unsaid() -> bool {
    true
}

/// The tasks of a batch, in the order given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Added {
    pub tasks: Vec<Brief>,
}

/// A task on a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Brief {
    #[serde(with = "name::task")]
    #[schema(value_type = schema::Id)]
    pub id: TaskId,
    #[serde(with = "name::user")]
    #[schema(value_type = String)]
    pub user: UserName,
    pub priority: i32,
    /// The execute command on one line. One of more than 1 KiB is cut and ends in `…`; the task itself has all of it.
    pub command: String,
    #[serde(with = "name::status")]
    #[schema(value_type = schema::Status)]
    pub status: Status,
    pub done: bool,
    #[serde(with = "name::optional::executor")]
    #[schema(value_type = Option<String>)]
    pub executor: Option<ExecutorName>,
    pub attempt: u32,
    #[serde(with = "name::time")]
    #[schema(value_type = schema::Time)]
    pub add_time: Moment,
    #[serde(with = "name::optional::time")]
    #[schema(value_type = Option<schema::Time>)]
    pub start_time: Option<Moment>,
    #[serde(with = "name::optional::time")]
    #[schema(value_type = Option<schema::Time>)]
    pub finish_time: Option<Moment>,
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

impl From<model::Brief> for Brief {
    fn from(brief: model::Brief) -> Brief {
        let model::Brief {
            id,
            user,
            priority,
            command,
            status,
            executor,
            attempt,
            add_time,
            start_time,
            finish_time,
        } = brief;
        Brief {
            id,
            user,
            priority,
            command,
            status,
            done: status.done(),
            executor,
            attempt: attempt.0,
            add_time,
            start_time,
            finish_time,
        }
    }
}

/// How long a page is when nobody says.
const LIMIT: usize = 100;

const PARAMETERS: [&str; 11] = [
    "id",
    "id_prefix",
    "user",
    "status",
    "executor",
    "from",
    "until",
    "text",
    "order",
    "limit",
    "after",
];

/// Reads the parameters of a search. An empty one is as good as none, so that a form can be sent as it is.
pub fn parse_query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Query, Invalid> {
    let mut query = Query {
        limit: LIMIT,
        ..Query::default()
    };
    for (name, value) in pairs {
        if !PARAMETERS.contains(&name) {
            return Err(Invalid::new(
                name,
                nearest::unknown("parameter", name, &PARAMETERS),
            ));
        }
        if !value.is_empty() {
            set(&mut query, name, value).map_err(|problem| Invalid::new(name, problem))?;
        }
    }
    if query.limit == 0 || query.limit > Query::LIMIT {
        return Err(Invalid::beyond(
            "limit",
            format!("must be from 1 to {}", Query::LIMIT),
            Query::LIMIT,
            query.limit,
        ));
    }
    query.check()?;
    Ok(query)
}

fn set(query: &mut Query, name: &str, value: &str) -> Result<(), String> {
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
            query.limit = value
                .parse()
                .map_err(|_| format!("'{value}' is not a whole number from 1 to {}", Query::LIMIT))?;
        }
        _ => query.after = Some(value.parse()?),
    }
    Ok(())
}

/// Writes a search as the parameters that `parse_query` reads.
pub fn query_pairs(query: &Query) -> Vec<(&'static str, String)> {
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
        limit,
        after,
    } = query;
    let mut pairs = Vec::new();
    let mut put = |name, value: Option<String>| pairs.extend(value.map(|value| (name, value)));
    put("id", list(ids));
    put("id_prefix", id_prefix.as_ref().map(ToString::to_string));
    put("user", user.as_ref().map(ToString::to_string));
    put("status", list(statuses));
    put("executor", executor.as_ref().map(ToString::to_string));
    put("from", from.map(show_time));
    put("until", until.map(show_time));
    put("text", text.clone());
    put("order", Some(order.to_string()));
    // Zero is what nobody has set.
    put("limit", (*limit > 0).then(|| limit.to_string()));
    put("after", after.map(|after| after.to_string()));
    pairs
}

fn list<T: ToString>(items: &[T]) -> Option<String> {
    let words: Vec<_> = items.iter().map(ToString::to_string).collect();
    (!words.is_empty()).then(|| words.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_survives_its_parameters() {
        let query = Query {
            ids: vec![TaskId::generate(), TaskId::generate()],
            id_prefix: Some("01890a5d-ac".parse().unwrap()),
            user: Some(UserName::new("Ada L").unwrap()),
            statuses: vec![Status::Pending, Status::RunFailed],
            executor: Some(ExecutorName::new("e-1").unwrap()),
            from: Some(Moment(5)),
            until: Some(Moment(1_767_225_600_123_456)),
            text: Some("g++ & co".into()),
            order: model::Order::Oldest,
            limit: 7,
            after: Some(Cursor {
                add_time: Moment(1),
                id: TaskId::generate(),
                fingerprint: 9,
            }),
        };
        let pairs = query_pairs(&query);
        let again = parse_query(pairs.iter().map(|(name, value)| (*name, value.as_str())));
        assert_eq!(again, Ok(query));
    }

    #[test]
    fn wrong_parameters_are_named() {
        let check = |name: &str, value: &str, problem: &str| {
            let invalid = parse_query([(name, value)]).unwrap_err();
            assert_eq!(invalid.field, name);
            assert!(invalid.problem.contains(problem), "{invalid}");
        };
        check("stauts", "pending", "did you mean 'status'?");
        check("q", "x", "the known ones are");
        check("status", "pending,done", "'done' is no status");
        check("id", "7", "UUID");
        check("id_prefix", "018", "from 4 to 36 characters");
        check("id_prefix", "task", "'task' is not the beginning of a UUID");
        check("limit", "0", "from 1 to 1000");
        check("limit", "1001", "from 1 to 1000");
        check("limit", "-1", "whole number");
        check("order", "random", "oldest and newest");
        check("from", "now", "not a time");
        check("after", "x", "not a cursor");
        check("executor", "a b", "letters");
        assert!(parse_query([("text", "ü".repeat(1000).as_str())]).is_ok());
        assert!(parse_query([("user", ""), ("text", "")]).is_ok());
        check("text", &"é".repeat(1025), "up to 1024 characters");
        assert!(parse_query([("text", "é".repeat(1024).as_str())]).is_ok());
    }
}
