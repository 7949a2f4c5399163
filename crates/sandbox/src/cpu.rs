//! The CPUs of this machine that a process may use.

use std::fmt;
use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::platform_error::PlatformError;

/// The number that the kernel gives to a CPU, as in `/proc/cpuinfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CpuNumber(pub u32);

impl fmt::Display for CpuNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// In both calls, process 0 means the calling thread.
const CALLER: Pid = Pid::from_raw(0);

/// The CPUs that this thread may use, in ascending order.
pub fn allowed_cpus() -> io::Result<Vec<CpuNumber>> {
    let allowed = sched_getaffinity(CALLER)?;
    let numbers = 0..CpuSet::count();
    Ok(numbers
        .filter(|number| allowed.is_set(*number).unwrap_or(false))
        .map(|number| CpuNumber(number as u32))
        .collect())
}

/// Makes this process, which has one thread, and all processes that it starts run on this CPU only.
pub(crate) fn pin_process(cpu: CpuNumber) -> Result<(), PlatformError> {
    let mut only = CpuSet::new();
    only.set(cpu.0 as usize)
        .and_then(|()| sched_setaffinity(CALLER, &only))
        .map_err(|errno| PlatformError::Pin {
            cpu,
            errno: errno.into(),
        })
}
