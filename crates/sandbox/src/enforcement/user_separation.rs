//! Whether commands run as separate users of the host. The kernel counts some resources per user and in no control
//! group: descriptors in flight between processes, epoll watches, pipe buffers. A command can use them up for every
//! process of the same user.

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::geteuid;

use super::ProtectionStatus;
use crate::subordinate_ids::SubordinateIds;
use error_causes::with_causes;

/// Which users of the host the commands of an executor's wardens run as, so that per-user kernel limits are separate.
#[derive(Debug)]
pub(super) enum UserSeparation {
    /// The wardens run as root, and each warden's commands run as a user that nothing else uses.
    Dedicated,
    Subordinate(SubordinateIds),
    /// Commands run as the executor's own user.
    Shared {
        why: String,
        max_open_files: u64,
    },
}

impl UserSeparation {
    pub(super) fn find(first_user: u32, wardens: u32) -> UserSeparation {
        if geteuid().is_root() {
            return UserSeparation::Dedicated;
        }
        match SubordinateIds::find(first_user, wardens) {
            Ok(subordinate_ids) => UserSeparation::Subordinate(subordinate_ids),
            Err(error) => UserSeparation::Shared {
                why: with_causes(&error),
                max_open_files: max_open_files(
                    getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(_, hard)| hard),
                ),
            },
        }
    }

    pub(super) fn subordinate_ids(&self) -> Option<&SubordinateIds> {
        match self {
            UserSeparation::Subordinate(subordinate_ids) => Some(subordinate_ids),
            UserSeparation::Dedicated | UserSeparation::Shared { .. } => None,
        }
    }

    /// The limit on open files of each process of a command, if there is one.
    pub(super) fn max_open_files(&self) -> Option<u64> {
        match self {
            UserSeparation::Shared { max_open_files, .. } => Some(*max_open_files),
            UserSeparation::Dedicated | UserSeparation::Subordinate(_) => None,
        }
    }

    pub(super) fn protections(&self) -> [ProtectionStatus; 2] {
        let user = match self {
            UserSeparation::Dedicated => "a user that nothing else uses",
            UserSeparation::Subordinate(_) => "user namespace, a subordinate id for each warden",
            UserSeparation::Shared { .. } => "user namespace",
        };
        let by = match self {
            UserSeparation::Dedicated => "a user that nothing else uses".to_string(),
            UserSeparation::Subordinate(_) => {
                "subordinate ids: the commands of each warden are a separate user".to_string()
            }
            UserSeparation::Shared { why, max_open_files } => format!(
                "nothing: commands run as the executor's own user, and one task can use up that user's descriptors in \
                 flight, epoll watches and pipe buffers, so that other tasks fail until it ends. To make that harder, \
                 a process of a task may have at most {max_open_files} open files. {why}"
            ),
        };
        [
            ProtectionStatus::new("user", user),
            ProtectionStatus {
                missing: matches!(self, UserSeparation::Shared { .. }),
                ..ProtectionStatus::new("what the kernel counts for each user", by)
            },
        ]
    }
}

/// The limit on open files of commands that share the executor's user: a part of the hard limit, up to which the
/// executor and its wardens raise their own.
///
/// The kernel lets a process send descriptors while its user has no more in flight than that process may have open.
/// So the commands of a user together stop at their own limit, plus one message of at most 253 descriptors for each
/// process that is sending at that moment. The executor, whose limit is much higher, can go on sending unless
/// hundreds of processes send at the same moment.
fn max_open_files(hard: u64) -> u64 {
    const PART: u64 = 8;
    /// With fewer, hardly any program starts.
    const FEWEST: u64 = 16;
    (hard / PART).max(FEWEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_far_fewer_open_files_than_the_executor() {
        fn check(hard: u64, expected: u64) {
            assert_eq!(max_open_files(hard), expected, "{hard}");
        }
        check(1 << 20, 1 << 17);
        check(20_000, 2_500);
        check(4096, 512);
        check(64, 16);
        check(0, 16);
    }

    #[test]
    fn a_shared_user_is_reported_as_a_missing_protection() {
        let shared = UserSeparation::Shared {
            why: "run `this`".to_string(),
            max_open_files: 99,
        };
        let [user, counts] = shared.protections();
        assert!(!user.missing);
        assert!(counts.missing);
        for words in ["nothing", "epoll watches", "99 open files", "run `this`"] {
            assert!(counts.enforced_by.contains(words), "{}", counts.enforced_by);
        }
        assert_eq!(shared.max_open_files(), Some(99));
        assert!(
            UserSeparation::Dedicated
                .protections()
                .iter()
                .all(|protection| !protection.missing)
        );
    }
}
