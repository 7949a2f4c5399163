//! Runs one command in a cell under limits and reports how it ended.
//!
//! A [`WardenLauncher`] starts a warden: a small single-threaded process that runs one command after another and ends
//! when its owner ends. The owner holds a [`Warden`], passes it a [`CommandSpec`] and gets a [`CommandOutcome`]. A
//! command that fails, is killed or exceeds a limit has an outcome. An error of this crate means that the platform
//! could not run the command at all.
//!
//! The modules follow a run: `spec`, `launch` and `handle` are the owner's side, `wire` is the socket protocol,
//! `warden` is the other side, and `outcome` is what comes back. `output` is the way that the command's output takes, unless
//! the owner passes descriptors for its streams (`passed_streams`).
//! `open_beneath` opens the files that commands leave. `enforcement` checks what this machine can enforce,
//! before the first run. `orphans` kills processes that outlived a warden that was killed.
//!
//! This crate must not know tasks, steps, workspaces or reports, so it uses no other crate of the workspace that
//! does. It must not start threads or an async runtime, because a process that forks must stay small and
//! single-threaded.
#![allow(clippy::disallowed_types, reason = "this crate starts processes")]

mod outcome;
mod output;
mod passed_streams;
mod spec;

mod handle;
mod launch;
mod open_beneath;
mod open_file_limit;

mod platform_error;
mod wire;

mod clock;
mod cpu;

pub mod cgroup;

mod cell;

mod subordinate_ids;

pub mod warden;

mod enforcement;

mod orphans;
mod pidfd;

pub use cell::{
    CellSettings, CellSetupError, CellSetupStep, DefaultCommandLimits, FileAllocation, LOOPBACK_NETWORK,
    NamedNetwork, RootEntry, WORKSPACE,
};
pub use cpu::{CpuNumber, allowed_cpus};
pub use enforcement::{EnforcementError, PreparedSandbox, ProtectionStatus, SandboxOptions, WaivableLimit};
pub use handle::{RunHandle, Warden, WardenControl, WardenError};
pub use launch::{CommandIsolation, WardenLaunchError, WardenLauncher};
pub use open_beneath::{OpenPurpose, open_beneath};
pub use open_file_limit::raise_open_file_limit;
pub use orphans::{KillOrphansError, ProcessSelector, kill_orphans, kill_orphans_while};
pub use outcome::{CapturedStream, CommandEndReason, CommandOutcome};
pub use output::{LiveOutput, STREAM_HEAD, StandardStream};
pub use passed_streams::{PassedStreams, pipe_from_stdout, pipe_to_stdin};
pub use platform_error::{Errno, PlatformError};
pub use spec::{CommandInput, CommandLimits, CommandSpec, CommandSpecError};
pub use subordinate_ids::{IdMapError, SubordinateIds};
