//! The second wall around files: what a command may do beneath which folder, whoever it is and whatever is mounted.
//!
//! All that it does here is forbidden by mounts and permissions already. This wall stands on its own: it holds when
//! one of those has a hole.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use crate::fault::Errno;

/// The newest that we know what it forbids; older kernels know a part of it, newer ones all.
const KNOWN: ABI = ABI::V6;

/// The first kernels could only forbid to move files from one folder to another, which no program would expect.
const OLDEST: i32 = 2;

/// What is there is written to by all kinds of programs, and in a cell of no consequence.
const DEVICES: &str = "/dev";

/// The kernel's version of this wall. None: it has none, or one that is too old to be of use.
pub(crate) fn version() -> Option<i32> {
    const ASK_VERSION: u32 = 1;
    // SAFETY: the kernel is asked for a number, and given no memory.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            ASK_VERSION,
        )
    };
    Some(version as i32).filter(|version| *version >= OLDEST)
}

/// The folders that are the same for all cells of a warden, opened once.
#[derive(Debug)]
pub(super) struct SharedFolders {
    root: PathFd,
    devices: PathFd,
}

impl SharedFolders {
    /// None where [`version`] is none.
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

/// What is allowed beneath which folders. Of the folders as they are now: another that is mounted over one of them
/// is another one, and one of them that is mounted elsewhere stays the same.
#[derive(Debug)]
pub(super) struct Rules(OwnedFd);

impl Rules {
    /// The queues are another folder that may be written to, which has no path.
    pub(super) fn new(
        shared: &SharedFolders,
        writable: &[&Path],
        queues: Option<BorrowedFd<'_>>,
    ) -> Result<Option<Self>, Errno> {
        let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
        let mut rules = handled().map_err(errno)?;
        rules = allow(rules, &shared.root, AccessFs::from_read(KNOWN))?;
        rules = allow(rules, &shared.devices, device)?;
        for path in writable {
            let folder = PathFd::new(path).map_err(errno)?;
            rules = allow(rules, folder, AccessFs::from_all(KNOWN))?;
        }
        if let Some(queues) = queues {
            rules = allow(rules, queues, AccessFs::from_all(KNOWN))?;
        }
        Ok(Option::<OwnedFd>::from(rules).map(Self))
    }
}

impl AsRawFd for Rules {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// All that is not allowed later: what can be done to files; and to signal processes or to connect to nameless
/// sockets that were there before.
fn handled() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
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
