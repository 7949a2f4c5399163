//! Writes a zip whose files are stored without compression.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use model::{KeptFile, UnixTime};
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::{ArchiveError, ArchiveWriter};

/// Files of this size need 64-bit sizes in a zip.
const ZIP64_SIZE: u64 = u32::MAX as u64;

/// Writes a zip of a task's kept files as a stream: the sizes and checksums of each file follow its content.
pub(super) struct ZipStreamWriter {
    zip: ZipWriter<StreamWriter<SharedBuffer>>,
    written: SharedBuffer,
    time: DateTime,
}

/// The bytes that the zip library has written and that are not sent yet: a header, or a part of a file. So no thread has
/// to wait for a slow client.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl SharedBuffer {
    fn take(&self) -> Bytes {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *bytes).into()
    }
}

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl ZipStreamWriter {
    /// `time` is that of each file.
    pub(super) fn new(time: UnixTime) -> ZipStreamWriter {
        let written = SharedBuffer::default();
        ZipStreamWriter {
            zip: ZipWriter::new_stream(written.clone()),
            written,
            time: zip_time(time).unwrap_or_default(),
        }
    }
}

/// A zip has no time zone; this is UTC. `None` before 1980 and after 2107.
fn zip_time(time: UnixTime) -> Option<DateTime> {
    let text = api::format_time(time);
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse::<u16>().ok());
    let mut next = || numbers.next().flatten();
    let year = next()?;
    let mut small = || u8::try_from(next()?).ok();
    DateTime::from_date_and_time(year, small()?, small()?, small()?, small()?, small()?).ok()
}

impl ArchiveWriter for ZipStreamWriter {
    fn begin_file(&mut self, file: &KeptFile) -> Result<Bytes, ArchiveError> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .unix_permissions(super::mode(file))
            .last_modified_time(self.time)
            .large_file(file.size >= ZIP64_SIZE);
        self.zip.start_file(file.path.as_str(), options)?;
        Ok(self.written.take())
    }

    fn write(&mut self, content: Bytes) -> Result<Bytes, ArchiveError> {
        self.zip.write_all(&content)?;
        Ok(self.written.take())
    }

    /// The library writes the sizes when it begins the next file or finishes.
    fn end_file(&mut self) -> Result<Bytes, ArchiveError> {
        Ok(Bytes::new())
    }

    fn finish(&mut self) -> Result<Bytes, ArchiveError> {
        let zip = std::mem::replace(&mut self.zip, ZipWriter::new_stream(SharedBuffer::default()));
        zip.finish()?;
        Ok(self.written.take())
    }
}
