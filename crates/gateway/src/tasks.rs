//! The calls on tasks, one file for each, and what adding needs.

mod add;
mod add_many;
mod answer;
mod cancel;
mod events;
mod get;
mod key;
mod multipart;
mod offload;
mod output;
mod prepare;
mod search;
mod unpacking;
mod unzip;

pub(crate) use add::{__path_add, add};
pub(crate) use add_many::{__path_add_many, add_many};
pub(crate) use cancel::{__path_cancel, cancel, cancel_own};
pub(crate) use events::{__path_events, events};
pub(crate) use get::{__path_get, get};
pub(crate) use key::IdempotencyKey;
pub(crate) use output::{__path_output, OutputName, StepName, output};
pub(crate) use search::{__path_search, search};
