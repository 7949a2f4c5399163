//! Mount calls that work on descriptors.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::platform_error::Errno;

/// Copies the mounts at and beneath a path, without attaching the copy anywhere.
pub(super) fn copy_tree(path: &Path) -> Result<OwnedFd, Errno> {
    let path = c_path(path)?;
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as libc::c_uint;
    // SAFETY: the path is a valid C string; the result is checked.
    opened(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })
}

/// Creates a file system of this type, without attaching it anywhere.
pub(super) fn make_detached(kind: &CStr) -> Result<OwnedFd, Errno> {
    const CREATE: libc::c_uint = 6;
    let nothing = std::ptr::null::<libc::c_char>();
    // SAFETY: the type is a valid C string, and the other string arguments are null.
    unsafe {
        let context = opened(libc::syscall(
            libc::SYS_fsopen,
            kind.as_ptr(),
            libc::FSOPEN_CLOEXEC,
        ))?;
        let fd = context.as_raw_fd();
        if libc::syscall(libc::SYS_fsconfig, fd, CREATE, nothing, nothing, 0) < 0 {
            return Err(Errno::last());
        }
        opened(libc::syscall(libc::SYS_fsmount, fd, libc::FSMOUNT_CLOEXEC, 0))
    }
}

fn opened(result: libc::c_long) -> Result<OwnedFd, Errno> {
    match result {
        // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(result as i32) }),
        _ => Err(Errno::last()),
    }
}

/// Sets attributes of a mount and of all mounts beneath it.
pub(super) fn restrict(tree: BorrowedFd<'_>, attributes: u64) -> Result<(), Errno> {
    set_attributes(tree, attributes, libc::AT_EMPTY_PATH | libc::AT_RECURSIVE)
}

/// Sets attributes of a single mount.
pub(super) fn restrict_one(mount: BorrowedFd<'_>, attributes: u64) -> Result<(), Errno> {
    set_attributes(mount, attributes, libc::AT_EMPTY_PATH)
}

fn set_attributes(mount: BorrowedFd<'_>, attributes: u64, flags: libc::c_int) -> Result<(), Errno> {
    let attributes = libc::mount_attr {
        attr_set: attributes,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path is an empty C string, and the size is that of the attributes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result < 0 { Err(Errno::last()) } else { Ok(()) }
}

/// Attaches a detached mount at a path beneath a folder.
pub(super) fn attach(tree: BorrowedFd<'_>, folder: BorrowedFd<'_>, path: &Path) -> Result<(), Errno> {
    let path = c_path(path)?;
    // SAFETY: both paths are valid C strings.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            folder.as_raw_fd(),
            path.as_ptr(),
            libc::MOVE_MOUNT_F_EMPTY_PATH,
        )
    };
    if result < 0 { Err(Errno::last()) } else { Ok(()) }
}

fn c_path(path: &Path) -> Result<CString, Errno> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno(libc::EINVAL))
}
