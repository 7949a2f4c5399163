//! The user that commands run as, which depends on the user that the warden runs as.

use std::fs;
use std::io;

use nix::unistd::{Gid, Uid, getegid, geteuid};

use super::settings::CellSettings;

/// The user that a warden's commands run as: a dedicated one, a subordinate id, or the warden's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandUser {
    /// The warden is root: commands run as a user that nothing else uses.
    Dedicated { id: u32 },
    /// The warden is an ordinary user with subordinate ids: its user namespace has two users, the warden's own and a
    /// subordinate id of the host for the commands.
    Subordinate,
    /// The warden is an ordinary user without subordinate ids: commands run as the same user, in a user namespace.
    SameAsWarden,
}

/// The id of an ordinary user's commands within their user namespace. It is not 0, because many programs give root
/// special treatment.
pub(crate) const COMMAND_ID_IN_NAMESPACE: u32 = 1000;
/// The id of the warden within the user namespace, if its commands run as another user.
pub(crate) const WARDEN_ID_IN_NAMESPACE: u32 = 999;

impl CommandUser {
    pub(super) fn for_warden(settings: &CellSettings) -> CommandUser {
        match (geteuid().is_root(), &settings.subordinate_ids) {
            (true, _) => CommandUser::Dedicated { id: settings.user },
            (false, Some(_)) => CommandUser::Subordinate,
            (false, None) => CommandUser::SameAsWarden,
        }
    }

    /// The user and group id of the commands, as they see it themselves.
    pub(super) fn id(self) -> u32 {
        match self {
            CommandUser::Dedicated { id } => id,
            CommandUser::Subordinate | CommandUser::SameAsWarden => COMMAND_ID_IN_NAMESPACE,
        }
    }

    /// The id of the commands, if it is not the warden's own.
    pub(super) fn id_unless_wardens(self) -> Option<u32> {
        match self {
            CommandUser::Dedicated { .. } | CommandUser::Subordinate => Some(self.id()),
            CommandUser::SameAsWarden => None,
        }
    }
}

/// The warden's own user and group ids, which it maps into its user namespace. They must be read before the user
/// namespace is created.
pub(super) struct OwnIds {
    uid: Uid,
    gid: Gid,
}

impl OwnIds {
    pub(super) fn current() -> Self {
        Self {
            uid: geteuid(),
            gid: getegid(),
        }
    }

    /// Maps the ids in the new namespace. The kernel requires that `setgroups` is denied first.
    pub(super) fn map_into_namespace(&self) -> io::Result<()> {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write(
            "/proc/self/uid_map",
            format!("{COMMAND_ID_IN_NAMESPACE} {} 1", self.uid),
        )?;
        fs::write(
            "/proc/self/gid_map",
            format!("{COMMAND_ID_IN_NAMESPACE} {} 1", self.gid),
        )
    }
}
