//! The output of the program that makes a root file system, while it runs.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, pipe2};

use super::TIME_LIMIT_HOURS;
use super::tool::{PreparedTool, find_program};
use crate::InterruptFlag;

/// The tar archive that a running program writes. Reading it ends when the program ends, at an interrupt or at a deadline.
pub(super) struct ToolOutput {
    pid: Pid,
    /// Once it has ended and was waited for.
    status: Option<ExitStatus>,
    stdout: Option<File>,
    stop_signal: Signal,
    interrupt: InterruptFlag,
    deadline: Instant,
}

const STDIN: RawFd = 0;
const STDOUT: RawFd = 1;
const TIME_LIMIT: Duration = Duration::from_secs(TIME_LIMIT_HOURS * 3600);
/// How often an interrupt is noticed while the program is silent.
const POLL_INTERVAL_MS: u16 = 100;
/// How long the program may take to end after its output has ended, or after a signal.
const END_TIMEOUT: Duration = Duration::from_secs(20);
const WAIT_INTERVAL: Duration = Duration::from_millis(10);

impl ToolOutput {
    pub(super) fn start(tool: &PreparedTool, interrupt: &InterruptFlag) -> io::Result<ToolOutput> {
        let (output, input) = pipe2(OFlag::O_CLOEXEC)?;
        let mut actions = PosixSpawnFileActions::init()?;
        let nothing = File::open("/dev/null")?;
        actions.add_dup2(nothing.as_raw_fd(), STDIN)?;
        actions.add_dup2(input.as_raw_fd(), STDOUT)?;
        // A command that cleans up after a signal blocks signals, and would pass that on. Then the program would ignore the
        // signal that stops it.
        let mut attributes = PosixSpawnAttr::init()?;
        attributes
            .set_flags(PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF)?;
        attributes.set_sigmask(&SigSet::empty())?;
        // Rust programs ignore it, and others rely on it.
        attributes.set_sigdefault(&SigSet::from(Signal::SIGPIPE))?;
        let program = tool
            .words
            .first()
            .and_then(find_program)
            .ok_or(ErrorKind::NotFound)?;
        let arguments = tool.words.iter().map(|word| c_string(word));
        let environment = tool.environment.iter().map(|(name, value)| {
            let mut setting = name.clone();
            setting.push("=");
            setting.push(value);
            c_string(&setting)
        });
        let pid = posix_spawn(
            program.as_path(),
            &actions,
            &attributes,
            &arguments.collect::<io::Result<Vec<_>>>()?,
            &environment.collect::<io::Result<Vec<_>>>()?,
        )?;
        Ok(ToolOutput {
            pid,
            status: None,
            stdout: Some(output.into()),
            stop_signal: tool.stop_signal,
            interrupt: interrupt.clone(),
            deadline: Instant::now() + TIME_LIMIT,
        })
    }

    pub(super) fn has_timed_out(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Waits until the program has ended, and ends it if it does not end by itself.
    pub(super) fn finish(mut self) -> io::Result<ExitStatus> {
        // Now it cannot write any more, and has nothing left to do.
        self.stdout = None;
        if self.interrupt.is_interrupted() || self.has_timed_out() {
            self.signal(self.stop_signal);
        }
        for signal in [self.stop_signal, Signal::SIGKILL] {
            if let Some(status) = self.wait(END_TIMEOUT)? {
                return Ok(status);
            }
            self.signal(signal);
        }
        self.wait(END_TIMEOUT)?.ok_or_else(|| ErrorKind::TimedOut.into())
    }

    /// Not after it was waited for: then another process may have its id.
    fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            let _ = kill(self.pid, signal);
        }
    }

    fn wait(&mut self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + timeout;
        loop {
            self.status = match self.status {
                None => try_wait(self.pid)?,
                status => status,
            };
            if self.status.is_some() || Instant::now() >= deadline {
                return Ok(self.status);
            }
            std::thread::sleep(WAIT_INTERVAL);
        }
    }
}

impl Drop for ToolOutput {
    fn drop(&mut self) {
        // After an error. A program that has ended and was waited for is not affected.
        self.signal(Signal::SIGKILL);
        let _ = self.wait(END_TIMEOUT);
    }
}

/// The status of a child that has ended.
fn try_wait(pid: Pid) -> io::Result<Option<ExitStatus>> {
    // As wait(2) encodes them.
    match waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
        Ok(WaitStatus::Exited(_, code)) => Ok(Some(ExitStatus::from_raw(code << 8))),
        Ok(WaitStatus::Signaled(_, signal, _)) => Ok(Some(ExitStatus::from_raw(signal as i32))),
        Ok(_) | Err(Errno::EINTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

impl Read for ToolOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(stdout) = &mut self.stdout else {
            return Ok(0);
        };
        loop {
            self.interrupt.check()?;
            if Instant::now() >= self.deadline {
                return Err(ErrorKind::TimedOut.into());
            }
            let mut ready = [PollFd::new(stdout.as_fd(), PollFlags::POLLIN)];
            match poll(&mut ready, PollTimeout::from(POLL_INTERVAL_MS)) {
                Ok(0) | Err(nix::Error::EINTR) => {}
                Ok(_) => return stdout.read(buffer),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
