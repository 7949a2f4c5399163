//! Whole systems of real processes, for tests: started from the `conclave` binary, spoken to over HTTP, hurt by
//! signals.
//!
//! This room uses nothing of the others but the HTTP client: what it sees is what a user sees.

mod await_that;
mod history;
mod node;
mod system;

pub use await_that::await_that;
pub use history::{History, Run};
pub use node::{Node, conclave};
pub use system::{System, shell};
