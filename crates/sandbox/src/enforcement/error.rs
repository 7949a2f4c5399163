//! Why commands cannot run in cells on this machine, with a remedy for the operator.

use std::io;
use std::path::PathBuf;

use error_causes::with_causes;

use super::WaivableLimit;
use crate::cell::{CellSetupError, CellSetupStep};
use crate::cgroup::CgroupRootError;
use crate::launch::WardenLaunchError;
use crate::platform_error::PlatformError;

/// Why this machine cannot run commands in cells, with a remedy for the operator.
#[derive(Debug, thiserror::Error)]
pub enum EnforcementError {
    #[error("{}. To run without, start with {}", self.without_remedy(), waiver_flags(limits))]
    MissingLimits { limits: Vec<WaivableLimit>, why: String },
    #[error(
        "two things are missing on this machine: {}; and {}. To run trusted tasks without isolation, start with \
         --isolation none",
        limits.without_remedy(),
        cells.without_remedy()
    )]
    MissingLimitsAndCells {
        limits: Box<EnforcementError>,
        cells: Box<EnforcementError>,
    },
    #[error(
        "a command that crashes would start the core dump helper of this machine ({pattern}), which runs outside of \
         the cell: set the sysctl kernel.core_pattern to the name of a file or, for a helper behind `|`, start the executor \
         with a hard limit of core files above 0 (LimitCORE=infinity in its unit)"
    )]
    CoreDumpHelper { pattern: String },
    #[error("cannot clean up the control groups of an earlier executor process")]
    Clear(#[source] CgroupRootError),
    #[error(
        "cannot read the root of the cells, {path:?}: set sandbox.root to a folder that contains a root file system"
    )]
    Root {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot mount {from:?} at {to:?} in cells (sandbox.binds): {why}")]
    Bind { from: PathBuf, to: PathBuf, why: String },
    #[error(
        "cannot use {namespace:?} as the network {name} (sandbox.networks): {why}; give the file of a network \
         namespace, which `ip netns add {name}` creates at /run/netns/{name}"
    )]
    Network {
        name: String,
        namespace: PathBuf,
        why: String,
    },
    #[error(
        "cells cannot be created on this machine: {remedy}. To run trusted tasks without isolation, start with \
         --isolation none"
    )]
    Cell {
        remedy: &'static str,
        #[source]
        source: PlatformError,
    },
    #[error("cannot start a warden")]
    Warden(#[source] WardenLaunchError),
}

impl EnforcementError {
    /// The problem without its remedy, for a message that gives one remedy for two problems.
    fn without_remedy(&self) -> String {
        match self {
            EnforcementError::MissingLimits { limits, why } => format!(
                "{} for all processes of a task together cannot be enforced: {why}",
                name_limits(limits)
            ),
            EnforcementError::Cell { source, .. } => {
                format!("cells cannot be created on this machine: {}", with_causes(source))
            }
            other => with_causes(other),
        }
    }
}

impl From<WardenLaunchError> for EnforcementError {
    fn from(error: WardenLaunchError) -> Self {
        match error {
            WardenLaunchError::CellSetup(source) => EnforcementError::Cell {
                remedy: remedy(&source),
                source,
            },
            error => EnforcementError::Warden(error),
        }
    }
}

/// For example `the limits of memory and cpu`.
fn name_limits(limits: &[WaivableLimit]) -> String {
    match limits {
        [limit] => format!("the limit of {limit}"),
        [first @ .., last] => {
            let first: Vec<_> = first.iter().map(|limit| limit.name()).collect();
            format!("the limits of {} and {last}", first.join(", "))
        }
        [] => "no limit".to_string(),
    }
}

/// For example `--allow-weaker memory --allow-weaker cpu`.
fn waiver_flags(limits: &[WaivableLimit]) -> String {
    let flags: Vec<_> = limits
        .iter()
        .map(|limit| format!("--allow-weaker {limit}"))
        .collect();
    flags.join(" ")
}

/// What the operator can do about a cell that could not be set up.
fn remedy(error: &PlatformError) -> &'static str {
    let PlatformError::Cell(CellSetupError { step, errno }) = error else {
        return "its control groups do not work";
    };
    match step {
        CellSetupStep::UserNamespace | CellSetupStep::MapUser => {
            "ordinary users may not create user namespaces here; set the sysctl kernel.unprivileged_userns_clone=1 \
             (and kernel.apparmor_restrict_unprivileged_userns=0 if it exists), or run as root"
        }
        CellSetupStep::MountProc => {
            "a new /proc cannot be mounted, for example because a container hides parts of it; start the container with \
             --security-opt systempaths=unconfined, or privileged"
        }
        CellSetupStep::OpenRootEntry => {
            "a file or folder of the root of the cells does not exist or cannot be read"
        }
        CellSetupStep::OpenNetwork => "a network namespace in sandbox.networks no longer exists",
        CellSetupStep::Seccomp => "the kernel has no seccomp filters (CONFIG_SECCOMP_FILTER)",
        _ if errno.0 == libc::ENOSYS => "the kernel is too old; Linux 5.12 or newer is required",
        _ if matches!(errno.0, libc::EPERM | libc::EACCES) => {
            "permission denied; in a container, start it with --privileged, or with --cap-add SYS_ADMIN \
             --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
        }
        _ => "the kernel refused an operation",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_missing_limits_are_in_one_message() {
        let check = |limits: &[WaivableLimit], named: &str, flags: &str| {
            let message = EnforcementError::MissingLimits {
                limits: limits.to_vec(),
                why: "no group".to_string(),
            }
            .to_string();
            assert!(
                message.starts_with(named) && message.ends_with(flags),
                "{message}"
            );
        };
        check(
            &[WaivableLimit::Cpu],
            "the limit of cpu for",
            "start with --allow-weaker cpu",
        );
        check(
            &WaivableLimit::ALL,
            "the limits of memory, processes and cpu for",
            "start with --allow-weaker memory --allow-weaker processes --allow-weaker cpu",
        );
    }
}
