//! Detects when a long-lived component of a process panics or returns, so that a dead component never looks healthy.
//!
//! [`Component`] is the table of all components and of what happens when one fails. A crate starts its components
//! through a [`Supervisor`] and hands out a [`FailureWatch`]. The process waits for a failure and exits with it, and
//! readiness checks report it. This crate knows the names of the components, not what they do.

mod component;
mod failures;
mod supervisor;

pub use component::{Component, FailurePolicy};
pub use failures::{ComponentFailure, FailureKind, FailureWatch};
pub use supervisor::{RESTARTS, Supervisor};
