//! The folder of a root that is being made, in which every path is resolved as a process in the root would see it.
//!
//! Paths are opened one part after the other, each relative to the descriptor of the part before it, and no call follows a
//! link. A link on the way is read and resolved here: its target is a path inside the root. So a member beneath `lib` gets into
//! `usr/lib` if `lib` is a link to that, and no path can lead out.

use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::error::{MemberProblem, display_name};
use super::member_path::{MAX_DEPTH, MAX_LENGTH, MemberPathError};

/// The root file system of a root that is being made.
pub(super) struct RootTree {
    root: OwnedFd,
    /// The folder of the member before, which most members share.
    cached: Option<(Vec<u8>, Rc<TreeFolder>)>,
    /// Since [`RootTree::take_created`].
    created: Cell<u64>,
}

/// A folder in a root that is being made.
pub(super) struct TreeFolder {
    pub(super) descriptor: OwnedFd,
    /// From the root, without links.
    path: Vec<u8>,
}

/// What to do when a folder on the way to a member does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingParent {
    Create,
    ReturnNone,
}

/// As many links as the kernel follows.
const MAX_LINKS: u32 = 40;
const FOLDER_MODE: Mode = Mode::from_bits_truncate(0o755);
const PATH_FLAGS: OFlag = OFlag::O_PATH
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);
const READ_FLAGS: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// One part of a path that is being resolved.
struct PendingPart {
    name: Vec<u8>,
    /// The link that it comes from, and the link's target.
    from_link: Option<Rc<(Vec<u8>, Vec<u8>)>>,
}

impl RootTree {
    pub(super) fn new(root: OwnedFd) -> RootTree {
        RootTree {
            root,
            cached: None,
            created: Cell::new(0),
        }
    }

    /// The number of folders that were created since the last call because a member was beneath them.
    pub(super) fn take_created(&self) -> u64 {
        self.created.take()
    }

    /// Opens a folder, and creates it and its parents if they are missing.
    pub(super) fn folder(&mut self, parts: &[&[u8]]) -> Result<Rc<TreeFolder>, MemberProblem> {
        self.resolve(parts, MissingParent::Create)?
            .ok_or(MemberProblem::Write(Errno::ENOENT.into()))
    }

    /// Opens a folder if it exists.
    pub(super) fn find_folder(&mut self, parts: &[&[u8]]) -> Result<Option<Rc<TreeFolder>>, MemberProblem> {
        self.resolve(parts, MissingParent::ReturnNone)
    }

    /// The metadata of a file in the folder, or of the link itself if it is one.
    pub(super) fn metadata(
        &self,
        folder: &TreeFolder,
        name: &[u8],
    ) -> Result<Option<FileStat>, MemberProblem> {
        match fstatat(&folder.descriptor, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(metadata) => Ok(Some(metadata)),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(write_error(error)),
        }
    }

    /// Removes a file, link or whole folder, so that a member can take its place.
    pub(super) fn remove(&mut self, folder: &TreeFolder, name: &[u8]) -> Result<(), MemberProblem> {
        self.remove_except(folder, name, &|_| false)
    }

    /// Removes a file, link or whole folder, except for the paths that are kept and the folders that they are in.
    pub(super) fn remove_except(
        &mut self,
        folder: &TreeFolder,
        name: &[u8],
        is_kept: &dyn Fn(&[u8]) -> bool,
    ) -> Result<(), MemberProblem> {
        // The cached folder may be removed.
        self.cached = None;
        remove_entry(&folder.descriptor, folder.child(name), name, is_kept)
            .map(|_| ())
            .map_err(write_error)
    }

    /// Removes what is in a folder, except for the paths that are kept and the folders that they are in.
    pub(super) fn remove_content(
        &mut self,
        folder: &TreeFolder,
        is_kept: &dyn Fn(&[u8]) -> bool,
    ) -> Result<(), MemberProblem> {
        let names = openat(&folder.descriptor, ".", READ_FLAGS, Mode::empty())
            .and_then(names_in)
            .map_err(write_error)?;
        for name in names {
            self.remove_except(folder, name.as_bytes(), is_kept)?;
        }
        Ok(())
    }

    fn resolve(
        &mut self,
        parts: &[&[u8]],
        missing: MissingParent,
    ) -> Result<Option<Rc<TreeFolder>>, MemberProblem> {
        let requested = parts.join(&b'/');
        if let Some((path, folder)) = &self.cached
            && *path == requested
        {
            return Ok(Some(Rc::clone(folder)));
        }
        let Some(folder) = self.walk(parts, missing)? else {
            return Ok(None);
        };
        let folder = Rc::new(folder);
        self.cached = Some((requested, Rc::clone(&folder)));
        Ok(Some(folder))
    }

