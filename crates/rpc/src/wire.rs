//! Conversion between wire messages and `model`. Encoding cannot fail. Parsing checks every field as untrusted input.

mod error_status;
mod groups;
mod history;
mod ids;
mod judgement;
mod judging;
mod live_output;
mod nodes;
mod problems;
mod report;
mod result;
mod search;
mod task;
mod tools;
mod waiting;

/// The types generated from `conclave.proto`.
pub(crate) mod proto {
    #![allow(clippy::all, unreachable_pub)]
    tonic::include_proto!("conclave.v1");
}

pub(crate) use error_status::{error_from_status, judicator_error, status_from_error};
pub(crate) use groups::{GroupRetry, GroupWait, MatchingRetry};
pub(crate) use ids::{encode_hash, encode_id, parse_hash, parse_id};
pub use judgement::{CaseResultsError, decode_case_results, encode_case_results};
pub(crate) use live_output::first_answer;
pub(crate) use nodes::DrainCall;
pub(crate) use problems::{PutProblemCall, RemoveProblemCall};
pub use task::legacy_digest_bytes;
pub(crate) use task::parse_form;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::InvalidField;

/// A protobuf message of the RPC between nodes that can be parsed and checked as a type `T` of the model.
pub(crate) trait ParseMessage<T> {
    fn parse(self) -> Result<T, InvalidField>;
}

/// Parses a field that must be present.
pub(crate) fn parse_required<M: ParseMessage<T>, T>(
    field: &str,
    message: Option<M>,
) -> Result<T, InvalidField> {
    message
        .ok_or_else(|| InvalidField::new(field, "is missing"))?
        .parse()
        .map_err(|invalid| invalid.within(field))
}

/// Parses a field that may be absent.
pub(crate) fn parse_optional<M: ParseMessage<T>, T>(
    field: &str,
    message: Option<M>,
) -> Result<Option<T>, InvalidField> {
    message
        .map(|message| message.parse().map_err(|invalid| invalid.within(field)))
        .transpose()
}

/// Parses each item of a list. An error names the item by its index.
pub(crate) fn parse_each<M: ParseMessage<T>, T>(
    field: &str,
    messages: Vec<M>,
) -> Result<Vec<T>, InvalidField> {
    messages
        .into_iter()
        .enumerate()
        .map(|(index, message)| {
            message
                .parse()
                .map_err(|invalid| invalid.within(&format!("{field}[{index}]")))
        })
        .collect()
}

/// Parses the items of a list and leaves out those that this version cannot parse: in the middle of an upgrade, newer nodes
/// send statuses and reasons that it does not know.
pub(crate) fn parse_known<M: ParseMessage<T>, T>(field: &'static str, messages: Vec<M>) -> Vec<T> {
    let parse = |message: M| message.parse().map_err(|invalid| log_left_out(field, &invalid));
    messages
        .into_iter()
        .filter_map(|message| parse(message).ok())
        .collect()
}

/// Parses a text field whose value may be one that only newer versions know. `None` for such a value.
pub(crate) fn parse_known_text<T: std::str::FromStr>(field: &'static str, value: &str) -> Option<T>
where
    T::Err: std::fmt::Display,
{
    parse_text(field, value)
        .map_err(|invalid| log_left_out(field, &invalid))
        .ok()
}

/// Logs once for each field that a value was left out: every report and list may have it.
pub(crate) fn log_left_out(field: &'static str, invalid: &InvalidField) {
    static LOGGED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    if LOGGED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(field)
    {
        tracing::warn!(
            field,
            %invalid,
            "left out what another node sent and this version does not know; upgrade Conclave on this node"
        );
    }
}

/// Parses a text field with `FromStr`.
pub(crate) fn parse_text<T: std::str::FromStr>(field: &str, value: &str) -> Result<T, InvalidField>
where
    T::Err: std::fmt::Display,
{
    value
        .parse()
        .map_err(|error: T::Err| InvalidField::new(field, error.to_string()))
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
