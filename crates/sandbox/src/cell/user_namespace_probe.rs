//! Probes whether ids can be mapped into a user namespace, with a process that does nothing.
#![allow(unsafe_code)]

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::bare;
use super::clone::{CloneOptions, ProcessStack, clone_sharing_memory};
use crate::platform_error::Errno;

/// A sleeping process in a new user namespace, with which the sandbox checks whether ids can be mapped into it. It ends
/// when this value is dropped.
pub(crate) struct UserNamespaceProbe {
    pid: Pid,
    /// The process runs on this stack.
    _stack: ProcessStack,
}

impl UserNamespaceProbe {
    pub(crate) fn start() -> Result<UserNamespaceProbe, Errno> {
        const NOTHING: &() = &();
        let stack = ProcessStack::new()?;
        let options = CloneOptions {
            namespaces: libc::CLONE_NEWUSER,
            cgroup_directory: None,
        };
        // SAFETY: the stack is kept until the process has ended, and the process makes bare calls only.
        let pid = unsafe { clone_sharing_memory(options, &stack, wait_for_end, NOTHING) }?;
        Ok(UserNamespaceProbe {
            pid: Pid::from_raw(pid),
            _stack: stack,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }
}

impl Drop for UserNamespaceProbe {
    fn drop(&mut self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        while waitpid(self.pid, None) == Err(nix::errno::Errno::EINTR) {}
    }
}

extern "C" fn wait_for_end(_: &()) -> ! {
    const PAUSE_MILLIS: i64 = 100;
    if bare::die_with_parent().is_err() {
        bare::exit(1);
    }
    loop {
        bare::sleep_millis(PAUSE_MILLIS);
    }
}
