//! The file that holds results over a restart.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
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
        self.file.seek(io::SeekFrom::Start(length))?;
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
            if let Err(error) = self.file.write_all(&record) {
                // Half a record would hide those after it.
                self.cut_off(self.length)?;
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
