//! Who the warden is and who its commands are.

use std::fs;
use std::io;

use nix::unistd::{Gid, Uid, getegid, geteuid};

use super::settings::CellSettings;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// Commands run as another user, whom nobody else is.
    Root { command: u32 },
    /// In a user namespace with two users: the warden's, and one for commands that is a subordinate id of the host.
    Subordinate,
    /// There is no other user to be: commands run as the warden's, seen from within a user namespace.
    Ordinary,
}

/// What an ordinary user's commands are called within. Not root, which many programs treat as a friend.
pub(crate) const COMMAND: u32 = 1000;
/// What the warden is called within, where its commands are somebody else.
pub(crate) const WARDEN: u32 = 999;

impl Who {
    pub(super) fn of_warden(settings: &CellSettings) -> Who {
        match (geteuid().is_root(), &settings.subordinates) {
            (true, _) => Who::Root {
                command: settings.user,
            },
            (false, Some(_)) => Who::Subordinate,
            (false, None) => Who::Ordinary,
        }
    }

    /// User and group of the commands, as these see it.
    pub(super) fn id(self) -> u32 {
        match self {
            Who::Root { command } => command,
            Who::Subordinate | Who::Ordinary => COMMAND,
        }
    }

    /// The same where that is not who the warden is.
    pub(super) fn other(self) -> Option<u32> {
        match self {
            Who::Root { .. } | Who::Subordinate => Some(self.id()),
            Who::Ordinary => None,
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
        fs::write("/proc/self/uid_map", format!("{COMMAND} {} 1", self.uid))?;
        fs::write("/proc/self/gid_map", format!("{COMMAND} {} 1", self.gid))
    }
}
