//! Ids of the host that an ordinary user may hand to its user namespaces, so that commands are other users of the host.
//!
//! What the kernel counts for each user (descriptors in flight, epoll watches, buffers of pipes) is then counted for each
//! warden's commands apart from all others and from their owner. The kernel lets only programs with privileges map such
//! ids: `newuidmap` and `newgidmap`, which look into `/etc/subuid` and `/etc/subgid`.

mod ranges;

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::unistd::{getegid, geteuid};
use serde::{Deserialize, Serialize};

use crate::cell::{Bystander, COMMAND, WARDEN};
use crate::fault::Errno;
use crate::pidfd::PidFd;
use crate::wire;
use ranges::User;

/// The programs, and an id for each warden: the first ones are for the warden that this is given to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subordinates {
    users: Vec<u32>,
    groups: Vec<u32>,
    #[serde(with = "wire::path")]
    newuidmap: PathBuf,
    #[serde(with = "wire::path")]
    newgidmap: PathBuf,
}

/// Why there are none, and what brings them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubordinatesError {
    #[error("{}: run `{}` as root", .lacks.join(" and "), .remedies.join(" && "))]
    Lacking {
        lacks: Vec<String>,
        remedies: Vec<String>,
    },
    #[error("no user namespace can be made")]
    Namespace(#[source] Errno),
    #[error("subordinate ids are there and cannot be used")]
    Map(#[from] MapError),
}

#[derive(Debug, thiserror::Error)]
pub enum MapError {
    #[error("there is no subordinate id for this warden")]
    TooFew,
    #[error("cannot run {program:?}")]
    Run {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{program:?} did not end within {PATIENCE:?}")]
    Hangs { program: PathBuf },
    #[error(
        "{program:?} cannot gain privileges: take NoNewPrivileges=, and all that implies it, out of the unit that starts \
         this process"
    )]
    NoNewPrivileges { program: PathBuf },
    #[error("{program:?} failed: {said}")]
    Refused { program: PathBuf, said: String },
}

/// They take milliseconds, unless they ask a server for names.
const PATIENCE: Duration = Duration::from_secs(10);

impl Subordinates {
    /// Looks for an id for each of so many wardens, from `first` on if that is one of this user's, and tries one of them.
    pub(crate) fn find(first: u32, wardens: u32) -> Result<Subordinates, SubordinatesError> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let found = Found {
            user: this_user(),
            own: [geteuid().as_raw(), getegid().as_raw()],
            files: [read("/etc/subuid"), read("/etc/subgid")],
            programs: ["newuidmap", "newgidmap"].map(on_path),
        };
        let subordinates = found.choose(first, wardens)?;
        let bystander = Bystander::start().map_err(SubordinatesError::Namespace)?;
        subordinates.map(bystander.id())?;
        Ok(subordinates)
    }

    /// Keeps those of one of several wardens.
    pub(crate) fn of_warden(&self, number: u32) -> Subordinates {
        let from = |ids: &[u32]| ids.get(number as usize..).unwrap_or_default().to_vec();
        Subordinates {
            users: from(&self.users),
            groups: from(&self.groups),
            ..self.clone()
        }
    }

    /// Gives two ids to the new user namespace of a process: this process's own, and the one for commands.
    pub(crate) fn map(&self, process: u32) -> Result<(), MapError> {
        for (program, own, ids) in [
            (&self.newuidmap, geteuid().as_raw(), &self.users),
            (&self.newgidmap, getegid().as_raw(), &self.groups),
        ] {
            let id = *ids.first().ok_or(MapError::TooFew)?;
            run(program, [process, WARDEN, own, 1, COMMAND, id, 1])?;
        }
        Ok(())
    }
}

/// What this machine has of it.
struct Found {
    user: User,
    /// User and group of this process.
    own: [u32; 2],
    /// `/etc/subuid` and `/etc/subgid`. Both name users.
    files: [String; 2],
    programs: [Option<PathBuf>; 2],
}

