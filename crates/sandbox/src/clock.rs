//! The clocks that the standard library does not have.
#![allow(unsafe_code)]

use std::time::Duration;

/// Time since boot, suspension included: the owner and its peers count on time that passes for everybody. It is the same
/// for all processes of the machine.
pub(crate) fn boot_time() -> Duration {
    time(libc::CLOCK_BOOTTIME)
}

/// What this process has computed, whatever else the machine did meanwhile.
pub(crate) fn own_time() -> Duration {
    time(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Of a clock that Linux always has.
fn time(clock: libc::clockid_t) -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid place for a timespec. The call cannot fail for such a clock.
    unsafe { libc::clock_gettime(clock, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
