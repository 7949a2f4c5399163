//! Kills processes that outlived their warden.
//!
//! A warden kills its command when it ends, except when it is killed itself. Then the first process of its command
//! dies by its parent-death signal, and the other processes are adopted by an ancestor. Only their environment and
//! working directory still show which command they belong to.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::pidfd::PidFd;

/// Selects the processes that a dead warden left behind, by their environment or working directory. Every process that
/// matches either is killed, so while other wardens of the same owner run, the selector must match only the processes
/// of the dead warden.
#[derive(Debug, Clone)]
pub struct ProcessSelector {
    /// A variable of the process environment, name and value, as in the [`crate::CommandSpec`].
    pub environment_variable: Option<(OsString, OsString)>,
    /// The process has this working directory, or one beneath it.
    pub working_directory: Option<PathBuf>,
}

/// Why the processes that a dead warden left behind could not be killed.
#[derive(Debug, thiserror::Error)]
pub enum KillOrphansError {
    #[error("cannot find or kill orphaned processes of an earlier command")]
    Kill(#[from] io::Error),
    /// Each of these processes was sent SIGKILL, so none of them executes its program any more.
    #[error("processes were sent SIGKILL and do not end; they hang in the kernel: {pids:?}")]
    Unkillable { pids: Vec<i32> },
}

/// Kills all processes that the selector matches, except the calling one, and returns their number. Returns when all
/// of them have ended, or with an error if some do not end.
pub fn kill_orphans(selector: &ProcessSelector) -> Result<usize, KillOrphansError> {
    kill_orphans_while(selector, || true)
}

/// Like [`kill_orphans`], for a selector that may come to match processes of another command. Calls `still_applies`
/// when the processes are found and stopped. If it returns false, the processes are continued and nothing more is
/// killed.
pub fn kill_orphans_while(
    selector: &ProcessSelector,
    still_applies: impl Fn() -> bool,
) -> Result<usize, KillOrphansError> {
    const KILL_TIMEOUT: Duration = Duration::from_secs(10);
    let deadline = Instant::now() + KILL_TIMEOUT;
    let selector = ResolvedSelector::new(selector);
    let mut killed = 0;
    // The descriptors are kept open, so that no process id can be reused for another process.
    let mut unkillable: Vec<(i32, PidFd)> = Vec::new();
    loop {
        // All processes are stopped before any is killed: otherwise a fork bomb could start new processes faster than
        // they are killed.
        let mut stopped: Vec<(i32, PidFd)> = Vec::new();
        loop {
            let before = stopped.len();
            for pid in processes()? {
                if stopped.iter().chain(&unkillable).all(|(known, _)| *known != pid)
                    && let Some(pidfd) = selector.open_if_matching(pid)
                {
                    match pidfd.send(libc::SIGSTOP) {
                        Ok(()) => stopped.push((pid, pidfd)),
                        Err(nix::errno::Errno::ESRCH) => {}
                        Err(error) => return Err(io::Error::from(error).into()),
                    }
                }
            }
            if stopped.len() == before {
                break;
            }
        }
        if stopped.is_empty() {
            let pids: Vec<_> = unkillable.iter().map(|(pid, _)| *pid).collect();
            return match pids.is_empty() {
                true => Ok(killed),
                false => Err(KillOrphansError::Unkillable { pids }),
            };
        }
        if !still_applies() {
            for (_, pidfd) in &stopped {
                let _ = pidfd.send(libc::SIGCONT);
            }
            return Ok(killed);
        }
        for (_, pidfd) in &stopped {
            // An error means that the process has already ended.
            let _ = pidfd.send(libc::SIGKILL);
        }
        for (pid, pidfd) in stopped {
            match pidfd.wait(deadline.saturating_duration_since(Instant::now())) {
                true => killed += 1,
                false => unkillable.push((pid, pidfd)),
            }
        }
    }
}

/// A [`ProcessSelector`] whose values have the form in which `/proc` shows them.
struct ResolvedSelector {
    entry: Option<Vec<u8>>,
    directory: Option<PathBuf>,
}

impl ResolvedSelector {
    fn new(selector: &ProcessSelector) -> Self {
        let entry = |(name, value): &(OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
        // `/proc` shows paths with links resolved. A directory that no longer exists cannot be resolved, so its path
        // is used unchanged.
        let directory = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        Self {
            entry: selector.environment_variable.as_ref().map(entry),
            directory: selector.working_directory.as_ref().map(directory),
        }
    }

    /// Opens a process if it matches. It is checked again after it is opened, so that its id cannot belong to another
    /// process by then.
    fn open_if_matching(&self, pid: i32) -> Option<PidFd> {
        // This first check avoids opening every process of the machine.
        if !self.matches(pid) {
            return None;
        }
        let pidfd = PidFd::open(pid).ok()?;
        self.matches(pid).then_some(pidfd)
    }

    /// Processes of other users cannot be read and do not match. Commands in cells may be such processes: the kernel
    /// kills them with the init process of their cell, and their control group is killed. Processes that have ended
    /// do not match either.
    fn matches(&self, pid: i32) -> bool {
        let by_entry = self.entry.as_ref().is_some_and(|entry| {
            fs::read(format!("/proc/{pid}/environ")).is_ok_and(|all| contains_entry(&all, entry))
        });
        by_entry
            || self.directory.as_ref().is_some_and(|directory| {
                fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| is_beneath(&cwd, directory))
            })
    }
}

/// The kernel appends ` (deleted)` to a working directory that was removed.
fn is_beneath(cwd: &Path, directory: &Path) -> bool {
    let shown = cwd.as_os_str().as_bytes();
    let name = shown.strip_suffix(b" (deleted)").unwrap_or(shown);
    Path::new(OsStr::from_bytes(name)).starts_with(directory)
}

fn contains_entry(environ: &[u8], entry: &[u8]) -> bool {
    environ
        .split(|byte| *byte == 0)
        .any(|candidate| candidate == entry)
}

/// The ids of all processes except this one.
fn processes() -> io::Result<Vec<i32>> {
    let own = std::process::id() as i32;
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok())
            && pid != own
        {
            pids.push(pid);
        }
    }
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_exact_environment_entry_matches() {
        fn check(environ: &[u8], expected: bool) {
            assert_eq!(
                contains_entry(environ, b"MARK=a"),
                expected,
                "{}",
                environ.escape_ascii()
            );
        }
        check(b"MARK=a\0", true);
        check(b"A=b\0MARK=a\0C=d\0", true);
        check(b"A=b\0MARK=a", true);
        check(b"", false);
        check(b"MARK=ab\0", false);
        check(b"AMARK=a\0", false);
        check(b"A=MARK=a\0", false);
        check(b"mark=a\0", false);
    }

    #[test]
    fn a_removed_working_directory_still_matches() {
        fn check(cwd: &str, expected: bool) {
            assert_eq!(
                is_beneath(Path::new(cwd), Path::new("/d/slot")),
                expected,
                "{cwd}"
            );
        }
        check("/d/slot", true);
        check("/d/slot/x", true);
        check("/d/slot (deleted)", true);
        check("/d/slot/x (deleted)", true);
        check("/d/slot2", false);
        check("/d", false);
    }
}
