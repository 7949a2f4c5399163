//! Drained executors in JSON.

use model::{DrainReason, UnixTime, UserName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::object::impl_json_objects;
use crate::{schema, serde_text};

/// A request to drain an executor: it ends the tasks that it has, and gets no new ones until it is resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct DrainRequest {
    #[serde(with = "serde_text::drain_reason")]
    #[schema(value_type = schema::DrainReason)]
    pub reason: DrainReason,
}

impl_json_objects! {
    DrainRequest: "an object like {\"reason\": \"new disk\"}";
}

/// Why and since when an executor is drained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecutorDrain {
    #[serde(with = "serde_text::drain_reason")]
    #[schema(value_type = String, example = "new disk")]
    pub reason: DrainReason,
    /// The user whose token drained it. Missing if the server has no tokens.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "serde_text::optional::user"
    )]
    #[schema(value_type = Option<String>)]
    pub by: Option<UserName>,
    #[serde(with = "serde_text::time")]
    #[schema(value_type = schema::Time)]
    pub since: UnixTime,
}

impl From<model::ExecutorDrain> for ExecutorDrain {
    fn from(drain: model::ExecutorDrain) -> ExecutorDrain {
        let model::ExecutorDrain { reason, by, since } = drain;
        ExecutorDrain { reason, by, since }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_json;

    #[test]
    fn a_request_has_only_a_reason() {
        let check = |json: &str, expected: Result<&str, &str>| {
            let parsed = parse_json::<DrainRequest>(json.as_bytes());
            match (parsed, expected) {
                (Ok(request), Ok(reason)) => assert_eq!(request.reason.as_str(), reason),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{json}: {error}"),
                (parsed, _) => panic!("{json}: {parsed:?}"),
            }
        };
        check(r#"{"reason": "new disk"}"#, Ok("new disk"));
        check("{}", Err("reason"));
        check(r#"{"reason": ""}"#, Err("must not be empty"));
        check(r#"{"reason": "a\nb"}"#, Err("one line"));
        check(r#"{"reason": null}"#, Err("reason"));
        check(r#"{"reason": "x", "force": true}"#, Err("force"));
        check(r#"["new disk"]"#, Err("an object like"));
    }
}
