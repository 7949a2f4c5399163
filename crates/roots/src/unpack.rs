//! Unpacks tar archives, and the layers of an image, into the folder of a root that is being made.
//!
//! Nothing is written outside of the folder, whatever an archive contains, and its size and number of files are bounded. A
//! member that would break a rule is refused, and with it the whole archive.

mod error;
mod extended_header;
mod limits;
mod member_path;
mod root_tree;
mod write_member;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

use model::BlobHash;
use serde::{Deserialize, Serialize};
use tar::EntryType;

pub use error::{MemberProblem, UnpackError};
pub use limits::UnpackLimits;
pub use member_path::MemberPathError;

use crate::InterruptFlag;
use extended_header::ExtendedHeader;
pub use limits::ReadLimit;
pub(crate) use limits::{LimitedWriter, MeteredReader, ReadMeter, SizeLimit};
use member_path::MemberPath;
use root_tree::RootTree;
use write_member::MemberHeader;

/// What an archive contained and a root must not have. It is left out, counted, and shown to the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedItems {
    /// Files and folders that had a set-uid or set-gid bit. They are kept without it.
    pub set_id_bits: u64,
    /// Device nodes, FIFOs and sockets.
    pub special_files: u64,
    /// Files that had capabilities (`security.capability`). They are kept without them.
    pub capabilities: u64,
}

/// What kind of archive is unpacked: it decides what some names mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArchiveKind {
    /// A whole root file system. It must have the end marker of a tar, because nothing else shows that it is complete.
    RootFileSystem,
    /// A layer of an image: names that begin with `.wh.` remove files of earlier layers. A digest shows that it is complete.
    Layer,
}

/// Unpacks one or more archives into the folder of a root that is being made.
pub(crate) struct Unpacker<'a> {
    tree: RootTree,
    meter: Rc<ReadMeter>,
    written: SizeLimit,
    /// Members, and folders that were created for them.
    entries: u64,
    max_entries: u64,
    has_written: bool,
    dropped: DroppedItems,
    /// The paths that the layer in progress has unpacked. Whiteouts do not apply to them.
    unpacked: PathSet,
    /// Paths of device nodes and the like, which hard links may name.
    skipped: PathSet,
    is_excluded: &'a dyn Fn(&[u8]) -> bool,
}

/// Paths in a root, as hashes: an archive may have millions of long ones.
#[derive(Default)]
struct PathSet(HashSet<BlobHash>);

/// The prefix of a member of a layer that removes the file with the rest of its name.
const WHITEOUT: &[u8] = b".wh.";
/// A member of a layer that removes everything that earlier layers have put into its folder.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Names of a file system that once stored layers. Such members mean nothing in an image.
const AUFS_METADATA: &[u8] = b".wh..wh.";
const SKIP_BUFFER: usize = 8 << 10;

