//! Keeps the files of a workspace that match a task's patterns, when its execute step has ended.
//!
//! All processes of the task have exited, but everything that they left is untrusted: links, pipes and devices with the names
//! of results, files without an end, names that are no text, millions of entries. So every path is opened beneath the
//! workspace without following links, only regular files are read, and the walk is bounded. What the executor may not open
//! itself, its warden opens.

mod beneath;
mod find;

use std::io;
use std::sync::Arc;

use model::{FilesLeftOut, KeepPattern, KeptFile, LeftOutReason, WorkspacePath};
use nix::errno::Errno;
use nix::sys::stat::{SFlag, fstat};
use sandbox::{OpenPurpose, WardenError};
use thiserror::Error;

pub(crate) use self::beneath::WorkspaceFolder;
use self::find::{FileFinder, MatchingFiles};
use crate::attempt_control::AttemptRevoked;
use crate::outgoing::{AddFileError, FileCopier, OutgoingFiles, OutgoingFolder};

/// How many bytes the list of kept files may have in a report.
const MAX_LIST_BYTES: usize = 512 << 10;
/// About how many bytes a file has in that list, besides its path.
pub(crate) const LISTED_FILE_BYTES: usize = 64;

/// What an executor keeps of a task's files at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeepLimits {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    /// How many entries of folders are looked at.
    pub(crate) entries: usize,
}

/// The part of a slot that keeps the files of one task.
pub(crate) struct FileCollector<'a> {
    pub(crate) patterns: &'a [KeepPattern],
    pub(crate) limits: KeepLimits,
    pub(crate) outgoing: &'a Arc<OutgoingFolder>,
    /// Called for each entry and for each part of a file. An error means that the attempt was revoked.
    pub(crate) progress: &'a dyn Fn() -> Result<(), AttemptRevoked>,
}

/// Why a slot stopped keeping the files of a task. What cannot be kept is no error: it is left out.
#[derive(Debug, Error)]
pub(crate) enum CollectError {
    #[error(transparent)]
    Revoked(#[from] AttemptRevoked),
    #[error(transparent)]
    Warden(#[from] WardenError),
}

/// The files of a task that were kept, and those that were not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CollectedFiles {
    pub(crate) files: Vec<KeptFile>,
    pub(crate) left_out: FilesLeftOut,
}

/// Counts the files that are left out. The reason that it reports is that of the first one in the order of paths, so that
/// it does not depend on the order of a folder's entries.
#[derive(Default)]
struct LeftOutFiles {
    count: u64,
    bytes: u64,
    first: Option<(Vec<u8>, LeftOutReason)>,
}

/// What became of one file that matches.
enum FileEnd {
    Kept(KeptFile),
    LeftOut(u64, LeftOutReason),
    /// The executor cannot open it: it has no descriptor left, or without a cell the task has removed the permission to read it.
    Unreadable,
    /// It does not exist any more.
    Vanished,
}

impl FileCollector<'_> {
    /// Copies the matching files of the folder into the outgoing folder, in the order of their paths, as far as the limits
    /// allow. What cannot be kept never fails the attempt.
    pub(crate) fn collect(
        &self,
        folder: io::Result<WorkspaceFolder<'_>>,
        files: &mut OutgoingFiles,
    ) -> Result<CollectedFiles, CollectError> {
        let mut folder = match folder {
            Ok(folder) => folder,
            Err(error) => {
                let mut left_out = LeftOutFiles::default();
                if !is_workspace_gone(&error) {
                    tracing::warn!(%error, "could not open a workspace; its files are not kept");
                    left_out.add_unknown(LeftOutReason::NoSpace);
                }
                return Ok(CollectedFiles {
                    files: Vec::new(),
                    left_out: left_out.into_counts(),
                });
            }
        };
        let finder = FileFinder {
            folder: &mut folder,
            patterns: self.patterns,
            limits: self.limits,
            progress: self.progress,
        };
        let MatchingFiles {
            files: found,
            mut left_out,
        } = finder.find()?;
        let mut copier = FileCopier::new(self.progress);
        let mut kept = Vec::new();
        let mut bytes_left = self.limits.bytes;
        let mut list_bytes_left = MAX_LIST_BYTES;
        for (path, size) in found {
            let listed = path.as_str().len() + LISTED_FILE_BYTES;
            if listed > list_bytes_left {
                left_out.add(path.as_str().as_bytes(), size, LeftOutReason::TooMany);
                continue;
            }
            let name = path.as_str().as_bytes().to_vec();
            match self.keep(&mut folder, path, bytes_left, &mut copier, files)? {
                FileEnd::Kept(file) => {
                    bytes_left = bytes_left.saturating_sub(file.size);
                    list_bytes_left -= listed;
                    kept.push(file);
                }
                FileEnd::LeftOut(size, why) => left_out.add(&name, size, why),
                FileEnd::Unreadable => left_out.add(&name, size, LeftOutReason::NoSpace),
                FileEnd::Vanished => {}
            }
        }
        Ok(CollectedFiles {
            files: kept,
            left_out: left_out.into_counts(),
        })
    }

    fn keep(
        &self,
        folder: &mut WorkspaceFolder<'_>,
        path: WorkspacePath,
        bytes_left: u64,
        copier: &mut FileCopier<'_>,
        files: &mut OutgoingFiles,
    ) -> Result<FileEnd, CollectError> {
        let left_out = |size, why| Ok(FileEnd::LeftOut(size, why));
        let file = match folder.open(path.as_str().as_bytes(), OpenPurpose::Content)? {
            Ok(file) => file,
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(FileEnd::Vanished),
            Err(Errno::ELOOP | Errno::ENXIO | Errno::EXDEV) => return left_out(0, LeftOutReason::NotRegular),
            Err(_) => return Ok(FileEnd::Unreadable),
        };
        let Ok(status) = fstat(&file) else {
            return Ok(FileEnd::Unreadable);
        };
        if SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
            return left_out(0, LeftOutReason::NotRegular);
        }
        let size = u64::try_from(status.st_size).unwrap_or(0);
        if size > bytes_left {
            return left_out(size, LeftOutReason::TooLarge);
        }
        let Ok(room) = self.outgoing.reserve(size, files, self.progress)? else {
            return left_out(size, LeftOutReason::NoSpace);
        };
        match copier.copy(room, &file, files) {
            Ok(added) => Ok(FileEnd::Kept(KeptFile {
                path,
                size: added.size,
                blob: added.hash,
                executable: status.st_mode & 0o100 != 0,
            })),
            Err(AddFileError::Revoked(revoked)) => Err(revoked.into()),
            Err(AddFileError::Io(error)) => {
                tracing::debug!(%path, %error, "could not keep a file");
                left_out(size, LeftOutReason::NoSpace)
            }
        }
    }
}

impl LeftOutFiles {
    fn add(&mut self, path: &[u8], bytes: u64, why: LeftOutReason) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let is_first = self
            .first
            .as_ref()
            .is_none_or(|(first, _)| path < first.as_slice());
        if is_first {
            self.first = Some((path.to_vec(), why));
        }
    }

    /// Some entries were not looked at, so it is not known how many match. The empty path makes this the reason.
    fn add_unknown(&mut self, why: LeftOutReason) {
        self.add(b"", 0, why);
    }

    fn into_counts(self) -> FilesLeftOut {
        FilesLeftOut {
            count: self.count,
            bytes: self.bytes,
            why: self.first.map(|(_, why)| why),
        }
    }
}

/// Whether the task has removed or replaced its workspace, so that nothing can match.
pub(crate) fn is_workspace_gone(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP))
}

#[cfg(test)]
mod tests;
