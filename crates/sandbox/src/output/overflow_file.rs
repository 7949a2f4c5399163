//! Overflow files: files without a name, for output that is longer than a stream's head.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::resource::{Resource, getrlimit};

/// Only the owner's user may open the file, in the moment in which it has a name.
const MODE: u32 = 0o600;

/// A file that takes one output stream of one run, from the first byte on, and how much of it is written.
#[derive(Debug, Clone)]
pub(super) struct OverflowFile {
    pub(super) file: Arc<File>,
    pub(super) written: u64,
    /// The limit of file sizes of this process. The kernel would end it by a signal for a write beyond.
    max_size: u64,
}

impl OverflowFile {
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        Ok(Self {
            file: Arc::new(create(folder)?),
            written: 0,
            max_size: getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft),
        })
    }

    /// Writes until all bytes are written or a write fails, for example because the disk is full; `written` tells. The
    /// position of the file, which the owner shares with the reader of the outcome, stays at its start.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let room = usize::try_from(self.max_size.saturating_sub(self.written)).unwrap_or(usize::MAX);
        let mut rest = &bytes[..bytes.len().min(room)];
        while !rest.is_empty() {
            match self.file.write_at(rest, self.written) {
                Ok(0) => return,
                Ok(count) => {
                    self.written += count as u64;
                    rest = &rest[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

/// Creates a file in the folder that disappears when it is closed everywhere.
fn create(folder: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(MODE);
    match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        // Not every file system has files without a name. An old kernel takes the flags for those of a folder.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
            create_and_unlink(options.create_new(true), folder)
        }
        created => created,
    }
}

fn create_and_unlink(options: &fs::OpenOptions, folder: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".output-{}-{number}", std::process::id()));
    // Left by an owner that was killed between the two calls below and had the same process id.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = options.open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn an_overflow_file_is_private_and_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let check = |file: File| {
            file.write_all_at(b"text", 0).unwrap();
            let metadata = file.metadata().unwrap();
            assert_eq!(
                (metadata.nlink(), metadata.mode() & 0o777, metadata.len()),
                (0, MODE, 4)
            );
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        };
        check(create(folder.path()).unwrap());
        let mut options = File::options();
        options.read(true).write(true).mode(MODE).create_new(true);
        check(create_and_unlink(&options, folder.path()).unwrap());
        create(&folder.path().join("missing")).unwrap_err();
    }
}
