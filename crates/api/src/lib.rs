//! The HTTP API in JSON: its types, their conversion from and to the model, their OpenAPI schema, and a client.
//!
//! The gateway reads and writes these types; the command line and other Rust programs use [`HttpClient`].
//! This crate knows neither the RPC protocol nor a store nor how the gateway handles a request.
//!
//! Some values may be written in two ways (`"2s"` or `2`, text or a list). Both are accepted, and one is written:
//! durations in seconds, sizes in bytes. So a response can be sent again as a request.
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests start tasks that end with them")
)]

mod byte_size;
mod case;
mod case_folder;
mod check;
mod client;
mod command;
mod content;
mod drain;
mod duration;
mod export;
mod files;
mod group;
mod group_rule;
mod hidden_character;
mod history;
mod integer;
mod item_limits;
mod judge_problem;
mod judge_program;
mod judgement;
mod labels;
mod language;
mod limit_value;
mod limits;
mod new_task;
mod node;
mod object;
mod outcome;
mod output_event;
mod parse;
mod points;
mod problem;
mod search;
mod serde_text;
mod task;
mod time;
mod waiting;

pub mod schema;

pub use byte_size::ByteSize;
pub use case::{Case, CasesOrFiles};
pub use case_folder::cases_of_files;
pub use check::Check;
pub use client::{
    BlobDownload, FileDownloadError, HttpClient, HttpClientError, HttpClientOptions, OutputDownload,
    ReceivedTaskEvent, TaskStreamEvent,
};
pub use drain::{DrainRequest, ExecutorDrain};
pub use duration::HumanDuration;
pub use export::{ExportedTask, TaskExportFormat, csv};
pub use files::FilesOrZip;
pub use group::{CancelledTasks, GroupCursor, GroupPage, GroupState, RetriedTasks, parse_group_query};
pub use hidden_character::is_hidden_character;
pub use history::{HistoryPoint, HistoryResponse, PeriodLoad, RunTimes};
pub use judge_problem::{JudgeProblem, NewJudgeProblem, ProblemSummary, ProblemsResponse};
pub use judge_program::JudgeProgram;
pub use judgement::{CaseEvent, CaseResult, CheckResult};
pub use language::{Language, LanguagesResponse, Root, RootsResponse};
pub use limits::Limits;
pub use new_task::{CompileStep, ExecuteStep, NewTask, NewTasks};
pub use node::{
    ClusterMemberState, ExecutorState, ExecutorsResponse, JudicatorState, JudicatorsResponse, MachineLoad,
    OfferedLanguage, OfferedRoot, Stats,
};
pub use outcome::{FilesLeftOut, KeptFile, Outcome, TaskResult, cut_character};
pub use output_event::OutputEvent;
pub use parse::{ParseError, closest_match, parse_json, parse_task_batch};
pub use problem::Problem;
pub use search::{AddedTasks, Page, TaskSummary, parse_export_query, parse_filter, parse_query, query_pairs};
pub use task::{AttemptRecord, Task, TaskEvent};
pub use time::{format_time, parse_time};
pub use waiting::{TaskWait, WaitReason};
