//! Notices when a long-lived component of a process panics or ends by itself, so that a dead one never looks healthy.
//!
//! [`Component`] is the table of all of them and says what happens then. A room starts its components through a
//! [`Supervisor`] and hands out [`Failures`]; the process waits for a failure and ends with it, and readiness checks
//! tell it. This room knows what the components are called, and nothing of what they do.

mod component;
mod failures;
mod supervisor;

pub use component::{Component, OnFailure};
pub use failures::{ComponentFailed, Failures, How};
pub use supervisor::{RESTARTS, Supervisor};
