//! Subordinate user and group ids: ids of the host that an ordinary user may map into its user namespaces, so that
//! commands run as other users of the host.
//!
//! With them the kernel counts per-user resources (descriptors in flight, epoll watches, pipe buffers) separately for
//! each warden's commands and for the owner. Only the privileged programs `newuidmap` and `newgidmap` may map such
//! ids. They read `/etc/subuid` and `/etc/subgid`.

mod ranges;

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::unistd::{getegid, geteuid};
use serde::{Deserialize, Serialize};

use crate::cell::{COMMAND_ID_IN_NAMESPACE, UserNamespaceProbe, WARDEN_ID_IN_NAMESPACE};
use crate::pidfd::PidFd;
use crate::platform_error::Errno;
use crate::wire;
use ranges::IdOwner;

/// Subordinate user and group ids of the host for the commands of wardens, and the programs that map them. A warden
/// uses the first id of each list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubordinateIds {
    users: Vec<u32>,
    groups: Vec<u32>,
    #[serde(with = "wire::path")]
    newuidmap: PathBuf,
    #[serde(with = "wire::path")]
    newgidmap: PathBuf,
}

/// Why this machine has no usable subordinate ids for the commands of wardens, and how to get them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubordinateIdsError {
    #[error("{}: run `{}` as root", .missing.join(" and "), .remedies.join(" && "))]
    Missing {
        missing: Vec<String>,
        remedies: Vec<String>,
    },
    #[error("cannot create a user namespace")]
    Namespace(#[source] Errno),
    #[error("subordinate ids are configured but cannot be used")]
    Map(#[from] IdMapError),
}

/// Why subordinate ids could not be mapped into a user namespace with `newuidmap` and `newgidmap`.
#[derive(Debug, thiserror::Error)]
pub enum IdMapError {
    #[error("there is no subordinate id for this warden")]
    TooFew,
    #[error("cannot run {program:?}")]
    Run {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{program:?} did not finish within {MAP_TIMEOUT:?}")]
    TimedOut { program: PathBuf },
    #[error(
        "{program:?} cannot gain privileges: remove NoNewPrivileges=, and every setting that implies it, from the unit \
         that starts this process"
    )]
    NoNewPrivileges { program: PathBuf },
    #[error("{program:?} failed: {stderr}")]
    Failed { program: PathBuf, stderr: String },
}

/// The programs take milliseconds, unless they look up names on a server.
const MAP_TIMEOUT: Duration = Duration::from_secs(10);

impl SubordinateIds {
    /// Finds an id for each warden and tries to map one of them. The ids start at `first` if that is one of this
    /// user's subordinate ids.
    pub(crate) fn find(first: u32, wardens: u32) -> Result<SubordinateIds, SubordinateIdsError> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let sources = SubordinateIdSources {
            user: this_user(),
            own: [geteuid().as_raw(), getegid().as_raw()],
            files: [read("/etc/subuid"), read("/etc/subgid")],
            programs: ["newuidmap", "newgidmap"].map(find_on_path),
        };
        let subordinate_ids = sources.choose(first, wardens)?;
        let probe = UserNamespaceProbe::start().map_err(SubordinateIdsError::Namespace)?;
        subordinate_ids.map(probe.id())?;
        Ok(subordinate_ids)
    }

    /// The ids of one of several wardens.
    pub(crate) fn for_warden(&self, number: u32) -> SubordinateIds {
        let from = |ids: &[u32]| ids.get(number as usize..).unwrap_or_default().to_vec();
        SubordinateIds {
            users: from(&self.users),
            groups: from(&self.groups),
            ..self.clone()
        }
    }

    /// Maps two ids into the new user namespace of a process: the id of this process, and the id of the commands.
    pub(crate) fn map(&self, process: u32) -> Result<(), IdMapError> {
        for (program, own, ids) in [
            (&self.newuidmap, geteuid().as_raw(), &self.users),
            (&self.newgidmap, getegid().as_raw(), &self.groups),
        ] {
            let id = *ids.first().ok_or(IdMapError::TooFew)?;
            run(
                program,
                [
                    process,
                    WARDEN_ID_IN_NAMESPACE,
                    own,
                    1,
                    COMMAND_ID_IN_NAMESPACE,
                    id,
                    1,
                ],
            )?;
        }
        Ok(())
    }
}

/// What this machine offers for subordinate ids: /etc/subuid and /etc/subgid, newuidmap and newgidmap, and the user.
struct SubordinateIdSources {
    user: IdOwner,
    /// The user and group ids of this process.
    own: [u32; 2],
    /// The contents of `/etc/subuid` and `/etc/subgid`. Both list user names.
    files: [String; 2],
    programs: [Option<PathBuf>; 2],
}

impl SubordinateIdSources {
    /// Chooses the ids. The error names everything that is missing, so that the operator can fix all of it at once.
    fn choose(self, first: u32, wardens: u32) -> Result<SubordinateIds, SubordinateIdsError> {
        let ids = |which: usize| {
            let mut ids = ranges::choose_ids(
                &ranges::ranges_of(&self.files[which], &self.user),
                first,
                wardens as usize,
            );
            // A line that lists the user's own id is a mistake of the administrator.
            ids.retain(|id| *id != self.own[which]);
            ids
        };
        let (users, groups) = (ids(0), ids(1));
        let too_few = users.len().min(groups.len()) < wardens as usize;
        match (self.programs, too_few) {
            ([Some(newuidmap), Some(newgidmap)], false) => Ok(SubordinateIds {
                users,
                groups,
                newuidmap,
                newgidmap,
            }),
            (programs, too_few) => {
                let (mut missing, mut remedies) = (Vec::new(), Vec::new());
                if programs.iter().any(Option::is_none) {
                    missing.push("newuidmap and newgidmap are not on the PATH".to_string());
                    remedies.push("apt-get install uidmap".to_string());
                }
                if too_few {
                    let (user, users, groups) = (self.user.text(), users.len(), groups.len());
                    missing.push(format!(
                        "{user} has too few subordinate ids for {wardens} wardens ({users} in /etc/subuid, {groups} in \
                         /etc/subgid)"
                    ));
                    remedies.push(usermod(&user, [&self.files[0], &self.files[1]], wardens));
                }
                Err(SubordinateIdsError::Missing { missing, remedies })
            }
        }
    }
}