impl Found {
    /// The error names all that is missing, so that the operator learns of it at once.
    fn choose(self, first: u32, wardens: u32) -> Result<Subordinates, SubordinatesError> {
        let ids = |which: usize| {
            let mut ids = ranges::choose(
                &ranges::ids(&self.files[which], &self.user),
                first,
                wardens as usize,
            );
            // Whoever wrote that line was mistaken.
            ids.retain(|id| *id != self.own[which]);
            ids
        };
        let (users, groups) = (ids(0), ids(1));
        let too_few = users.len().min(groups.len()) < wardens as usize;
        match (self.programs, too_few) {
            ([Some(newuidmap), Some(newgidmap)], false) => Ok(Subordinates {
                users,
                groups,
                newuidmap,
                newgidmap,
            }),
            (programs, too_few) => {
                let (mut lacks, mut remedies) = (Vec::new(), Vec::new());
                if programs.iter().any(Option::is_none) {
                    lacks.push("newuidmap and newgidmap are not on the PATH".to_string());
                    remedies.push("apt-get install uidmap".to_string());
                }
                if too_few {
                    let (user, users, groups) = (self.user.text(), users.len(), groups.len());
                    lacks.push(format!(
                        "{user} has too few subordinate ids for {wardens} wardens ({users} in /etc/subuid, {groups} in \
                         /etc/subgid)"
                    ));
                    remedies.push(usermod(&user, [&self.files[0], &self.files[1]], wardens));
                }
                Err(SubordinatesError::Lacking { lacks, remedies })
            }
        }
    }
}

/// The command that adds ids, none of which anybody has.
fn usermod(user: &str, files: [&str; 2], wardens: u32) -> String {
    /// As many as tools give to a user.
    const USUAL: u32 = 65_536;
    let first = ranges::first_free(files);
    let last = first.saturating_add(wardens.max(USUAL) - 1);
    format!("usermod --add-subuids {first}-{last} --add-subgids {first}-{last} {user}")
}

fn this_user() -> User {
    let id = geteuid();
    let named = nix::unistd::User::from_uid(id).ok().flatten();
    User {
        name: named.map(|user| user.name),
        number: id.as_raw(),
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let mut candidates = env::split_paths(&path).map(|folder| folder.join(program));
    candidates.find(|candidate| candidate.is_file())
}

fn run(program: &Path, numbers: [u32; 7]) -> Result<(), MapError> {
    let failed = |source| MapError::Run {
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
    let ended = PidFd::open(child.id() as i32).is_ok_and(|process| process.wait(PATIENCE));
    if !ended {
        let _ = child.kill();
    }
    let output = child.wait_with_output().map_err(failed)?;
    let program = program.to_path_buf();
    match (ended, output.status.success()) {
        (false, _) => Err(MapError::Hangs { program }),
        (true, true) => Ok(()),
        (true, false) if has_no_new_privileges() => Err(MapError::NoNewPrivileges { program }),
        (true, false) => Err(MapError::Refused {
            program,
            said: String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "),
        }),
    }
}

/// Then set-uid programs, as these are, have no effect.
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

    fn found(users: &str, groups: &str, programs: [Option<&str>; 2]) -> Found {
        Found {
            user: User {
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
    fn wardens_share_no_id() {
        let all = found("judge:100000:65536", "1001:300000:4", BOTH)
            .choose(1_900_000_000, 4)
            .unwrap();
        let each: Vec<_> = (0..4).map(|number| all.of_warden(number)).collect();
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
        assert!(matches!(all.of_warden(4).map(1), Err(MapError::TooFew)));
    }

    #[test]
    fn all_that_is_missing_is_named_with_the_command_that_brings_it() {
        let check = |found: Found, wardens: u32, expected: &str| {
            let said = found.choose(1_900_000_000, wardens).unwrap_err().to_string();
            assert_eq!(said, expected);
        };
        check(
            found("", "", BOTH),
            4,
            "judge has too few subordinate ids for 4 wardens (0 in /etc/subuid, 0 in /etc/subgid): run `usermod \
             --add-subuids 100000-165535 --add-subgids 100000-165535 judge` as root",
        );
        check(
            found("judge:100000:65536", "judge:100000:3", BOTH),
            4,
            "judge has too few subordinate ids for 4 wardens (4 in /etc/subuid, 3 in /etc/subgid): run `usermod \
             --add-subuids 165536-231071 --add-subgids 165536-231071 judge` as root",
        );
        // The user itself is nobody else.
        check(
            found("judge:1001:1", "judge:1001:1", BOTH),
            1,
            "judge has too few subordinate ids for 1 wardens (0 in /etc/subuid, 0 in /etc/subgid): run `usermod \
             --add-subuids 100000-165535 --add-subgids 100000-165535 judge` as root",
        );
        check(
            found("", "", [None, None]),
            2,
            "newuidmap and newgidmap are not on the PATH and judge has too few subordinate ids for 2 wardens (0 in \
             /etc/subuid, 0 in /etc/subgid): run `apt-get install uidmap && usermod --add-subuids 100000-165535 \
             --add-subgids 100000-165535 judge` as root",
        );
        check(
            found("judge:100000:65536", "judge:100000:65536", [None, BOTH[1]]),
            2,
            "newuidmap and newgidmap are not on the PATH: run `apt-get install uidmap` as root",
        );
    }
}
