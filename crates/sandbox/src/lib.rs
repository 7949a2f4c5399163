//! Run one command in a cell under limits and say how it ended.
//!
//! A [`Launcher`] starts a warden: a small process of one thread that runs one command at a time, again and
//! again, and outlives neither its owner nor its purpose. The owner holds a [`Warden`], gives it a [`Spec`]
//! and gets an [`Outcome`]. A command that fails, is killed or exceeds a limit has an outcome; an error of
//! this crate means that the platform could not run the command at all.
//!
//! Reading order follows a run: `spec`, `launch`, `handle`, over the socket (`wire`) to `warden`, and back as
//! an `outcome`. `strays` cleans up where a warden died before its command did.
//!
//! This room must not know tasks, steps, workspaces or reports, which is why it uses no other room; and it
//! must not start threads or an async runtime, because a process that forks has to stay small and single.

mod outcome;
mod spec;

mod handle;
mod launch;
mod open_files;

mod fault;
mod wire;

mod clock;

pub mod cgroup;

mod cell;

mod subordinate;

pub mod warden;

mod walls;

mod pidfd;
mod strays;

pub use cell::{CellSettings, FileSize, LOOPBACK, Network, Part, Step, StepError, Usual, WORKSPACE};
pub use fault::{Errno, Fault};
pub use handle::{Remote, Ticket, Warden, WardenError};
pub use launch::{Isolation, LaunchError, Launcher};
pub use open_files::raise_open_files;
pub use outcome::{Captured, Outcome, Reason};
pub use spec::{Input, Limits, Spec, SpecError};
pub use strays::{Marker, StraysError, kill_strays, kill_strays_while};
pub use subordinate::{MapError, Subordinates};
pub use walls::{CellPlan, Ground, Statement, Wall, WallError};
