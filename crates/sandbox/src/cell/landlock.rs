//! Landlock rules: what a command may do in which folders, regardless of its user and of mounts.
//!
//! Mounts and permissions already forbid everything that these rules forbid. They are a second, independent
//! protection, in case one of those has a hole.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use crate::platform_error::Errno;

/// The newest version whose restrictions we know. Older kernels enforce a part of them, newer ones all.
const NEWEST_KNOWN_ABI: ABI = ABI::V6;

/// Version 1 could only forbid moving files between folders, which programs do not expect.
const OLDEST_USEFUL_ABI: i32 = 2;

/// Programs of all kinds write to these devices, and in a cell they are harmless.
const DEVICES: &str = "/dev";

/// The kernel's Landlock version. `None` if it has none, or one that is too old to be useful.
pub(crate) fn version() -> Option<i32> {
    const ASK_VERSION: u32 = 1;
    // SAFETY: the kernel is asked for a number and gets no memory to access.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            ASK_VERSION,
        )
    };
    Some(version as i32).filter(|version| *version >= OLDEST_USEFUL_ABI)
}

/// The folders in the Landlock rules of every cell of a warden (the root and the devices), opened once.
#[derive(Debug)]
pub(super) struct SharedFolders {
    root: PathFd,
    devices: PathFd,
}

impl SharedFolders {
    /// Returns `None` if the kernel has no usable Landlock.
    pub(super) fn open() -> Result<Option<Self>, Errno> {
        match version() {
            Some(_) => Ok(Some(Self {
                root: PathFd::new("/").map_err(errno)?,
                devices: PathFd::new(DEVICES).map_err(errno)?,
            })),
            None => Ok(None),
        }
    }
}

/// A Landlock ruleset: what the command of a cell may do in which folders. The rules apply to the folders as they are
/// now: a folder that is mounted over one of them later is a different folder, and one of them that is mounted
/// elsewhere keeps its rules.
#[derive(Debug)]
pub(super) struct LandlockRules(OwnedFd);

impl LandlockRules {
    /// `message_queues` is another writable folder, which has no path.
    pub(super) fn new(
        shared: &SharedFolders,
        writable: &[&Path],
        message_queues: Option<BorrowedFd<'_>>,
    ) -> Result<Option<Self>, Errno> {
        let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
        let mut rules = create_ruleset().map_err(errno)?;
        rules = allow(rules, &shared.root, AccessFs::from_read(NEWEST_KNOWN_ABI))?;
        rules = allow(rules, &shared.devices, device)?;
        for path in writable {
            let folder = PathFd::new(path).map_err(errno)?;
            rules = allow(rules, folder, AccessFs::from_all(NEWEST_KNOWN_ABI))?;
        }
        if let Some(message_queues) = message_queues {
            rules = allow(rules, message_queues, AccessFs::from_all(NEWEST_KNOWN_ABI))?;
        }
        Ok(Option::<OwnedFd>::from(rules).map(Self))
    }
}

impl AsRawFd for LandlockRules {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Restricts everything that is not allowed by a later rule: access to files, signals to processes outside, and
/// connections to abstract sockets outside.
fn create_ruleset() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST_KNOWN_ABI))?
        .scope(Scope::from_all(NEWEST_KNOWN_ABI))?
        .create()
}

fn allow(
    rules: RulesetCreated,
    folder: impl AsFd,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, Errno> {
    rules.add_rule(PathBeneath::new(folder, access)).map_err(errno)
}

fn errno(error: impl std::error::Error) -> Errno {
    Errno(*landlock::Errno::from(error))
}
