//! Writes one member of an archive into the root that is being made.

use std::fs::File;
use std::io::{Read, Write};

use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmod, fchmodat, futimens, mkdirat};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, Uid, fchown, fchownat, geteuid, linkat, symlinkat};
use tar::{Entry, EntryType};

use super::error::{MemberProblem, display_name};
use super::extended_header::ExtendedHeader;
use super::member_path::MemberPath;
use super::root_tree::{TreeFolder, is_folder, write_error};
use super::{ArchiveKind, MemberPathError, Unpacker};

/// What the headers of a member say about it.
pub(super) struct MemberHeader<'a> {
    pub(super) path: MemberPath<'a>,
    /// The path ends with a slash.
    pub(super) is_folder: bool,
    /// Of a link.
    pub(super) target: Vec<u8>,
    pub(super) extended: &'a ExtendedHeader,
}

/// The folders and the name of a member.
type MemberPlace<'a> = (&'a [&'a [u8]], &'a [u8]);

/// Where a member was written, from the root and without links; `None` if it was left out.
type WrittenPath = Option<Vec<u8>>;

/// The numeric owner that a file of a root gets, if this process may choose it.
#[derive(Clone, Copy)]
struct FileOwner(Option<(Uid, Gid)>);

const SET_ID_BITS: u32 = 0o6000;
/// Cells use the ids from here on for tasks. A file that belongs to a task's user would give it rights that it must not have.
const FIRST_TASK_ID: u64 = 65_536;
const COPY_BUFFER: usize = 128 << 10;
/// As long as a path that the kernel accepts.
const MAX_LINK_TARGET: usize = 4095;

