//! Wire to model and back. Going out cannot fail; coming in, every field is checked as bad input would be.

mod ids;
mod nodes;
mod problem;
mod report;
mod search;
mod task;

pub(crate) mod proto {
    #![allow(clippy::all, unreachable_pub)]
    tonic::include_proto!("conclave.v1");
}

pub(crate) use ids::{hash_in, hash_out, id_in, id_out};
pub(crate) use problem::{own_problem, problem_in, problem_out};
pub use task::spec_bytes;

use std::time::Duration;

use model::Invalid;

/// A wire message that can be understood as a `T`, or complained about.
pub(crate) trait Incoming<T> {
    fn read(self) -> Result<T, Invalid>;
}

/// Reads a part that must be there.
pub(crate) fn required<M: Incoming<T>, T>(field: &str, part: Option<M>) -> Result<T, Invalid> {
    part.ok_or_else(|| Invalid::new(field, "is missing"))?
        .read()
        .map_err(|invalid| invalid.within(field))
}

/// Reads a part that may be there.
pub(crate) fn optional<M: Incoming<T>, T>(field: &str, part: Option<M>) -> Result<Option<T>, Invalid> {
    part.map(|part| part.read().map_err(|invalid| invalid.within(field)))
        .transpose()
}

/// Reads each of a list, naming the one that is wrong by its place.
pub(crate) fn each<M: Incoming<T>, T>(field: &str, parts: Vec<M>) -> Result<Vec<T>, Invalid> {
    parts
        .into_iter()
        .enumerate()
        .map(|(index, part)| {
            part.read()
                .map_err(|invalid| invalid.within(&format!("{field}[{index}]")))
        })
        .collect()
}

/// Reads text that has a form of its own.
pub(crate) fn text<T: std::str::FromStr>(field: &str, value: &str) -> Result<T, Invalid>
where
    T::Err: std::fmt::Display,
{
    value
        .parse()
        .map_err(|wrong: T::Err| Invalid::new(field, wrong.to_string()))
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