impl<'a> Unpacker<'a> {
    /// `is_excluded` says of a member's path that it is left out.
    pub(crate) fn new(
        folder: &Path,
        limits: UnpackLimits,
        interrupt: &InterruptFlag,
        is_excluded: &'a dyn Fn(&[u8]) -> bool,
    ) -> io::Result<Unpacker<'a>> {
        let folder = File::open(folder)?;
        Ok(Unpacker {
            written: SizeLimit::new(&folder, limits)?,
            tree: RootTree::new(folder.into()),
            meter: Rc::new(ReadMeter::new(limits.max_size, interrupt.clone())),
            entries: 0,
            max_entries: limits.max_entries,
            has_written: false,
            dropped: DroppedItems::default(),
            unpacked: PathSet::default(),
            skipped: PathSet::default(),
            is_excluded,
        })
    }

    /// Unpacks one archive, and reads its input to the end.
    pub(crate) fn unpack(&mut self, input: impl Read, kind: ArchiveKind) -> Result<(), UnpackError> {
        let meter = Rc::clone(&self.meter);
        let mut archive = tar::Archive::new(MeteredReader::new(input, Rc::clone(&meter)));
        let mut last_member = None;
        let failed = |last: &Option<String>, error| UnpackError::archive(last.clone(), &meter, error);
        let mut entries = archive.entries().map_err(|error| failed(&last_member, error))?;
        meter.begin_archive();
        self.unpacked = PathSet::default();
        self.skipped = PathSet::default();
        loop {
            meter.begin_headers();
            let entry = entries.next();
            meter.end_headers();
            let Some(entry) = entry else { break };
            let mut entry = entry.map_err(|error| failed(&last_member, error))?;
            let mut member = error::display_name(&entry.path_bytes());
            let extended = ExtendedHeader::parse(&meter.header_blocks()).map_err(MemberProblem::Header);
            if let Ok(ExtendedHeader { path: Some(path), .. }) = &extended {
                member = error::display_name(path);
            }
            extended
                .and_then(|extended| self.unpack_member(&mut entry, &extended, kind))
                .and_then(|()| self.skip_content(&mut entry))
                .map_err(|problem| UnpackError::member(member.clone(), &meter, problem))?;
            last_member = Some(member);
        }
        if kind == ArchiveKind::RootFileSystem && meter.has_ended() {
            return Err(UnpackError::NoEndMarker { last_member });
        }
        // Checksums and digests are over the whole input.
        io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|error| failed(&last_member, error))?;
        Ok(())
    }

    /// What was left out; `None` if the archives contained no file, folder or link at all.
    pub(crate) fn finish(self) -> Option<DroppedItems> {
        self.has_written.then_some(self.dropped)
    }

    fn unpack_member<R: Read>(
        &mut self,
        entry: &mut tar::Entry<'_, R>,
        extended: &ExtendedHeader,
        kind: ArchiveKind,
    ) -> Result<(), MemberProblem> {
        self.count_entries(1)?;
        // Before anything is created or read.
        self.written.check(entry.size())?;
        // Comments and labels of the archive, with names that are none of files.
        if is_about_archive(entry.header().entry_type()) {
            return Ok(());
        }
        let bytes = match &extended.path {
            Some(path) => path.clone(),
            None => entry.path_bytes().into_owned(),
        };
        let path = MemberPath::parse(&bytes)?;
        if (self.is_excluded)(&path.to_bytes()) {
            return Ok(());
        }
        if extended.is_sparse {
            return Err(MemberProblem::PaxSparse);
        }
        if extended.size.is_some_and(|size| size != entry.size()) {
            return Err(MemberProblem::Size);
        }
        self.dropped.capabilities += u64::from(extended.has_capability);
        match kind {
            ArchiveKind::Layer if path.has_part_with_prefix(WHITEOUT) => self.apply_whiteout(&path),
            ArchiveKind::Layer | ArchiveKind::RootFileSystem => {
                let target = match &extended.link_target {
                    Some(target) => target.clone(),
                    None => entry.link_name_bytes().unwrap_or_default().into_owned(),
                };
                let member = MemberHeader {
                    is_folder: bytes.ends_with(b"/"),
                    path,
                    target,
                    extended,
                };
                self.written.take_entries(1)?;
                self.write_member(entry, &member, kind)?;
                let folders = self.tree.take_created();
                self.count_entries(folders)?;
                self.written.take_entries(folders)
            }
        }
    }

    fn count_entries(&mut self, number: u64) -> Result<(), MemberProblem> {
        self.entries = self.entries.saturating_add(number);
        match self.entries > self.max_entries {
            true => Err(MemberProblem::TooManyEntries {
                limit: self.max_entries,
            }),
            false => Ok(()),
        }
    }

    /// Reads what is left of a member that was not written, so that nothing but headers is read until the next one. A
    /// hole of a sparse file takes time as well, so it counts.
    fn skip_content<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<(), MemberProblem> {
        let mut buffer = [0; SKIP_BUFFER];
        loop {
            self.meter.check_interrupt().map_err(MemberProblem::Read)?;
            match entry.read(&mut buffer).map_err(MemberProblem::Read)? {
                0 => return Ok(()),
                length => self.written.take_skipped(length as u64)?,
            }
        }
    }

    /// Removes what earlier layers have unpacked. What this layer has unpacked stays.
    fn apply_whiteout(&mut self, path: &MemberPath) -> Result<(), MemberProblem> {
        let (parents, name) = path.split_last().ok_or(MemberProblem::Whiteout)?;
        if name.starts_with(AUFS_METADATA) && name != OPAQUE
            || parents.iter().any(|part| part.starts_with(AUFS_METADATA))
        {
            return Ok(());
        }
        let removed = name.strip_prefix(WHITEOUT).ok_or(MemberProblem::Whiteout)?;
        if parents.iter().any(|part| part.starts_with(WHITEOUT)) || matches!(removed, b"" | b"." | b"..") {
            return Err(MemberProblem::Whiteout);
        }
        let Some(folder) = self.tree.find_folder(parents)? else {
            return Ok(());
        };
        let unpacked = &self.unpacked;
        let is_kept = |path: &[u8]| unpacked.contains(path);
        match name == OPAQUE {
            true => self.tree.remove_content(&folder, &is_kept),
            false => self.tree.remove_except(&folder, removed, &is_kept),
        }
    }
}

impl PathSet {
    fn insert(&mut self, path: &[u8]) {
        self.0.insert(BlobHash::of(path));
    }

    fn remove(&mut self, path: &[u8]) {
        self.0.remove(&BlobHash::of(path));
    }

    fn contains(&self, path: &[u8]) -> bool {
        !self.0.is_empty() && self.0.contains(&BlobHash::of(path))
    }
}

/// Whether a member is no file: a header for all members, or the label of a volume.
fn is_about_archive(kind: EntryType) -> bool {
    kind == EntryType::XGlobalHeader || kind.as_byte() == b'V'
}
