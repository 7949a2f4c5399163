//! Which process a service is, in a file that is locked by whoever decides about it.

use std::fs::{File, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::process::Identity;

/// Locked as long as it lives. Not passed on to any process that is started meanwhile.
#[derive(Debug)]
pub(crate) struct PidFile(File);

impl PidFile {
    /// `None` if somebody else has it locked.
    pub(crate) fn try_lock(path: &Path) -> io::Result<Option<PidFile>> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(PidFile(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    pub(crate) fn read(&mut self) -> io::Result<Option<Identity>> {
        let mut bytes = Vec::new();
        self.0.rewind()?;
        self.0.read_to_end(&mut bytes)?;
        // Garbage is nobody, and must not keep the service from being started.
        Ok(Identity::parse(&String::from_utf8_lossy(&bytes)))
    }

    /// In place: the lock is the file's, and another file under this name would not be locked.
    pub(crate) fn write(&mut self, identity: &Identity) -> io::Result<()> {
        self.clear()?;
        self.0.write_all(identity.to_string().as_bytes())
    }

    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.0.rewind()?;
        self.0.set_len(0)
    }
}

/// A lock is let go explicitly: a process that is just being started may still have the descriptor.
impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Who is said to be in the file, whether or not it is locked.
pub(crate) fn peek(path: &Path) -> Option<Identity> {
    Identity::parse(&std::fs::read_to_string(path).ok()?)
}

/// Whether somebody has it locked. Those who only ask do not get in each other's way.
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

/// For this user alone: whoever may open a file may lock it, and keep a node from starting.
fn open(path: &Path) -> io::Result<File> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    // An earlier version let everybody read it.
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pid");
        assert!(!is_locked(&path).unwrap());
        assert_eq!(peek(&path), None);

        let mut held = PidFile::try_lock(&path).unwrap().unwrap();
        assert!(is_locked(&path).unwrap());
        assert!(PidFile::try_lock(&path).unwrap().is_none());
        let own = Identity::own().unwrap();
        // Written over a longer one.
        held.0.write_all(&[b'9'; 500]).unwrap();
        held.write(&own).unwrap();
        assert_eq!(held.read().unwrap().as_ref(), Some(&own));
        assert_eq!(peek(&path).as_ref(), Some(&own));

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
