//! One blob on its way into a file of the store's folder for incoming blobs.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use model::{BlobHash, BlobHasher};
use rpc::CallError;

use super::incoming_file::{self, IncomingFile, write_error};
use super::{UploadClaim, in_thread};

const READ_BUFFER: usize = 256 << 10;

/// The file of a blob that a judicator is receiving, and the hash of the bytes so far.
///
/// It is moved into the thread that writes, and back. So if the call ends meanwhile, no other upload of the blob begins before
/// the bytes are written.
pub(crate) struct BlobReception {
    hash: BlobHash,
    file: File,
    hasher: BlobHasher,
    size: u64,
    continued: bool,
    target: ReceptionTarget,
}

/// Where a judicator writes the bytes of a blob that it receives.
enum ReceptionTarget {
    /// Kept if the upload is interrupted.
    Partial { path: PathBuf, claim: UploadClaim },
    /// Removed if the upload is interrupted: another upload of the same blob is under way, or has left more bytes.
    Temporary(IncomingFile),
}

impl BlobReception {
    /// An upload from the beginning does not destroy what another one has left: that may be an hour's work.
    pub(super) fn open_partial(
        hash: BlobHash,
        offset: u64,
        path: PathBuf,
        mut claim: UploadClaim,
    ) -> Result<BlobReception, CallError> {
        let failed = |error| write_error(&path, error);
        let options = File::options().read(true).write(true).create(true).clone();
        let mut file = options.open(&path).map_err(failed)?;
        let kept = file.metadata().map_err(failed)?.len();
        let mut hasher = BlobHasher::default();
        match offset {
            0 if kept > 0 => {
                let folder = path.parent().unwrap_or(Path::new("."));
                return BlobReception::open_temporary(hash, 0, folder);
            }
            0 => {}
            _ if offset != kept => {
                if kept == 0 {
                    incoming_file::remove(&path);
                    claim.leaves_file = false;
                }
                return Err(wrong_offset(offset, kept));
            }
            _ => hash_whole(&mut file, &mut hasher).map_err(failed)?,
        }
        claim.upload.on_progress();
        Ok(BlobReception {
            hash,
            file,
            hasher,
            size: offset,
            continued: offset > 0,
            target: ReceptionTarget::Partial { path, claim },
        })
    }

    pub(super) fn open_temporary(
        hash: BlobHash,
        offset: u64,
        folder: &Path,
    ) -> Result<BlobReception, CallError> {
        if offset > 0 {
            return Err(wrong_offset(offset, 0));
        }
        let incoming = IncomingFile::unique(folder);
        let created = File::create_new(incoming.path());
        Ok(BlobReception {
            hash,
            file: created.map_err(|error| write_error(incoming.path(), error))?,
            hasher: BlobHasher::default(),
            size: 0,
            continued: false,
            target: ReceptionTarget::Temporary(incoming),
        })
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Waits until another caller wants to continue this upload, which makes no progress.
    pub(crate) async fn yields(&self) {
        match &self.target {
            ReceptionTarget::Partial { claim, .. } => claim.upload.yields.cancelled().await,
            ReceptionTarget::Temporary(_) => std::future::pending().await,
        }
    }

    pub(crate) async fn write(mut self, bytes: Bytes) -> Result<BlobReception, CallError> {
        in_thread(move || match self.file.write_all(&bytes) {
            Ok(()) => {
                self.hasher.update(&bytes);
                self.size += bytes.len() as u64;
                if let ReceptionTarget::Partial { claim, .. } = &self.target {
                    claim.upload.on_progress();
                }
                Ok(self)
            }
            Err(error) => {
                let error = write_error(self.path(), error);
                if matches!(error, CallError::Full(_)) {
                    self.discard();
                }
                Err(error)
            }
        })
        .await?
    }

    /// Returns the complete file, and the claim to keep until the store has it. Refuses it if the hash is wrong.
    pub(crate) fn finish(self, folder: &Path) -> Result<CompleteBlob, CallError> {
        let actual = self.hasher.clone().finish();
        if actual != self.hash {
            let (named, continued) = (self.hash, self.continued);
            self.discard();
            return Err(match continued {
                // The part that was kept may be wrong, after a power failure for example.
                true => CallError::Busy(format!(
                    "what was kept of the interrupted upload of blob {named} was damaged and is removed"
                )),
                false => CallError::WrongHash { named, actual },
            });
        }
        match self.target {
            ReceptionTarget::Temporary(file) => Ok(CompleteBlob { file, partial: None }),
            ReceptionTarget::Partial { path, mut claim } => {
                // Under its own name the file cannot be continued any more, whatever the store does with it.
                let file = IncomingFile::unique(folder);
                fs::rename(&path, file.path()).map_err(|error| write_error(&path, error))?;
                claim.leaves_file = false;
                Ok(CompleteBlob {
                    file,
                    partial: Some((path, claim)),
                })
            }
        }
    }

    /// Removes what was received.
    pub(crate) fn discard(self) {
        match self.target {
            ReceptionTarget::Partial { path, mut claim } => {
                incoming_file::remove(&path);
                claim.leaves_file = false;
            }
            ReceptionTarget::Temporary(file) => drop(file),
        }
    }

    fn path(&self) -> &Path {
        match &self.target {
            ReceptionTarget::Partial { path, .. } => path,
            ReceptionTarget::Temporary(file) => file.path(),
        }
    }
}

/// A blob that a judicator has received and verified, ready for the store.
pub(crate) struct CompleteBlob {
    pub(crate) file: IncomingFile,
    partial: Option<(PathBuf, UploadClaim)>,
}

impl CompleteBlob {
    /// Whether another upload of the blob may have left bytes, which nobody needs when the store has the blob.
    pub(crate) fn is_temporary(&self) -> bool {
        self.partial.is_none()
    }

    /// The store could not take the blob now. The caller may repeat the upload without sending the bytes again.
    pub(crate) fn keep(self) {
        let Some((path, mut claim)) = self.partial else {
            return;
        };
        claim.leaves_file = true;
        if let Err(error) = fs::rename(self.file.path(), &path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "could not keep an uploaded blob");
        }
    }
}

/// Another upload of the blob has begun or ended since the caller asked. Asking again helps.
fn wrong_offset(offset: u64, kept: u64) -> CallError {
    CallError::Busy(format!(
        "the upload of a blob cannot be continued at {offset}; {kept} bytes of it are kept here"
    ))
}

fn hash_whole(file: &mut File, hasher: &mut BlobHasher) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    let mut buffer = vec![0; READ_BUFFER];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            length => hasher.update(&buffer[..length]),
        }
    }
}
