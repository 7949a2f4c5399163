//! Bounds on what an archive may take: bytes, members, headers, and space on the disk.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::rc::Rc;

use nix::sys::statvfs::fstatvfs;
use thiserror::Error;

use super::error::MemberProblem;
use crate::InterruptFlag;

/// Bounds on an archive that becomes a root, so that a small file cannot fill the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Largest size of the unpacked archive, all layers of an image together, with 4 KiB more for each member.
    pub max_size: u64,
    /// Largest number of members and of the folders that they are in, all layers of an image together.
    pub max_entries: u64,
    /// Space that must stay free on the disk.
    pub min_free: u64,
}

/// A bound on what is read from an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReadLimit {
    #[error("the unpacked archive is larger than {0} bytes; allow more with --max-size")]
    Total(u64),
    #[error("the headers of a member are larger than {} bytes", MAX_HEADER_BYTES)]
    Headers,
}

/// Counts and bounds what is read from all layers of an image together.
pub(crate) struct ReadMeter {
    remaining: Cell<u64>,
    max_total: u64,
    /// Set while headers are read. The tar library keeps them in memory, whatever size they claim to have.
    remaining_headers: Cell<Option<u64>>,
    /// What was read since [`ReadMeter::begin_headers`].
    header_bytes: RefCell<Vec<u8>>,
    /// In the archive in progress.
    position: Cell<u64>,
    exceeded: Cell<Option<ReadLimit>>,
    has_ended: Cell<bool>,
    interrupt: InterruptFlag,
}

/// The input of an archive, which a [`ReadMeter`] counts and bounds.
pub(crate) struct MeteredReader<R> {
    inner: R,
    meter: Rc<ReadMeter>,
}

/// Writes the listing of a root within the bounds of a [`SizeLimit`].
pub(crate) struct LimitedWriter<W> {
    inner: W,
    limit: SizeLimit,
}

/// Bounds what is written for a root: by the operator's limit, and by the free space of the disk.
pub(crate) struct SizeLimit {
    remaining: u64,
    max_size: u64,
    min_free: u64,
    disk: File,
    /// Bytes that may be written before the free space is read again.
    until_check: u64,
}

/// A path has at most 4096 bytes, and extended attributes 64 KiB.
const MAX_HEADER_BYTES: u64 = 1 << 20;
/// Of a tar archive.
const BLOCK: u64 = 512;
const FREE_SPACE_INTERVAL: u64 = 32 << 20;
/// What a file, folder or link takes on a usual disk, beside its content.
const ENTRY_BYTES: u64 = 4096;

impl Default for UnpackLimits {
    fn default() -> UnpackLimits {
        UnpackLimits {
            max_size: 16 << 30,
            max_entries: 2_000_000,
            min_free: 512 << 20,
        }
    }
}

impl ReadMeter {
    pub(crate) fn new(max_total: u64, interrupt: InterruptFlag) -> ReadMeter {
        ReadMeter {
            remaining: Cell::new(max_total),
            max_total,
            remaining_headers: Cell::new(None),
            header_bytes: RefCell::new(Vec::new()),
            position: Cell::new(0),
            exceeded: Cell::new(None),
            has_ended: Cell::new(false),
            interrupt,
        }
    }

    pub(super) fn begin_archive(&self) {
        self.position.set(0);
    }

    /// Begins to read the headers of a member. What belongs to the member before has been read.
    pub(crate) fn begin_headers(&self) {
        self.remaining_headers.set(Some(MAX_HEADER_BYTES));
        self.header_bytes.borrow_mut().clear();
        self.has_ended.set(false);
    }

    pub(crate) fn end_headers(&self) {
        self.remaining_headers.set(None);
    }

    /// The blocks that were read for the headers of a member, without what fills the last block of the member before.
    pub(super) fn header_blocks(&self) -> Vec<u8> {
        let bytes = self.header_bytes.borrow();
        let start = self.position.get().saturating_sub(bytes.len() as u64);
        let padding = usize::try_from(start.next_multiple_of(BLOCK) - start).unwrap_or(0);
        bytes.get(padding..).unwrap_or_default().to_vec()
    }

