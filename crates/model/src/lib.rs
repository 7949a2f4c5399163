//! The words of Conclave as plain values: tasks, their statuses, outcomes, reports and searches.
//!
//! Everything here is pure. This room knows no wire, no store, no clock and no file system;
//! what has to be decided about a task is decided here, over values, so that every store and every
//! node decides it alike.

mod age;
mod capacity;
mod causes;
mod check;
mod id;
mod loss;
mod moment;
mod node;
mod outcome;
mod path;
mod policy;
mod report;
mod search;
mod status;
mod task;

pub use age::Age;
pub use capacity::{Capacity, FEWEST_OPEN_FILES, Need};
pub use causes::with_causes;
pub use check::{Bounds, Invalid};
pub use id::{
    Attempt, BlobHash, ExecutorName, IdPrefix, NameError, NetworkName, Seq, SessionId, TaskId, UserName,
};
pub use loss::{Losses, MAX_PLATFORM_LOSSES, Release, Released, pause_after};
pub use moment::Moment;
pub use node::{ExecutorState, Health, JudicatorState, NO_EXECUTOR, PartState, Stats};
pub use outcome::{Captured, Outcome, Reason, TaskResult};
pub use path::{FilePath, PathError};
pub use policy::LimitPolicy;
pub use report::{
    Answer, Assignment, Complete, End, Executing, Handout, Holding, Intent, KnownSession, Presence, Report,
    ReportAnswer, Settled, Standing, settle, standing,
};
pub use search::{Brief, Counts, Cursor, Order, Page, Query};
pub use status::Status;
pub use task::{Add, Added, Command, CompileStep, Content, ExecuteStep, File, Files, Limits, Task, TaskSpec};
