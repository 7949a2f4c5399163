//! Pid files. A pid file names the process of a service; the holder of its lock decides whether the service starts.

use std::fs::{File, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::process::ProcessIdentity;

/// A locked pid file in the run folder of a node: of boot itself, or of one of the services that it supervises. The
/// lock is released on drop, and child processes do not inherit it.
#[derive(Debug)]
pub(crate) struct PidFile(File);

impl PidFile {
    /// `None` if another process has locked the file.
    pub(crate) fn try_lock(path: &Path) -> io::Result<Option<PidFile>> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(PidFile(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    pub(crate) fn read(&mut self) -> io::Result<Option<ProcessIdentity>> {
        let mut bytes = Vec::new();
        self.0.rewind()?;
        self.0.read_to_end(&mut bytes)?;
        // Invalid content counts as no process; it must not keep the service from starting.
        Ok(ProcessIdentity::parse(&String::from_utf8_lossy(&bytes)))
    }

    /// Writes in place, because the lock belongs to this file and not to its name.
    pub(crate) fn write(&mut self, identity: &ProcessIdentity) -> io::Result<()> {
        self.clear()?;
        self.0.write_all(identity.to_string().as_bytes())
    }

    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.0.rewind()?;
        self.0.set_len(0)
    }
}

/// Unlocks explicitly: a child process between fork and exec may still have the descriptor.
impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Reads the process in a pid file, whether or not the file is locked.
pub(crate) fn read_without_lock(path: &Path) -> Option<ProcessIdentity> {
    ProcessIdentity::parse(&std::fs::read_to_string(path).ok()?)
}

/// Whether a process has locked the file. Takes a shared lock, so that several readers do not block each other.
pub(crate) fn is_locked(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened?,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Only for this user: any process that can open the file could lock it and keep a node from starting.
fn open(path: &Path) -> io::Result<File> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    // Earlier versions created the file readable for all users.
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_process_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pid");
        assert!(!is_locked(&path).unwrap());
        assert_eq!(read_without_lock(&path), None);

        let mut held = PidFile::try_lock(&path).unwrap().unwrap();
        assert!(is_locked(&path).unwrap());
        assert!(PidFile::try_lock(&path).unwrap().is_none());
        let own = ProcessIdentity::own().unwrap();
        // Overwrites a longer content.
        held.0.write_all(&[b'9'; 500]).unwrap();
        held.write(&own).unwrap();
        assert_eq!(held.read().unwrap().as_ref(), Some(&own));
        assert_eq!(read_without_lock(&path).as_ref(), Some(&own));

        drop(held);
        assert!(!is_locked(&path).unwrap());
        let mut held = PidFile::try_lock(&path).unwrap().unwrap();
        assert_eq!(held.read().unwrap(), Some(own));
        held.clear().unwrap();
        assert_eq!(held.read().unwrap(), None);
    }

    #[test]
    fn other_users_cannot_lock_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pid");
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        drop(PidFile::try_lock(&path).unwrap().unwrap());
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        drop(PidFile::try_lock(&path).unwrap().unwrap());
        assert_eq!(mode(), 0o600);
    }
}