    /// Whether the input ended since [`ReadMeter::begin_headers`].
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    pub(super) fn exceeded(&self) -> Option<ReadLimit> {
        self.exceeded.get()
    }

    /// For work that reads nothing, such as writing a hole of a sparse file.
    pub(super) fn check_interrupt(&self) -> io::Result<()> {
        self.interrupt.check()
    }

    fn count(&self, bytes: &[u8]) -> io::Result<()> {
        self.interrupt.check()?;
        let length = bytes.len() as u64;
        self.position.set(self.position.get() + length);
        let subtract = |counter: u64, limit| {
            counter.checked_sub(length).ok_or_else(|| {
                self.exceeded.set(Some(limit));
                io::Error::other(limit)
            })
        };
        let total = subtract(self.remaining.get(), ReadLimit::Total(self.max_total))?;
        self.remaining.set(total);
        if let Some(headers) = self.remaining_headers.get() {
            self.remaining_headers
                .set(Some(subtract(headers, ReadLimit::Headers)?));
            self.header_bytes.borrow_mut().extend(bytes);
        }
        Ok(())
    }
}

impl<R> MeteredReader<R> {
    pub(crate) fn new(inner: R, meter: Rc<ReadMeter>) -> MeteredReader<R> {
        MeteredReader { inner, meter }
    }
}

impl<R: Read> Read for MeteredReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        if length == 0 && !buffer.is_empty() {
            self.meter.has_ended.set(true);
        }
        self.meter.count(&buffer[..length])?;
        Ok(length)
    }
}

impl<R: Seek> Seek for MeteredReader<R> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.inner.seek(position)
    }
}

impl SizeLimit {
    pub(crate) fn new(folder: &File, limits: UnpackLimits) -> io::Result<SizeLimit> {
        Ok(SizeLimit {
            remaining: limits.max_size,
            max_size: limits.max_size,
            min_free: limits.min_free,
            disk: folder.try_clone()?,
            until_check: 0,
        })
    }

    /// Counts files, folders or links before they are created.
    pub(super) fn take_entries(&mut self, number: u64) -> Result<(), MemberProblem> {
        self.take(number.saturating_mul(ENTRY_BYTES))
    }

    /// Counts bytes that are read and not written.
    pub(super) fn take_skipped(&mut self, length: u64) -> Result<(), MemberProblem> {
        self.check(length)?;
        self.remaining -= length;
        Ok(())
    }

    /// Refuses a file of this size if it does not fit.
    pub(super) fn check(&self, size: u64) -> Result<(), MemberProblem> {
        match size > self.remaining {
            true => Err(MemberProblem::TooLarge { limit: self.max_size }),
            false => Ok(()),
        }
    }

    /// Counts bytes before they are written.
    pub(crate) fn take(&mut self, length: u64) -> Result<(), MemberProblem> {
        self.take_skipped(length)?;
        match self.until_check.checked_sub(length) {
            Some(left) => self.until_check = left,
            None => {
                self.check_free_space(length)?;
                self.until_check = FREE_SPACE_INTERVAL;
            }
        }
        Ok(())
    }

    /// Others write to the disk too, so its free space is read again from time to time.
    fn check_free_space(&self, needed: u64) -> Result<(), MemberProblem> {
        let disk = fstatvfs(self.disk.as_fd()).map_err(|error| MemberProblem::Write(error.into()))?;
        let fragment = disk.fragment_size();
        // On a small disk a fixed reserve would leave nothing.
        let reserve = self.min_free.min(disk.blocks().saturating_mul(fragment) / 20);
        let free = disk.blocks_available().saturating_mul(fragment);
        let free = free.saturating_sub(reserve);
        match needed > free {
            true => Err(MemberProblem::DiskFull {
                needed,
                free,
                reserve,
            }),
            false => Ok(()),
        }
    }
}

impl<W> LimitedWriter<W> {
    pub(crate) fn new(inner: W, limit: SizeLimit) -> LimitedWriter<W> {
        LimitedWriter { inner, limit }
    }
}

impl<W: Write> Write for LimitedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit.take(bytes.len() as u64).map_err(io::Error::other)?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
