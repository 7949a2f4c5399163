//! Collect what has ended, and add up what it used.
#![allow(unsafe_code)]

use std::time::Duration;

use nix::errno::Errno;

use super::signals;

/// What the processes of one run that have ended used together, and how the first of them ended.
#[derive(Debug)]
pub(super) struct Tally {
    first: i32,
    /// As `wait` gives it, once the first process has ended.
    pub(super) status: Option<i32>,
    pub(super) cpu: Duration,
    /// The largest process's peak in bytes. The kernel passes a parent's peak on through clone and exec, so
    /// this is never less than the warden's own at the start of the run.
    pub(super) peak: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// All processes of the run are gone: their orphans come to the warden, so it would have them as children.
    Nobody,
    Somebody,
}

impl Tally {
    pub(super) fn new(first: i32) -> Self {
        Self {
            first,
            status: None,
            cpu: Duration::ZERO,
            peak: 0,
        }
    }

    /// Takes in all that have ended by now, without waiting.
    pub(super) fn reap(&mut self) -> Left {
        loop {
            let mut status = 0;
            // SAFETY: an all-zero rusage is a valid one.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: both places are valid for what the kernel writes to them.
            let pid = Errno::result(unsafe { libc::wait4(-1, &mut status, libc::WNOHANG, &mut usage) });
            match pid {
                Ok(0) => return Left::Somebody,
                Ok(pid) => self.on_ended(pid, status, &usage),
                Err(Errno::EINTR) => continue,
                Err(_) => return Left::Nobody,
            }
        }
    }

    /// For children that are about to end by themselves.
    pub(super) fn reap_to_the_last(&mut self) {
        while self.reap() == Left::Somebody {
            // An error would only turn the wait into a busy one.
            let _ = signals::wait(&mut [], None);
        }
    }

    /// The figures include those of the descendants that the process itself had waited for.
    fn on_ended(&mut self, pid: i32, status: i32, usage: &libc::rusage) {
        if pid == self.first {
            self.status = Some(status);
        }
        self.cpu += duration(usage.ru_utime) + duration(usage.ru_stime);
        self.peak = self.peak.max(usage.ru_maxrss as u64 * 1024);
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
}