    fn walk(&self, parts: &[&[u8]], missing: MissingParent) -> Result<Option<TreeFolder>, MemberProblem> {
        let root = openat(&self.root, ".", PATH_FLAGS, Mode::empty()).map_err(write_error)?;
        // The folders from the root to the current one. `..` in a link's target removes the last one.
        let mut folders: Vec<(Vec<u8>, OwnedFd)> = Vec::new();
        let mut links = 0;
        let mut pending: Vec<PendingPart> = Vec::new();
        for part in parts.iter().rev() {
            pending.push(PendingPart {
                name: part.to_vec(),
                from_link: None,
            });
        }
        while let Some(PendingPart { name, from_link }) = pending.pop() {
            match (name.as_slice(), &from_link) {
                (b"." | b"", _) => continue,
                (b"..", Some(link)) => match folders.pop() {
                    Some(_) => continue,
                    None => return Err(leads_out(link)),
                },
                // A member's own path has no such part.
                (b"..", None) => return Err(MemberPathError::ParentPart.into()),
                _ => {}
            }
            let current = folders.last().map_or(&root, |(_, folder)| folder);
            let opened = match openat(current, name.as_slice(), PATH_FLAGS, Mode::empty()) {
                Err(Errno::ENOENT) => match (&from_link, missing) {
                    (Some(link), _) => return Err(leads_nowhere(link)),
                    (None, MissingParent::ReturnNone) => return Ok(None),
                    (None, MissingParent::Create) => {
                        self.created.set(self.created.get() + 1);
                        create_folder(current, &name)
                    }
                },
                opened => opened,
            };
            match opened {
                Ok(folder) => {
                    folders.push((name, folder));
                    check_depth(&folders)?;
                }
                Err(Errno::ELOOP | Errno::ENOTDIR) => {
                    let Ok(target) = readlinkat(current, name.as_slice()) else {
                        return Err(MemberProblem::NotAFolder {
                            path: display_name(&path_of(&folders, &name)),
                        });
                    };
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(MemberProblem::TooManyLinks);
                    }
                    let target = target.as_bytes().to_vec();
                    let link = Rc::new((path_of(&folders, &name), target.clone()));
                    if target.starts_with(b"/") {
                        folders.clear();
                    }
                    pending.extend(target.split(|byte| *byte == b'/').rev().map(|part| PendingPart {
                        name: part.to_vec(),
                        from_link: Some(Rc::clone(&link)),
                    }));
                }
                Err(error) => return Err(write_error(error)),
            }
        }
        let path = path_of(&folders, b"");
        let descriptor = folders.pop().map_or(root, |(_, folder)| folder);
        Ok(Some(TreeFolder { descriptor, path }))
    }
}

impl TreeFolder {
    /// The path of a file in this folder, from the root, without links.
    pub(super) fn child(&self, name: &[u8]) -> Vec<u8> {
        match self.path.as_slice() {
            b"" => name.to_vec(),
            path => [path, name].join(&b'/'),
        }
    }
}

pub(super) fn write_error(error: Errno) -> MemberProblem {
    MemberProblem::Write(io::Error::from(error))
}

pub(super) fn is_folder(metadata: &FileStat) -> bool {
    metadata.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFDIR.bits()
}

fn create_folder(parent: &OwnedFd, name: &[u8]) -> nix::Result<OwnedFd> {
    mkdirat(parent, name, FOLDER_MODE)?;
    // Whatever the umask of this command is.
    fchmodat(parent, name, FOLDER_MODE, FchmodatFlags::FollowSymlink)?;
    openat(parent, name, PATH_FLAGS, Mode::empty())
}

/// A member may be deep beneath a link that leads deep, and so on; functions that call themselves need a bound.
fn check_depth(folders: &[(Vec<u8>, OwnedFd)]) -> Result<(), MemberProblem> {
    let length: usize = folders.iter().map(|(name, _)| name.len() + 1).sum();
    if folders.len() > MAX_DEPTH {
        return Err(MemberPathError::TooDeep.into());
    }
    match length > MAX_LENGTH {
        true => Err(MemberPathError::TooLong.into()),
        false => Ok(()),
    }
}

fn path_of(folders: &[(Vec<u8>, OwnedFd)], name: &[u8]) -> Vec<u8> {
    let parts = folders.iter().map(|(name, _)| name.as_slice()).chain([name]);
    let parts: Vec<&[u8]> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(&b'/')
}

fn leads_out(link: &(Vec<u8>, Vec<u8>)) -> MemberProblem {
    MemberProblem::LinkLeadsOut {
        link: display_name(&link.0),
        target: display_name(&link.1),
    }
}

fn leads_nowhere(link: &(Vec<u8>, Vec<u8>)) -> MemberProblem {
    MemberProblem::LinkLeadsNowhere {
        link: display_name(&link.0),
        target: display_name(&link.1),
    }
}

/// Returns whether it is gone.
fn remove_entry(
    parent: &OwnedFd,
    path: Vec<u8>,
    name: &[u8],
    is_kept: &dyn Fn(&[u8]) -> bool,
) -> nix::Result<bool> {
    let metadata = match fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => return Ok(true),
        metadata => metadata?,
    };
    if !is_folder(&metadata) {
        if is_kept(&path) {
            return Ok(false);
        }
        unlinkat(parent, name, UnlinkatFlags::NoRemoveDir)?;
        return Ok(true);
    }
    let folder = openat(parent, name, READ_FLAGS, Mode::empty())?;
    let mut is_empty = true;
    for child in names_in(folder.try_clone().map_err(|_| Errno::EMFILE)?)? {
        let child_path = [path.as_slice(), child.as_bytes()].join(&b'/');
        is_empty &= remove_entry(&folder, child_path, child.as_bytes(), is_kept)?;
    }
    if !is_empty || is_kept(&path) {
        return Ok(false);
    }
    unlinkat(parent, name, UnlinkatFlags::RemoveDir)?;
    Ok(true)
}

fn names_in(folder: OwnedFd) -> nix::Result<Vec<CString>> {
    let mut dir = Dir::from_fd(folder)?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let name = entry?.file_name().to_owned();
        if !matches!(name.as_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}
