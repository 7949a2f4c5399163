//! What the kernel counts for each user of the host, and for no control group: descriptors in flight between processes,
//! epoll watches, buffers of pipes. Whoever shares a user with commands can be stopped by them.

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::geteuid;

use super::Statement;
use crate::fault::with_causes;
use crate::subordinate::Subordinates;

/// Who commands are, as the kernel counts.
#[derive(Debug)]
pub(super) enum PerUser {
    /// Commands of root's wardens run as users that nobody else is.
    Root,
    Subordinate(Subordinates),
    /// They are the executor's own user.
    Shared {
        why: String,
        most_open_files: u64,
    },
}

impl PerUser {
    pub(super) fn find(first_user: u32, wardens: u32) -> PerUser {
        if geteuid().is_root() {
            return PerUser::Root;
        }
        match Subordinates::find(first_user, wardens) {
            Ok(subordinates) => PerUser::Subordinate(subordinates),
            Err(error) => PerUser::Shared {
                why: with_causes(&error),
                most_open_files: most_open_files(
                    getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(_, hard)| hard),
                ),
            },
        }
    }

    pub(super) fn subordinates(&self) -> Option<&Subordinates> {
        match self {
            PerUser::Subordinate(subordinates) => Some(subordinates),
            PerUser::Root | PerUser::Shared { .. } => None,
        }
    }

    /// For each process of a command.
    pub(super) fn most_open_files(&self) -> Option<u64> {
        match self {
            PerUser::Shared { most_open_files, .. } => Some(*most_open_files),
            PerUser::Root | PerUser::Subordinate(_) => None,
        }
    }

    pub(super) fn statements(&self) -> [Statement; 2] {
        let user = match self {
            PerUser::Root => "a user that nobody else is",
            PerUser::Subordinate(_) => "user namespace, a subordinate id that no other warden has",
            PerUser::Shared { .. } => "user namespace",
        };
        let by = match self {
            PerUser::Root => "a user that nobody else is".to_string(),
            PerUser::Subordinate(_) => "subordinate ids: each warden's commands are another user".to_string(),
            PerUser::Shared { why, most_open_files } => format!(
                "nothing: commands are the executor's own user, and one task can use up that user's descriptors in \
                 flight, epoll watches and pipe buffers, so that other tasks fail until it ends. A process of a task may \
                 have {most_open_files} open files at most, which makes that harder. {why}"
            ),
        };
        [
            Statement::new("user", user),
            Statement {
                missing: matches!(self, PerUser::Shared { .. }),
                ..Statement::new("what the kernel counts for each user", by)
            },
        ]
    }
}

/// Of the hard limit, up to which the executor and its wardens raise their own.
///
/// The kernel lets a process send descriptors while its user has no more in flight than that process may have open. So
/// a user's commands together get no further than their own limit, and one message of at most 253 for each process that
/// sends just then. The executor, whose limit is much higher, can go on sending unless hundreds of processes do so at once.
fn most_open_files(hard: u64) -> u64 {
    const PART: u64 = 8;
    /// Below it hardly any program starts.
    const FEWEST: u64 = 16;
    (hard / PART).max(FEWEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_far_fewer_open_files_than_the_executor() {
        fn check(hard: u64, expected: u64) {
            assert_eq!(most_open_files(hard), expected, "{hard}");
        }
        check(1 << 20, 1 << 17);
        check(20_000, 2_500);
        check(4096, 512);
        check(64, 16);
        check(0, 16);
    }

    #[test]
    fn a_shared_user_is_a_missing_wall() {
        let shared = PerUser::Shared {
            why: "run `this`".to_string(),
            most_open_files: 99,
        };
        let [user, counts] = shared.statements();
        assert!(!user.missing);
        assert!(counts.missing);
        for words in ["nothing", "epoll watches", "99 open files", "run `this`"] {
            assert!(counts.by.contains(words), "{}", counts.by);
        }
        assert_eq!(shared.most_open_files(), Some(99));
        assert!(
            PerUser::Root
                .statements()
                .iter()
                .all(|statement| !statement.missing)
        );
    }
}
