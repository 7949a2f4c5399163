//! The file that holds results over a restart.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::Complete;

use super::record;

/// What the writer writes to. A test puts a disk that hangs in its place.
pub(super) trait Journal: Send + 'static {
    fn length(&self) -> u64;
    fn append(&mut self, results: &[Complete]) -> io::Result<()>;
    /// Only these are in it then.
    fn rewrite(&mut self, results: &[Complete]) -> io::Result<()>;
}

pub(super) struct JournalFile {
    path: PathBuf,
    file: File,
    length: u64,
}

impl JournalFile {
    /// With the results that are in it.
    pub(super) fn open(path: &Path) -> io::Result<(JournalFile, Vec<Complete>)> {
        let mut file = open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut found = Vec::new();
        let mut rest = &bytes[..];
        // A record that was cut off by a crash is the last: its task was never said to be complete.
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

    fn cut_off(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.length = length;
        Ok(())
    }
}

impl Journal for JournalFile {
    fn length(&self) -> u64 {
        self.length
    }

    fn append(&mut self, results: &[Complete]) -> io::Result<()> {
        for complete in results {
            let record = record::encode(complete);
            // At the known length, so that half a record whose write failed hides none after it, even if it cannot be cut off.
            if let Err(error) = self.file.write_all_at(&record, self.length) {
                let _ = self.cut_off(self.length);
                return Err(error);
            }
            self.length += record.len() as u64;
        }
        Ok(())
    }

    /// Into a new file that then takes the old one's place: at no moment is a result in neither.
    fn rewrite(&mut self, results: &[Complete]) -> io::Result<()> {
        if results.is_empty() {
            return self.cut_off(0);
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

/// What tasks wrote is nobody else's business.
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

    use model::{Attempt, End, Handout, SessionId, TaskId};

    use super::*;

    #[test]
    fn half_a_record_that_cannot_be_cut_off_hides_none_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let complete = |why: &str| Complete {
            handout: Handout {
                task: TaskId::generate(),
                session: SessionId::generate(),
                attempt: Attempt(1),
            },
            end: End::Broken(why.into()),
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
