//! Problem details for HTTP APIs (RFC 9457).

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of an error response: why the server refused the request, and what to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The kind of problem, as a link to its description.
    #[serde(rename = "type")]
    #[schema(example = "/api/docs#invalid")]
    pub kind: String,
    #[schema(example = "Invalid task or parameter")]
    pub title: String,
    #[schema(example = 422)]
    pub status: u16,
    /// What happened, to what, and what to do about it.
    #[schema(
        example = "execute.limits.wall: is more than the operator allows (limit 86400s, actual 90000s)"
    )]
    pub detail: String,
    /// The field or parameter that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "execute.limits.wall")]
    pub field: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "86400s")]
    pub limit: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "90000s")]
    pub actual: Option<String>,
}

impl Problem {
    pub const MEDIA_TYPE: &str = "application/problem+json";
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}
