//! What a warden gives up for all its cells.
#![allow(unsafe_code)]

use libc::{c_int, c_ulong};

use crate::fault::Errno;

/// No program that is executed from here on can get a capability, whatever its file says.
pub(super) fn bound_capabilities() -> Result<(), Errno> {
    for capability in 0.. {
        match prctl(libc::PR_CAPBSET_DROP, capability) {
            Ok(()) => {}
            // Beyond the last one that this kernel knows.
            Err(Errno(libc::EINVAL)) if capability > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Not to be looked into, even by processes of the same user: a cell's first process shares this memory.
pub(super) fn hide() -> Result<(), Errno> {
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
