//! Who the warden is and who its commands are.

use std::fs;
use std::io;

use nix::unistd::{Gid, Uid, getegid, geteuid};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// Commands run as another user, whom nobody else is.
    Root { command: u32 },
    /// There is no other user to be: commands run as the warden's, seen from within a user namespace.
    Ordinary,
}

/// What an ordinary user is called within. Not root, which many programs treat as a friend.
const INNER: u32 = 1000;

impl Who {
    pub(super) fn of_warden(command: u32) -> Who {
        match geteuid().is_root() {
            true => Who::Root { command },
            false => Who::Ordinary,
        }
    }

    /// User and group of the commands, as these see it.
    pub(super) fn id(self) -> u32 {
        match self {
            Who::Root { command } => command,
            Who::Ordinary => INNER,
        }
    }
}

/// The one user that there is. Its ids have to be asked for before the namespace is made.
pub(super) struct Outer {
    uid: Uid,
    gid: Gid,
}

impl Outer {
    pub(super) fn now() -> Self {
        Self {
            uid: geteuid(),
            gid: getegid(),
        }
    }

    /// To be called in the new namespace. Without a way to change groups, as the kernel demands.
    pub(super) fn map(&self) -> io::Result<()> {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{INNER} {} 1", self.uid))?;
        fs::write("/proc/self/gid_map", format!("{INNER} {} 1", self.gid))
    }
}
