//! Writes a tar.

use bytes::Bytes;
use model::{KeptFile, UnixTime};
use tar::{Builder, EntryType, Header};

use super::{ArchiveError, ArchiveWriter};

const BLOCK: u64 = 512;

/// Writes a tar of a task's kept files. The library writes the headers, which have the size of each file.
pub(super) struct TarWriter {
    /// In seconds, for each file.
    time: u64,
    /// The size of the current file.
    size: u64,
}

impl TarWriter {
    pub(super) fn new(time: UnixTime) -> TarWriter {
        let time = u64::try_from(time.0 / 1_000_000).unwrap_or(0);
        TarWriter { time, size: 0 }
    }
}

impl ArchiveWriter for TarWriter {
    fn begin_file(&mut self, file: &KeptFile) -> Result<Bytes, ArchiveError> {
        self.size = file.size;
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(file.size);
        header.set_mode(super::mode(file));
        header.set_mtime(self.time);
        let mut headers = Builder::new(Vec::new());
        // Without the content, which follows. A long path has a header of its own before this one.
        headers.append_data(&mut header, file.path.as_str(), std::io::empty())?;
        // Not `into_inner`, which would write the end of the archive.
        Ok(std::mem::take(headers.get_mut()).into())
    }

    fn write(&mut self, content: Bytes) -> Result<Bytes, ArchiveError> {
        Ok(content)
    }

    /// Fills the last block.
    fn end_file(&mut self) -> Result<Bytes, ArchiveError> {
        const ZEROS: &[u8] = &[0; BLOCK as usize];
        let rest = (self.size.next_multiple_of(BLOCK) - self.size) as usize;
        Ok(Bytes::from_static(&ZEROS[..rest]))
    }

    /// Two blocks of zeros.
    fn finish(&mut self) -> Result<Bytes, ArchiveError> {
        Ok(Bytes::from_static(&[0; 2 * BLOCK as usize]))
    }
}
