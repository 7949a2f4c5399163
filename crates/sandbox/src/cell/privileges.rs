//! Privileges that a warden drops for itself and all its cells.
#![allow(unsafe_code)]

use libc::{c_int, c_ulong};

use crate::platform_error::Errno;

/// No program executed from here on can get a capability, regardless of the capabilities of its file.
pub(super) fn drop_bounding_set() -> Result<(), Errno> {
    for capability in 0.. {
        match prctl(libc::PR_CAPBSET_DROP, capability) {
            Ok(()) => {}
            // The number is above the last capability of this kernel.
            Err(Errno(libc::EINVAL)) if capability > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Makes the memory of this process unreadable even for processes of the same user, because the init process of a
/// cell shares it.
pub(super) fn hide_memory() -> Result<(), Errno> {
    prctl(libc::PR_SET_DUMPABLE, 0)
}

fn prctl(option: c_int, value: c_ulong) -> Result<(), Errno> {
    let zero: c_ulong = 0;
    // SAFETY: only options that take numbers are passed here.
    match unsafe { libc::prctl(option, value, zero, zero, zero) } {
        -1 => Err(Errno::last()),
        _ => Ok(()),
    }
}
