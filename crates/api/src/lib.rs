//! The JSON of the HTTP API: its types, how they turn into the model's and back, their OpenAPI schema,
//! and a client that speaks it.
//!
//! The gateway reads and writes these types; the command line and every Rust program use [`Client`].
//! This room knows neither the RPC wire nor a store nor how a request is answered.
//!
//! What a person may write in two ways (`"2s"` or `2`, text or a list) is read in both and written in one, so
//! that what was answered can be sent again: durations are written in seconds, sizes in bytes.

mod client;
mod command;
mod content;
mod event;
mod files;
mod limits;
mod name;
mod nearest;
mod new_task;
mod node;
mod object;
mod outcome;
mod parse;
mod problem;
mod search;
mod size;
mod span;
mod task;
mod time;
mod whole;

pub mod schema;

pub use client::{Blob, Client, ClientError, ClientOptions, Output, Step};
pub use event::Event;
pub use files::Files;
pub use limits::Limits;
pub use nearest::nearest;
pub use new_task::{Compile, Execute, NewTask, NewTasks};
pub use node::{Executor, Executors, Judicator, Judicators, Part, Stats};
pub use outcome::{Outcome, TaskResult};
pub use parse::{ParseError, parse};
pub use problem::Problem;
pub use search::{Added, Brief, Page, TEXT_LENGTH, parse_query, query_pairs};
pub use size::Size;
pub use span::Span;
pub use task::Task;
pub use time::{parse_time, show_time};
