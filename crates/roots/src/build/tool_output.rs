//! The output of the program that makes a root file system, while it runs.

use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::TIME_LIMIT_HOURS;
use super::tool::PreparedTool;
use crate::InterruptFlag;

/// The tar archive that a running program writes. Reading it ends when the program ends, at an interrupt or at a deadline.
pub(super) struct ToolOutput {
    child: Child,
    stdout: Option<ChildStdout>,
    stop_signal: Signal,
    interrupt: InterruptFlag,
    deadline: Instant,
}

const TIME_LIMIT: Duration = Duration::from_secs(TIME_LIMIT_HOURS * 3600);
/// How often an interrupt is noticed while the program is silent.
const POLL_INTERVAL_MS: u16 = 100;
/// How long the program may take to end after its output has ended, or after a signal.
const END_TIMEOUT: Duration = Duration::from_secs(20);
const WAIT_INTERVAL: Duration = Duration::from_millis(10);

impl ToolOutput {
    pub(super) fn start(mut tool: PreparedTool, interrupt: &InterruptFlag) -> io::Result<ToolOutput> {
        let mut child = tool
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        Ok(ToolOutput {
            stdout: child.stdout.take(),
            child,
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

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).map(Pid::from_raw);
        // An error means that it has ended.
        let _ = pid.map(|pid| kill(pid, signal));
    }

    fn wait(&mut self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + timeout;
        loop {
            let status = self.child.try_wait()?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            std::thread::sleep(WAIT_INTERVAL);
        }
    }
}

impl Drop for ToolOutput {
    fn drop(&mut self) {
        // After an error. A program that has ended and was waited for is not affected.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
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
