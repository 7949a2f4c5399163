//! Clocks that the standard library does not offer.
#![allow(unsafe_code)]

use std::time::Duration;

/// Time since boot, including the time the machine was suspended. It is the same in all processes of the machine.
pub(crate) fn boot_time() -> Duration {
    time(libc::CLOCK_BOOTTIME)
}

/// CPU time that this process has used.
pub(crate) fn own_cpu_time() -> Duration {
    time(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Reads a clock that every Linux kernel has.
fn time(clock: libc::clockid_t) -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is valid memory for a timespec. The call cannot fail for such a clock.
    unsafe { libc::clock_gettime(clock, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
