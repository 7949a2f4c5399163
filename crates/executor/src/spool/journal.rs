//! The journal file that keeps results across a restart.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::CompletedAttempt;

use super::record;

/// Where the spool's writer thread stores the results of completed attempts. It is a [`JournalFile`], or in tests a
/// fake that hangs or fails.
pub(super) trait Journal: Send + 'static {
    fn length(&self) -> u64;
    fn append(&mut self, results: &[CompletedAttempt]) -> io::Result<()>;
    /// Replaces the content.
    fn rewrite(&mut self, results: &[CompletedAttempt]) -> io::Result<()>;
}

/// The spool's journal on disk, from which the next executor process reads the results: a sequence of records.
pub(super) struct JournalFile {
    path: PathBuf,
    file: File,
    length: u64,
}

impl JournalFile {
    /// Opens the file and reads its results.
    pub(super) fn open(path: &Path) -> io::Result<(JournalFile, Vec<CompletedAttempt>)> {
        let mut file = open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut found = Vec::new();
        let mut rest = &bytes[..];
        // Only the last record can be cut off by a crash; its result was never acknowledged.
        while let Some((complete, after)) = record::decode(rest) {
            found.push(complete);
            rest = after;
        }
        let journal = JournalFile {
            path: path.to_path_buf(),
            file,
            length: bytes.len() as u64,
        };
        Ok((journal, found))
    }

    fn truncate_to(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.length = length;
        Ok(())
    }
}

impl Journal for JournalFile {
    fn length(&self) -> u64 {
        self.length
    }

    fn append(&mut self, results: &[CompletedAttempt]) -> io::Result<()> {
        for complete in results {
            let record = record::encode(complete);
            // At the known length, so that a partial record of a failed write is overwritten even if it cannot be truncated.
            if let Err(error) = self.file.write_all_at(&record, self.length) {
                let _ = self.truncate_to(self.length);
                return Err(error);
            }
            self.length += record.len() as u64;
        }
        Ok(())
    }

    /// Writes a new file and renames it over the old one, so that no crash loses a result.
    fn rewrite(&mut self, results: &[CompletedAttempt]) -> io::Result<()> {
        if results.is_empty() {
            return self.truncate_to(0);
        }
        let new = self.path.with_extension("new");
        let mut file = open(&new)?;
        file.set_len(0)?;
        let mut length = 0;
        for complete in results {
            let record = record::encode(complete);
            file.write_all(&record)?;
            length += record.len() as u64;
        }
        fs::rename(new, &self.path)?;
        self.file = file;
        self.length = length;
        Ok(())
    }
}

/// Only this user may read the output of tasks.
fn open(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use model::{AttemptEnd, AttemptId, AttemptNumber, SessionId, TaskForm, TaskId};

    use super::*;

    #[test]
    fn a_partial_record_that_cannot_be_truncated_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let complete = |why: &str| CompletedAttempt {
            attempt_id: AttemptId {
                task: TaskId(uuid::Uuid::now_v7()),
                session: SessionId(uuid::Uuid::now_v7()),
                attempt: AttemptNumber(1),
            },
            form: TaskForm::CURRENT,
            end: AttemptEnd::Broken(why.into()),
        };
        let kept = ["first", "second", "third"].map(complete);
        let (mut journal, _) = JournalFile::open(&path).unwrap();
        journal.append(&kept[..1]).unwrap();
        let cut_short = record::encode(&complete(&"long ".repeat(100)));
        journal.file.seek(io::SeekFrom::End(0)).unwrap();
        journal.file.write_all(&cut_short[..cut_short.len() - 1]).unwrap();
        journal.append(&kept[1..2]).unwrap();
        journal.append(&kept[2..]).unwrap();
        let (_, found) = JournalFile::open(&path).unwrap();
        assert_eq!(found, kept);
    }
}
