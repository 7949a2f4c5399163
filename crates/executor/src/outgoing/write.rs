//! Adds files to the outgoing folder.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::{BlobHash, BlobHasher};
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::linkat;

use super::{OutgoingBlob, OutgoingFiles, OutgoingFolder, OutgoingRoom};
use crate::attempt_control::AttemptRevoked;

/// How much of a file is read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Why a file was not added to the outgoing folder.
#[derive(Debug)]
pub(crate) enum AddFileError {
    /// The file could not be read, or the disk of the outgoing folder could not take it.
    Io(io::Error),
    Revoked(AttemptRevoked),
}

/// A file that was added to the outgoing folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddedFile {
    pub(crate) hash: BlobHash,
    pub(crate) size: u64,
}

/// A file of the outgoing folder under a temporary name. Dropping it removes the file.
struct TemporaryFile {
    /// `None` once it has its final name.
    path: Option<PathBuf>,
}

/// Copies files into the outgoing folder, with one buffer for all of them.
pub(crate) struct FileCopier<'a> {
    buffer: Vec<u8>,
    /// Called for each part of a file. An error means that the attempt was revoked.
    progress: &'a dyn Fn() -> Result<(), AttemptRevoked>,
}

impl<'a> FileCopier<'a> {
    pub(crate) fn new(progress: &'a dyn Fn() -> Result<(), AttemptRevoked>) -> FileCopier<'a> {
        FileCopier {
            buffer: Vec::new(),
            progress,
        }
    }

    /// Copies the file, as far as there is room, and adds a reference to `files`. It may be shorter than the room.
    pub(crate) fn copy(
        &mut self,
        room: OutgoingRoom<'_>,
        source: &File,
        files: &mut OutgoingFiles,
    ) -> Result<AddedFile, AddFileError> {
        let (temporary, mut out) = room.folder.create_temporary()?;
        let added = self.read(source, room.bytes, |piece| out.write_all(piece))?;
        drop(out);
        room.give_name(temporary, added, files)?;
        Ok(added)
    }

    /// Adds a file that nobody writes to any more and that has no name, without copying it if the file system allows that.
    pub(crate) fn link(
        &mut self,
        room: OutgoingRoom<'_>,
        source: &File,
        files: &mut OutgoingFiles,
    ) -> Result<AddedFile, AddFileError> {
        // A failed write may have left more bytes than were captured.
        if source.metadata()?.len() > room.bytes {
            source.set_len(room.bytes)?;
        }
        let path = room.folder.temporary_path();
        if link_unnamed(source, &path).is_err() {
            return self.copy(room, source, files);
        }
        let temporary = TemporaryFile { path: Some(path) };
        let added = self.read(source, room.bytes, |_| Ok(()))?;
        room.give_name(temporary, added, files)?;
        Ok(added)
    }

    /// Reads up to `limit` bytes from the start of the file.
    fn read(
        &mut self,
        source: &File,
        limit: u64,
        mut on_piece: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<AddedFile, AddFileError> {
        let wanted = usize::try_from(limit).map_or(CHUNK_BYTES, |limit| limit.min(CHUNK_BYTES));
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        let mut hasher = BlobHasher::default();
        let mut size = 0;
        while size < limit {
            (self.progress)().map_err(AddFileError::Revoked)?;
            let wanted = usize::try_from(limit - size).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
            let count = match source.read_at(&mut self.buffer[..wanted], size) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if count == 0 {
                break;
            }
            hasher.update(&self.buffer[..count]);
            on_piece(&self.buffer[..count])?;
            size += count as u64;
        }
        Ok(AddedFile {
            hash: hasher.finish(),
            size,
        })
    }
}

impl OutgoingFolder {
    /// Only this user may read the output of tasks.
    fn create_temporary(&self) -> io::Result<(TemporaryFile, File)> {
        let path = self.temporary_path();
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok((TemporaryFile { path: Some(path) }, file))
    }

    /// Adds bytes that are in memory, without a wait for room: they come from an earlier process, which had them on disk.
    pub(crate) fn add_bytes(&self, bytes: &[u8], files: &mut OutgoingFiles) -> io::Result<BlobHash> {
        let size = bytes.len() as u64;
        self.table().bytes += size;
        let room = OutgoingRoom {
            folder: self,
            bytes: size,
        };
        room.fill(bytes, files)
    }
}

impl OutgoingRoom<'_> {
    /// Adds a file with bytes that are in memory.
    pub(crate) fn fill(self, bytes: &[u8], files: &mut OutgoingFiles) -> io::Result<BlobHash> {
        let (temporary, mut out) = self.folder.create_temporary()?;
        out.write_all(bytes)?;
        let (hash, size) = (BlobHash::of(bytes), bytes.len() as u64);
        self.give_name(temporary, AddedFile { hash, size }, files)?;
        Ok(hash)
    }

    /// Renames the file to its hash, unless the folder has that already, and adds a reference to it.
    fn give_name(
        mut self,
        mut temporary: TemporaryFile,
        AddedFile { hash, size }: AddedFile,
        files: &mut OutgoingFiles,
    ) -> io::Result<()> {
        let _files = self.folder.files();
        let known = self.folder.table().blobs.get(&hash).copied();
        // A file of an earlier process may be damaged, so it is replaced.
        let is_kept = known.is_some_and(|known| known.is_verified);
        if !is_kept {
            temporary.rename(&self.folder.path(&hash))?;
        }
        let mut table = self.folder.table();
        let blob = table.blobs.entry(hash).or_insert(OutgoingBlob {
            size,
            references: 0,
            is_verified: true,
        });
        (blob.size, blob.is_verified) = (size, true);
        if files.hashes.insert(hash) {
            blob.references += 1;
        }
        // The file takes its part of the room, and dropping `self` releases the rest.
        if !is_kept {
            self.bytes = self.bytes.saturating_sub(size);
            table.bytes = table.bytes.saturating_sub(known.map_or(0, |known| known.size));
        }
        Ok(())
    }
}

impl From<io::Error> for AddFileError {
    fn from(error: io::Error) -> AddFileError {
        AddFileError::Io(error)
    }
}

impl TemporaryFile {
    fn rename(&mut self, to: &Path) -> io::Result<()> {
        if let Some(path) = &self.path {
            fs::rename(path, to)?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // If this fails, the next process removes the file.
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// Gives a name to a file that was created without one. Fails on file systems without such files.
fn link_unnamed(file: &File, path: &Path) -> nix::Result<()> {
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(
        AT_FDCWD,
        source.as_str(),
        AT_FDCWD,
        path,
        AtFlags::AT_SYMLINK_FOLLOW,
    )
}