/// The command that assigns ids that no user has yet.
fn usermod(user: &str, files: [&str; 2], wardens: u32) -> String {
    /// The number of ids that `useradd` assigns to a user.
    const DEFAULT_COUNT: u32 = 65_536;
    let first = ranges::first_unassigned_id(files);
    let last = first.saturating_add(wardens.max(DEFAULT_COUNT) - 1);
    format!("usermod --add-subuids {first}-{last} --add-subgids {first}-{last} {user}")
}

fn this_user() -> IdOwner {
    let id = geteuid();
    let named = nix::unistd::User::from_uid(id).ok().flatten();
    IdOwner {
        name: named.map(|user| user.name),
        number: id.as_raw(),
    }
}

fn find_on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let mut candidates = env::split_paths(&path).map(|folder| folder.join(program));
    candidates.find(|candidate| candidate.is_file())
}

fn run(program: &Path, numbers: [u32; 7]) -> Result<(), IdMapError> {
    let failed = |source| IdMapError::Run {
        program: program.into(),
        source,
    };
    let mut child = Command::new(program)
        .args(numbers.map(|number| number.to_string()))
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let ended = PidFd::open(child.id() as i32).is_ok_and(|process| process.wait(MAP_TIMEOUT));
    if !ended {
        let _ = child.kill();
    }
    let output = child.wait_with_output().map_err(failed)?;
    let program = program.to_path_buf();
    match (ended, output.status.success()) {
        (false, _) => Err(IdMapError::TimedOut { program }),
        (true, true) => Ok(()),
        (true, false) if has_no_new_privileges() => Err(IdMapError::NoNewPrivileges { program }),
        (true, false) => Err(IdMapError::Failed {
            program,
            stderr: String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "),
        }),
    }
}

/// With this flag, set-uid programs like these gain no privileges.
fn has_no_new_privileges() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .filter_map(|line| line.strip_prefix("NoNewPrivs:"))
        .any(|value| value.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(users: &str, groups: &str, programs: [Option<&str>; 2]) -> SubordinateIdSources {
        SubordinateIdSources {
            user: IdOwner {
                name: Some("judge".to_string()),
                number: 1001,
            },
            own: [1001, 1001],
            files: [users.to_string(), groups.to_string()],
            programs: programs.map(|program| program.map(PathBuf::from)),
        }
    }

    const BOTH: [Option<&str>; 2] = [Some("/bin/newuidmap"), Some("/bin/newgidmap")];

    #[test]
    fn every_warden_gets_its_own_id() {
        let all = sources("judge:100000:65536", "1001:300000:4", BOTH)
            .choose(1_900_000_000, 4)
            .unwrap();
        let each: Vec<_> = (0..4).map(|number| all.for_warden(number)).collect();
        let firsts: Vec<_> = each.iter().map(|ids| (ids.users[0], ids.groups[0])).collect();
        assert_eq!(
            firsts,
            [
                (165_532, 300_000),
                (165_533, 300_001),
                (165_534, 300_002),
                (165_535, 300_003)
            ]
        );
        assert!(matches!(all.for_warden(4).map(1), Err(IdMapError::TooFew)));
    }

    #[test]
    fn everything_missing_is_named_with_the_command_that_fixes_it() {
        let check = |sources: SubordinateIdSources, wardens: u32, expected: &str| {
            let message = sources.choose(1_900_000_000, wardens).unwrap_err().to_string();
            assert_eq!(message, expected);
        };
        check(
            sources("", "", BOTH),
            4,
            "judge has too few subordinate ids for 4 wardens (0 in /etc/subuid, 0 in /etc/subgid): run `usermod \
             --add-subuids 100000-165535 --add-subgids 100000-165535 judge` as root",
        );
        check(
            sources("judge:100000:65536", "judge:100000:3", BOTH),
            4,
            "judge has too few subordinate ids for 4 wardens (4 in /etc/subuid, 3 in /etc/subgid): run `usermod \
             --add-subuids 165536-231071 --add-subgids 165536-231071 judge` as root",
        );
        // The user's own id does not count.
        check(
            sources("judge:1001:1", "judge:1001:1", BOTH),
            1,
            "judge has too few subordinate ids for 1 wardens (0 in /etc/subuid, 0 in /etc/subgid): run `usermod \
             --add-subuids 100000-165535 --add-subgids 100000-165535 judge` as root",
        );
        check(
            sources("", "", [None, None]),
            2,
            "newuidmap and newgidmap are not on the PATH and judge has too few subordinate ids for 2 wardens (0 in \
             /etc/subuid, 0 in /etc/subgid): run `apt-get install uidmap && usermod --add-subuids 100000-165535 \
             --add-subgids 100000-165535 judge` as root",
        );
        check(
            sources("judge:100000:65536", "judge:100000:65536", [None, BOTH[1]]),
            2,
            "newuidmap and newgidmap are not on the PATH: run `apt-get install uidmap` as root",
        );
    }
}
