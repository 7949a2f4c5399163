//! Identifies processes beyond their pid.
//!
//! The kernel reuses pids. A pid together with the start time of the process and the boot id of the kernel is unique.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How often an exit is polled for: Tokio cannot await a pidfd without unsafe code, and boot rarely waits for processes that
/// are not its children.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Identifies a process of a node by pid, start time and kernel boot id, even after its pid is reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// In clock ticks since the kernel booted.
    pub start_time: u64,
    /// The kernel's boot id: it changes when the machine restarts.
    pub kernel_boot_id: String,
}

impl ProcessIdentity {
    /// `None` if there is no such process, or only a zombie.
    pub fn of(pid: u32) -> Option<ProcessIdentity> {
        let stat = ProcStat::read(pid)?;
        (!stat.has_exited()).then(|| ProcessIdentity {
            pid,
            start_time: stat.start_time,
            kernel_boot_id: read_kernel_boot_id(),
        })
    }

    pub fn own() -> Option<ProcessIdentity> {
        ProcessIdentity::of(std::process::id())
    }

    pub fn is_alive(&self) -> bool {
        ProcessIdentity::of(self.pid).as_ref() == Some(self)
    }

    /// Opens a handle. `None` if the process has exited, even if another process has its pid now.
    pub fn open_handle(&self) -> io::Result<Option<ProcessHandle>> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        let fd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => fd,
            // The pid is free, or belongs to a thread.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Checked after the descriptor is open, so that the pid cannot be reused in between.
        if !self.is_alive() {
            return Ok(None);
        }
        Ok(Some(ProcessHandle { pid: self.pid, fd }))
    }

    pub(crate) fn parse(text: &str) -> Option<ProcessIdentity> {
        let mut lines = text.lines();
        let identity = ProcessIdentity {
            pid: lines.next()?.parse().ok()?,
            start_time: lines.next()?.parse().ok()?,
            kernel_boot_id: lines.next()?.to_string(),
        };
        // A truncated text must not be taken for a process.
        (text.ends_with('\n') && lines.next().is_none() && !identity.kernel_boot_id.is_empty())
            .then_some(identity)
    }
}

/// The format of a pid file. The pid has the first line for itself, as is usual.
impl fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n{}", self.pid, self.start_time, self.kernel_boot_id)
    }
}

/// A handle (pidfd) on a process of a node: a signal through it can never reach another process.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: u32,
    fd: OwnedFd,
}

