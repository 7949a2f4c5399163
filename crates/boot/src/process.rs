//! A process, told from every other that has or had its number.
//!
//! Numbers are used again. The number together with the moment of the start and the run of the machine is not.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The runtime can await a foreign descriptor only with unsafe code. Strangers are waited for seldom enough to look.
const LOOK: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub pid: u32,
    /// In clock ticks since the machine started.
    pub started: u64,
    /// One run of the machine.
    pub machine: String,
}

impl Identity {
    /// `None` if there is no such process, or it has ended and only waits to be reaped.
    pub fn of(pid: u32) -> Option<Identity> {
        let stat = Stat::read(pid)?;
        (!stat.ended()).then(|| Identity {
            pid,
            started: stat.started,
            machine: machine(),
        })
    }

    pub fn own() -> Option<Identity> {
        Identity::of(std::process::id())
    }

    pub fn is_alive(&self) -> bool {
        Identity::of(self.pid).as_ref() == Some(self)
    }

    /// `None` if it is gone, whoever has its number now.
    pub fn open(&self) -> io::Result<Option<Process>> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        let fd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => fd,
            // The number is free, or has passed to a thread.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Only once it is held, so that its number cannot pass to another in between.
        if !self.is_alive() {
            return Ok(None);
        }
        Ok(Some(Process { pid: self.pid, fd }))
    }

    pub(crate) fn parse(text: &str) -> Option<Identity> {
        let mut lines = text.lines();
        let identity = Identity {
            pid: lines.next()?.parse().ok()?,
            started: lines.next()?.parse().ok()?,
            machine: lines.next()?.to_string(),
        };
        // A text that was cut off must not be taken for a process.
        (text.ends_with('\n') && lines.next().is_none() && !identity.machine.is_empty()).then_some(identity)
    }
}

/// As it stands in a pid file. The number comes first, alone on its line, as is the custom.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n{}", self.pid, self.started, self.machine)
    }
}

/// A process held by descriptor: whatever is done to it is done to no other.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    fd: OwnedFd,
}

impl Process {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns when it has ended.
    pub async fn ended(&self) {
        while !self.has_ended() {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1..))
    }

    /// Stopped by SIGSTOP or a debugger: nothing that it is asked reaches it.
    pub fn is_stopped(&self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| matches!(stat.state, b'T' | b't'))
    }

    /// Asks it to end. It is woken if it was stopped, for it could not even hear otherwise.
    pub fn terminate(&self) -> io::Result<()> {
        self.send(Signal::TERM)?;
        self.send(Signal::CONT)
    }

    pub fn kill(&self) -> io::Result<()> {
        self.send(Signal::KILL)
    }

    /// TERM, grace, KILL. Returns when it has ended.
    pub async fn end(&self, grace: Duration) -> io::Result<()> {
        self.terminate()?;
        if tokio::time::timeout(grace, self.ended()).await.is_err() {
            self.kill()?;
            self.ended().await;
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

/// Ends the process that has this number now: TERM, grace, KILL. Returns when it has ended.
pub async fn end(pid: u32, grace: Duration) -> io::Result<()> {
    match Identity::of(pid)
        .map(|identity| identity.open())
        .transpose()?
        .flatten()
    {
        Some(process) => process.end(grace).await,
        None => Ok(()),
    }
}

/// What of `/proc/PID/stat` tells processes apart.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: u8,
    started: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Stat> {
        Stat::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(line: &[u8]) -> Option<Stat> {
        // The name stands in parentheses and may itself contain them, or spaces, or anything else.
        let name_ends = line.iter().rposition(|byte| *byte == b')')?;
        let mut fields = str::from_utf8(&line[name_ends + 1..])
            .ok()?
            .split_ascii_whitespace();
        // proc(5) counts from one and starts before the name: the third and the 22nd.
        let state = *fields.next()?.as_bytes().first()?;
        let started = fields.nth(22 - 4)?.parse().ok()?;
        Some(Stat { state, started })
    }

    fn ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// Empty where the kernel does not tell; then a restart of the machine is told by the time of the start alone.
fn machine() -> String {
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
    fn lines_are_read_whatever_the_name() {
        fn check(name: &[u8], state: &str, expected: Option<(u8, u64)>) {
            let rest = format!(" {state} 7 7 7 0 -1 4194304 134 0 0 0 1 2 3 4 20 0 6 0 8815 2818048 390");
            let line = [b"42 (", name, b")", rest.as_bytes()].concat();
            let stat = Stat::parse(&line).map(|stat| (stat.state, stat.started));
            assert_eq!(stat, expected, "{}", line.escape_ascii());
        }
        check(b"cat", "R", Some((b'R', 8815)));
        check(b"a) R 1 (b", "T", Some((b'T', 8815)));
        check(b"\xff\n ", "Z", Some((b'Z', 8815)));
        assert_eq!(Stat::parse(b""), None);
        assert_eq!(Stat::parse(b"42 (cat) R 7"), None);
    }

    #[test]
    fn only_a_whole_text_is_a_process() {
        let identity = Identity {
            pid: 7,
            started: 8815,
            machine: "a-b".into(),
        };
        let text = identity.to_string();
        assert_eq!(Identity::parse(&text), Some(identity));
        for cut in 0..text.len() {
            assert_eq!(Identity::parse(&text[..cut]), None, "{:?}", &text[..cut]);
        }
        for text in ["7\n", "x\n1\na\n", "7\n8815\n\n", "7\n8815\na-b\nmore\n"] {
            assert_eq!(Identity::parse(text), None, "{text:?}");
        }
    }

    #[tokio::test]
    async fn another_process_with_the_number_is_not_it() {
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let real = Identity::of(child.id()).unwrap();
        let others = [
            Identity {
                started: real.started - 1,
                ..real.clone()
            },
            Identity {
                machine: "another run".into(),
                ..real.clone()
            },
        ];
        for other in &others {
            assert!(!other.is_alive());
            assert!(other.open().unwrap().is_none());
        }
        assert!(real.is_alive());
        let process = real.open().unwrap().unwrap();
        process.end(Duration::from_secs(10)).await.unwrap();
        // Ended, though nobody has reaped it yet.
        assert!(!real.is_alive());
        assert!(real.open().unwrap().is_none());
        child.wait().unwrap();
        // What is gone can be ended again.
        process.end(Duration::ZERO).await.unwrap();
    }

    #[tokio::test]
    async fn a_stopped_process_is_ended_too() {
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
            let identity = Identity::of(child.id()).unwrap();
            let process = identity.open().unwrap().unwrap();
            process.send(Signal::STOP).unwrap();
            while !process.is_stopped() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            process.end(Duration::from_millis(50)).await.unwrap();
            assert!(!identity.is_alive(), "{script}");
            child.wait().unwrap();
        }
    }
}
