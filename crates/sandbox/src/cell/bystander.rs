//! A process in a user namespace of its own that does nothing: to find out whether ids can be mapped there.
#![allow(unsafe_code)]

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::bare;
use super::process::{Birth, Stack, share};
use crate::fault::Errno;

/// Ends when it is dropped.
pub(crate) struct Bystander {
    pid: Pid,
    /// For as long as the process is there.
    _stack: Stack,
}

impl Bystander {
    pub(crate) fn start() -> Result<Bystander, Errno> {
        const NOTHING: &() = &();
        let stack = Stack::new()?;
        let birth = Birth {
            namespaces: libc::CLONE_NEWUSER,
            group: None,
        };
        // SAFETY: the stack stays until the process is gone, which makes bare calls only.
        let pid = unsafe { share(birth, &stack, wait_for_end, NOTHING) }?;
        Ok(Bystander {
            pid: Pid::from_raw(pid),
            _stack: stack,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }
}

impl Drop for Bystander {
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