impl ProcessHandle {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns when the process has exited.
    pub async fn wait_for_exit(&self) {
        while !self.has_exited() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn has_exited(&self) -> bool {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1..))
    }

    /// Whether the process is stopped by SIGSTOP or a debugger, so that it does not react to SIGTERM.
    pub fn is_stopped(&self) -> bool {
        ProcStat::read(self.pid).is_some_and(|stat| matches!(stat.state, b'T' | b't'))
    }

    /// Sends SIGTERM, and SIGCONT so that a stopped process receives it.
    pub fn terminate(&self) -> io::Result<()> {
        self.send(Signal::TERM)?;
        self.send(Signal::CONT)
    }

    pub fn kill(&self) -> io::Result<()> {
        self.send(Signal::KILL)
    }

    /// Sends SIGTERM, and SIGKILL after the grace period. Returns when the process has exited.
    pub async fn terminate_then_kill(&self, grace: Duration) -> io::Result<()> {
        self.terminate()?;
        if tokio::time::timeout(grace, self.wait_for_exit()).await.is_err() {
            self.kill()?;
            self.wait_for_exit().await;
        }
        Ok(())
    }

    fn send(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.fd, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The fields of `/proc/PID/stat` from which boot sees the state of a process and when it started.
#[derive(Debug, PartialEq, Eq)]
struct ProcStat {
    state: u8,
    start_time: u64,
}

impl ProcStat {
    fn read(pid: u32) -> Option<ProcStat> {
        ProcStat::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(line: &[u8]) -> Option<ProcStat> {
        // The name is in parentheses, and can itself contain parentheses and spaces.
        let name_ends = line.iter().rposition(|byte| *byte == b')')?;
        let mut fields = str::from_utf8(&line[name_ends + 1..])
            .ok()?
            .split_ascii_whitespace();
        // Fields 3 and 22 in proc(5), which counts from 1 and includes pid and name.
        let state = *fields.next()?.as_bytes().first()?;
        let start_time = fields.nth(22 - 4)?.parse().ok()?;
        Some(ProcStat { state, start_time })
    }

    fn has_exited(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// `unknown` if the kernel does not have one; then only the start time tells processes apart after a restart.
fn read_kernel_boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    match text.trim() {
        "" => "unknown".to_string(),
        id => id.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn stat_lines_are_parsed_whatever_the_process_name() {
        fn check(name: &[u8], state: &str, expected: Option<(u8, u64)>) {
            let rest = format!(" {state} 7 7 7 0 -1 4194304 134 0 0 0 1 2 3 4 20 0 6 0 8815 2818048 390");
            let line = [b"42 (", name, b")", rest.as_bytes()].concat();
            let stat = ProcStat::parse(&line).map(|stat| (stat.state, stat.start_time));
            assert_eq!(stat, expected, "{}", line.escape_ascii());
        }
        check(b"cat", "R", Some((b'R', 8815)));
        check(b"a) R 1 (b", "T", Some((b'T', 8815)));
        check(b"\xff\n ", "Z", Some((b'Z', 8815)));
        assert_eq!(ProcStat::parse(b""), None);
        assert_eq!(ProcStat::parse(b"42 (cat) R 7"), None);
    }

    #[test]
    fn only_a_complete_pid_file_is_parsed() {
        let identity = ProcessIdentity {
            pid: 7,
            start_time: 8815,
            kernel_boot_id: "a-b".into(),
        };
        let text = identity.to_string();
        assert_eq!(ProcessIdentity::parse(&text), Some(identity));
        for cut in 0..text.len() {
            assert_eq!(ProcessIdentity::parse(&text[..cut]), None, "{:?}", &text[..cut]);
        }
        for text in ["7\n", "x\n1\na\n", "7\n8815\n\n", "7\n8815\na-b\nmore\n"] {
            assert_eq!(ProcessIdentity::parse(text), None, "{text:?}");
        }
    }

    #[tokio::test]
    async fn another_process_with_the_same_pid_is_not_mistaken_for_it() {
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let real = ProcessIdentity::of(child.id()).unwrap();
        let others = [
            ProcessIdentity {
                start_time: real.start_time - 1,
                ..real.clone()
            },
            ProcessIdentity {
                kernel_boot_id: "another boot".into(),
                ..real.clone()
            },
        ];
        for other in &others {
            assert!(!other.is_alive());
            assert!(other.open_handle().unwrap().is_none());
        }
        assert!(real.is_alive());
        let process = real.open_handle().unwrap().unwrap();
        process
            .terminate_then_kill(Duration::from_secs(10))
            .await
            .unwrap();
        // It is a zombie until it is reaped.
        assert!(!real.is_alive());
        assert!(real.open_handle().unwrap().is_none());
        child.wait().unwrap();
        // Terminating it again has no effect.
        process.terminate_then_kill(Duration::ZERO).await.unwrap();
    }

    #[tokio::test]
    async fn a_stopped_process_is_terminated_too() {
        for script in [
            "echo up; exec sleep 60",
            "trap '' TERM; echo up; while :; do sleep 0.01; done",
        ] {
            let mut child = Command::new("sh")
                .args(["-c", script])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut up = [0; 3];
            child.stdout.take().unwrap().read_exact(&mut up).unwrap();
            let identity = ProcessIdentity::of(child.id()).unwrap();
            let process = identity.open_handle().unwrap().unwrap();
            process.send(Signal::STOP).unwrap();
            while !process.is_stopped() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            process
                .terminate_then_kill(Duration::from_millis(50))
                .await
                .unwrap();
            assert!(!identity.is_alive(), "{script}");
            child.wait().unwrap();
        }
    }
}
