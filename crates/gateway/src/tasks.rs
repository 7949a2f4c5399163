//! The API calls on tasks, one file for each, and the steps of adding a task.

mod add;
mod add_many;
mod cancel;
mod events;
mod get;
mod idempotency_key;
mod multipart;
mod offload;
mod output;
mod prepare;
mod search;
mod task_response;
mod unzip;
mod zip_unpacker;

pub(crate) use add::{__path_add, add};
pub(crate) use add_many::{__path_add_many, add_many};
pub(crate) use cancel::{__path_cancel, cancel, cancel_task};
pub(crate) use events::{__path_events, events};
pub(crate) use get::{__path_get, get};
pub(crate) use idempotency_key::IdempotencyKey;
pub(crate) use output::{__path_output, output};
pub(crate) use search::{__path_search, search};