impl Unpacker<'_> {
    pub(super) fn write_member<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        member: &MemberHeader<'_>,
        archive: ArchiveKind,
    ) -> Result<(), MemberProblem> {
        let Some((parents, name)) = member.path.split_last() else {
            // The root itself keeps its mode: cells must be able to enter it.
            return Ok(());
        };
        let place = (parents, name);
        let written = match entry.header().entry_type() {
            // How tar wrote folders before there was a type for them.
            EntryType::Regular if member.is_folder => self.write_folder(entry, member, place),
            EntryType::Directory => self.write_folder(entry, member, place),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                self.write_file(entry, member, place)
            }
            EntryType::Link => self.write_hard_link(&member.target, place),
            EntryType::Symlink => self.write_link(entry, member, place),
            EntryType::Char | EntryType::Block | EntryType::Fifo => self.skip_special(place),
            other => Err(MemberProblem::Type(other.as_byte().escape_ascii().to_string())),
        }?;
        if let Some(path) = written {
            self.has_written = true;
            // A file has taken the name of a device node.
            self.skipped.remove(&path);
            // Only layers have whiteouts.
            if archive == ArchiveKind::Layer {
                self.unpacked.insert(&path);
            }
        }
        Ok(())
    }

    fn write_folder<R: Read>(
        &mut self,
        entry: &Entry<'_, R>,
        member: &MemberHeader<'_>,
        (parents, name): MemberPlace<'_>,
    ) -> Result<WrittenPath, MemberProblem> {
        let (mode, owner) = self.mode_and_owner(entry, member.extended)?;
        let folder = self.tree.folder(parents)?;
        match self.tree.metadata(&folder, name)? {
            Some(existing) if is_folder(&existing) => {}
            existing => {
                if existing.is_some() {
                    self.tree.remove(&folder, name)?;
                }
                mkdirat(&folder.descriptor, name, Mode::S_IRWXU).map_err(write_error)?;
            }
        }
        owner.apply_to_name(&folder, name)?;
        // Readable for all, as the users of cells are others. Writable for the owner, who has to remove it one day.
        let mode = Mode::from_bits_truncate(mode & 0o1777 | 0o755);
        // There is no link: the name is a folder, and no other process writes here.
        fchmodat(&folder.descriptor, name, mode, FchmodatFlags::FollowSymlink).map_err(write_error)?;
        Ok(Some(folder.child(name)))
    }

    fn write_file<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        member: &MemberHeader<'_>,
        (parents, name): MemberPlace<'_>,
    ) -> Result<WrittenPath, MemberProblem> {
        let (mode, owner) = self.mode_and_owner(entry, member.extended)?;
        let folder = self.tree.folder(parents)?;
        self.make_room(&folder, name)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file =
            openat(&folder.descriptor, name, flags, Mode::S_IRUSR | Mode::S_IWUSR).map_err(write_error)?;
        let mut file = File::from(file);
        self.copy_content(entry, &mut file)?;
        if let FileOwner(Some((user, group))) = owner {
            fchown(&file, Some(user), Some(group)).map_err(write_error)?;
        }
        // Readable for the owner, who has to verify it.
        fchmod(&file, Mode::from_bits_truncate(mode & 0o777 | 0o400)).map_err(write_error)?;
        // Python uses a compiled file only if it has the time of its source.
        let in_header = entry
            .header()
            .mtime()
            .ok()
            .and_then(|time| i64::try_from(time).ok());
        let time = TimeSpec::new(member.extended.modified.or(in_header).unwrap_or(0), 0);
        futimens(&file, &time, &time).map_err(write_error)?;
        Ok(Some(folder.child(name)))
    }

    fn copy_content<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        file: &mut File,
    ) -> Result<(), MemberProblem> {
        let size = entry.size();
        let mut copied = 0;
        let mut buffer = vec![0; COPY_BUFFER];
        loop {
            self.meter.check_interrupt().map_err(MemberProblem::Read)?;
            let length = entry.read(&mut buffer).map_err(MemberProblem::Read)?;
            if length == 0 {
                break;
            }
            self.written.take(length as u64)?;
            file.write_all(&buffer[..length]).map_err(MemberProblem::Write)?;
            copied += length as u64;
        }
        match copied == size {
            true => Ok(()),
            false => Err(MemberProblem::Truncated),
        }
    }

    fn write_hard_link(
        &mut self,
        target: &[u8],
        (parents, name): MemberPlace<'_>,
    ) -> Result<WrittenPath, MemberProblem> {
        let display = || display_name(target);
        let not_found = || MemberProblem::HardLinkTarget { target: display() };
        let target_path =
            MemberPath::parse(target).map_err(|problem: MemberPathError| MemberProblem::HardLinkPath {
                target: display(),
                problem,
            })?;
        let (target_parents, target_name) = target_path.split_last().ok_or_else(not_found)?;
        let Some(target_folder) = self.tree.find_folder(target_parents)? else {
            return match self.skipped.contains(&target_path.to_bytes()) {
                true => self.skip_special((parents, name)),
                false => Err(not_found()),
            };
        };
        let target_child = target_folder.child(target_name);
        if self.skipped.contains(&target_child) {
            return self.skip_special((parents, name));
        }
        let folder = self.tree.folder(parents)?;
        if folder.child(name) != target_child {
            self.make_room(&folder, name)?;
        }
        match self.tree.metadata(&target_folder, target_name)? {
            Some(metadata) if !is_folder(&metadata) => {}
            _ => return Err(not_found()),
        }
        if folder.child(name) != target_child {
            // Without the flag to follow a link: a hard link to a link is another name of the link.
            let (from, to) = (&target_folder.descriptor, &folder.descriptor);
            linkat(from, target_name, to, name, AtFlags::empty()).map_err(write_error)?;
        }
        Ok(Some(folder.child(name)))
    }

    fn write_link<R: Read>(
        &mut self,
        entry: &Entry<'_, R>,
        member: &MemberHeader<'_>,
        (parents, name): MemberPlace<'_>,
    ) -> Result<WrittenPath, MemberProblem> {
        let target = &member.target;
        if target.is_empty() || target.len() > MAX_LINK_TARGET || target.contains(&0) {
            return Err(MemberProblem::LinkTarget);
        }
        let (_, owner) = self.mode_and_owner(entry, member.extended)?;
        let folder = self.tree.folder(parents)?;
        self.make_room(&folder, name)?;
        symlinkat(target.as_slice(), &folder.descriptor, name).map_err(write_error)?;
        owner.apply_to_name(&folder, name)?;
        Ok(Some(folder.child(name)))
    }

    /// Leaves out a device node, FIFO or socket. It hides a file of an earlier layer nevertheless.
    fn skip_special(&mut self, (parents, name): MemberPlace<'_>) -> Result<WrittenPath, MemberProblem> {
        self.dropped.special_files += 1;
        match self.tree.find_folder(parents)? {
            Some(folder) => {
                self.make_room(&folder, name)?;
                self.skipped.insert(&folder.child(name));
            }
            // Then there is no link on its path either.
            None => self.skipped.insert(&[parents, &[name]].concat().join(&b'/')),
        }
        Ok(None)
    }

    /// Removes what has the name of a member. The last member of a name counts, as for tar.
    fn make_room(&mut self, folder: &TreeFolder, name: &[u8]) -> Result<(), MemberProblem> {
        match self.tree.metadata(folder, name)? {
            Some(_) => self.tree.remove(folder, name),
            None => Ok(()),
        }
    }

    /// The permissions without privileges, which are counted, and the owner.
    fn mode_and_owner<R: Read>(
        &mut self,
        entry: &Entry<'_, R>,
        extended: &ExtendedHeader,
    ) -> Result<(u32, FileOwner), MemberProblem> {
        let header = entry.header();
        let mode = header.mode().map_err(MemberProblem::Header)?;
        let kind = header.entry_type();
        if mode & SET_ID_BITS != 0 && !matches!(kind, EntryType::Symlink) {
            self.dropped.set_id_bits += 1;
        }
        let user = extended.user.map_or_else(|| header.uid(), Ok);
        let group = extended.group.map_or_else(|| header.gid(), Ok);
        let (user, group) = (
            user.map_err(MemberProblem::Header)?,
            group.map_err(MemberProblem::Header)?,
        );
        let id = |id: u64| match u32::try_from(id) {
            Ok(small) if id < FIRST_TASK_ID => small,
            _ => 0,
        };
        // Only root may give files away. Otherwise everything belongs to the user of this command.
        let owner = geteuid()
            .is_root()
            .then(|| (Uid::from_raw(id(user)), Gid::from_raw(id(group))));
        Ok((mode & !SET_ID_BITS & !SFlag::S_IFMT.bits(), FileOwner(owner)))
    }
}

impl FileOwner {
    /// For a folder or a link, which itself gets the owner.
    fn apply_to_name(self, folder: &TreeFolder, name: &[u8]) -> Result<(), MemberProblem> {
        match self.0 {
            None => Ok(()),
            Some((user, group)) => fchownat(
                &folder.descriptor,
                name,
                Some(user),
                Some(group),
                AtFlags::AT_SYMLINK_NOFOLLOW,
            )
            .map_err(write_error),
        }
    }
}
