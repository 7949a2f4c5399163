//! Reaps ended children and adds up what they used.
#![allow(unsafe_code)]

use std::time::Duration;

use nix::errno::Errno;

use super::signals;

/// What the reaped processes of a command without a cell used together, and how the first of them ended.
#[derive(Debug)]
pub(super) struct ReapedUsage {
    first: i32,
    /// The wait status of the first process, once it has ended.
    pub(super) status: Option<i32>,
    pub(super) cpu: Duration,
    /// The peak of the largest process, in bytes. The kernel passes the parent's peak on through clone and exec, so
    /// it is never below the warden's own at the start of the run.
    pub(super) peak: u64,
}

/// Whether the warden has children left after it has reaped those that have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildrenLeft {
    /// All processes of the run are gone: the warden adopts their orphans, so they would be its children.
    None,
    Some,
}

impl ReapedUsage {
    pub(super) fn new(first: i32) -> Self {
        Self {
            first,
            status: None,
            cpu: Duration::ZERO,
            peak: 0,
        }
    }

    /// Reaps all children that have ended, without waiting.
    pub(super) fn reap(&mut self) -> ChildrenLeft {
        loop {
            let mut status = 0;
            // SAFETY: an all-zero rusage is valid.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: both values are valid memory for the kernel to write to.
            let pid = Errno::result(unsafe { libc::wait4(-1, &mut status, libc::WNOHANG, &mut usage) });
            match pid {
                Ok(0) => return ChildrenLeft::Some,
                Ok(pid) => self.on_ended(pid, status, &usage),
                Err(Errno::EINTR) => continue,
                Err(_) => return ChildrenLeft::None,
            }
        }
    }

    /// Waits for all children; they must be about to end.
    pub(super) fn reap_all(&mut self) {
        while self.reap() == ChildrenLeft::Some {
            // An error only turns this into a busy wait.
            let _ = signals::wait(&mut [], None);
        }
    }

    /// The usage includes that of the descendants that the process itself has reaped.
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
