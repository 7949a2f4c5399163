//! The clock that goes on while the machine sleeps.
#![allow(unsafe_code)]

use std::time::Duration;

/// Time since boot, suspension included: the owner and its peers count on time that passes for everybody.
pub(super) fn boot_time() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid place for a timespec. The call cannot fail for a clock that Linux always has.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
