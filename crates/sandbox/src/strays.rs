//! Kill what a dead warden left behind.
//!
//! A warden takes its command along when it ends; only one that was itself killed cannot. Its command's first
//! process dies with it, and the others are adopted by some ancestor, where nothing but what they carry tells
//! whose they were.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::pidfd::PidFd;

/// By what a stray is known. Whoever matches is killed, so the marker must fit nothing that is still wanted:
/// while other wardens of the same owner are at work, it has to be that of the dead warden alone.
#[derive(Debug, Clone)]
pub struct Marker {
    /// An entry of its environment, name and value, as given in its [`crate::Spec`].
    pub variable: Option<(OsString, OsString)>,
    /// It works in this directory or beneath.
    pub directory: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum StraysError {
    #[error("cannot find or kill the processes of an old command")]
    Kill(#[from] io::Error),
    /// None of them returns to its program, as each has been sent SIGKILL.
    #[error("processes were sent SIGKILL and hang in the kernel: {pids:?}")]
    Hang { pids: Vec<i32> },
}

/// Kills all processes with this mark except the calling one, and says how many there were. Returns when none
/// is left, or with an error when some would not go.
pub fn kill_strays(marker: &Marker) -> Result<usize, StraysError> {
    kill_strays_while(marker, || true)
}

/// The same for a mark that may become another's: `is_theirs` is asked again when the processes are found and stopped.
/// Once it is false they are let go on, and nothing more is killed.
pub fn kill_strays_while(marker: &Marker, is_theirs: impl Fn() -> bool) -> Result<usize, StraysError> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let deadline = Instant::now() + PATIENCE;
    let marker = Resolved::new(marker);
    let mut killed = 0;
    // Held, so that no number can pass to another process.
    let mut hanging: Vec<(i32, PidFd)> = Vec::new();
    loop {
        // Stopped first, killed when no new one turns up: a fork bomb would otherwise outrun us.
        let mut stopped: Vec<(i32, PidFd)> = Vec::new();
        loop {
            let before = stopped.len();
            for pid in processes()? {
                if stopped.iter().chain(&hanging).all(|(known, _)| *known != pid)
                    && let Some(pidfd) = marker.hold(pid)
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
            let pids: Vec<_> = hanging.iter().map(|(pid, _)| *pid).collect();
            return match pids.is_empty() {
                true => Ok(killed),
                false => Err(StraysError::Hang { pids }),
            };
        }
        if !is_theirs() {
            for (_, pidfd) in &stopped {
                let _ = pidfd.send(libc::SIGCONT);
            }
            return Ok(killed);
        }
        for (_, pidfd) in &stopped {
            // An error means that it has gone by itself.
            let _ = pidfd.send(libc::SIGKILL);
        }
        for (pid, pidfd) in stopped {
            match pidfd.wait(deadline.saturating_duration_since(Instant::now())) {
                true => killed += 1,
                false => hanging.push((pid, pidfd)),
            }
        }
    }
}

/// A marker in the form in which `/proc` shows it.
struct Resolved {
    entry: Option<Vec<u8>>,
    directory: Option<PathBuf>,
}

impl Resolved {
    fn new(marker: &Marker) -> Self {
        let entry = |(name, value): &(OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
        // Links in `/proc` are resolved. A directory that is gone cannot be, and is taken as it stands.
        let directory = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        Self {
            entry: marker.variable.as_ref().map(entry),
            directory: marker.directory.as_ref().map(directory),
        }
    }

    /// Looks at the process only once it is held, so that its number cannot have passed to another.
    fn hold(&self, pid: i32) -> Option<PidFd> {
        // Both cheaper than opening every process on the machine, and needed: `matches` alone could be late.
        if !self.matches(pid) {
            return None;
        }
        let pidfd = PidFd::open(pid).ok()?;
        self.matches(pid).then_some(pidfd)
    }

    /// Processes of other users cannot be read, and are not ours to kill. Where commands in cells are such, the kernel
    /// ends them with their cell's first process, and their control group is killed. Those that have ended show nothing.
    fn matches(&self, pid: i32) -> bool {
        let by_entry = self.entry.as_ref().is_some_and(|entry| {
            fs::read(format!("/proc/{pid}/environ")).is_ok_and(|all| contains(&all, entry))
        });
        by_entry
            || self.directory.as_ref().is_some_and(|directory| {
                fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| lies_beneath(&cwd, directory))
            })
    }
}

/// The kernel marks a directory that was removed while a process was still in it.
fn lies_beneath(cwd: &Path, directory: &Path) -> bool {
    let shown = cwd.as_os_str().as_bytes();
    let name = shown.strip_suffix(b" (deleted)").unwrap_or(shown);
    Path::new(OsStr::from_bytes(name)).starts_with(directory)
}

fn contains(environ: &[u8], entry: &[u8]) -> bool {
    environ
        .split(|byte| *byte == 0)
        .any(|candidate| candidate == entry)
}

/// All processes but this one.
fn processes() -> io::Result<Vec<i32>> {
    let own = std::process::id() as i32;
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok())
            && pid != own
        {
            found.push(pid);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_exact_entry_is_a_mark() {
        fn check(environ: &[u8], expected: bool) {
            assert_eq!(
                contains(environ, b"MARK=a"),
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
    fn a_removed_directory_still_counts() {
        fn check(cwd: &str, expected: bool) {
            assert_eq!(
                lies_beneath(Path::new(cwd), Path::new("/d/slot")),
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
