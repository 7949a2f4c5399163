//! Finds the files of a workspace that match a task's patterns.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::time::{Duration, Instant};

use model::{KeepPattern, LeftOutReason, WorkspacePath};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};
use sandbox::{OpenPurpose, WardenError};

use super::beneath::WorkspaceFolder;
use super::{CollectError, KeepLimits, LeftOutFiles};
use crate::attempt_control::AttemptRevoked;

/// A path of a kept file cannot be longer or deeper than these, so no folder beyond them is read.
const MAX_PATH_BYTES: usize = 1024;
const MAX_DEPTH: usize = 32;
/// How much memory the names of folders that are still to be read may take.
const MAX_FOLDER_BYTES: usize = 32 << 20;
/// A buffer that grows has up to twice the size of its content, and while it is moved the old one as well.
const BUFFER_GROWTH: usize = 3;
/// Matching is slow for some patterns, so the time for all entries is bounded, too.
const MAX_TIME: Duration = Duration::from_secs(30);

/// The walk through a task's workspace that finds the files to keep.
pub(super) struct FileFinder<'a, 'w> {
    pub(super) folder: &'a mut WorkspaceFolder<'w>,
    pub(super) patterns: &'a [KeepPattern],
    pub(super) limits: KeepLimits,
    pub(super) progress: &'a dyn Fn() -> Result<(), AttemptRevoked>,
}

/// The files that a [`FileFinder`] has found: the first ones in the order of their paths, with their sizes.
#[derive(Default)]
pub(super) struct MatchingFiles {
    pub(super) files: BTreeMap<WorkspacePath, u64>,
    pub(super) left_out: LeftOutFiles,
}

/// What a [`FileFinder`] still may do.
struct WalkBudget {
    entries_left: usize,
    folder_bytes_left: usize,
    ends_at: Instant,
}

/// The names of the folders of one level that a [`FileFinder`] still has to read, in one buffer: millions of names in
/// allocations of their own would take several times their size.
#[derive(Default)]
struct FolderNames {
    /// Each name is followed by a slash, which no name contains.
    names: Vec<u8>,
    /// What the level has taken from the budget. The buffer keeps its size until the level is done.
    charged: usize,
}

/// Where a [`FileFinder`] looks, so that what a task names literally is found whatever else its workspace has.
#[derive(Default)]
struct WalkPlan<'a> {
    /// The patterns without wildcards. Each is looked up by its path.
    paths: BTreeSet<&'a [u8]>,
    wildcards: Vec<&'a KeepPattern>,
    /// The folders that the other patterns begin with, which are opened by their paths.
    roots: BTreeSet<Vec<u8>>,
}

impl FileFinder<'_, '_> {
    pub(super) fn find(mut self) -> Result<MatchingFiles, CollectError> {
        let mut found = MatchingFiles::default();
        let plan = WalkPlan::new(self.patterns);
        for path in &plan.paths {
            (self.progress)()?;
            self.look_up(path, &mut found)?;
        }
        let mut budget = WalkBudget {
            entries_left: self.limits.entries,
            folder_bytes_left: MAX_FOLDER_BYTES,
            ends_at: Instant::now() + MAX_TIME,
        };
        // Inner folders come first, so that the folders around them leave them out.
        for root in plan.roots.iter().rev() {
            self.walk(root, &plan, &mut budget, &mut found)?;
        }
        Ok(found)
    }

    /// Adds the file with this path, if there is one.
    fn look_up(&mut self, path: &[u8], found: &mut MatchingFiles) -> Result<(), WardenError> {
        let opened = self.folder.open(path, OpenPurpose::Status)?;
        match opened.and_then(fstat) {
            Ok(status) => {
                let kind = SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT;
                if kind != SFlag::S_IFDIR {
                    let size = u64::try_from(status.st_size).unwrap_or(0);
                    self.add(path.to_vec(), (kind == SFlag::S_IFREG).then_some(size), found);
                }
            }
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::ENAMETOOLONG) => {}
            Err(_) => found.left_out.add(path, 0, LeftOutReason::NoSpace),
        }
        Ok(())
    }

    /// Adds the matching files below the folder with this path.
    fn walk(
        &mut self,
        root: &[u8],
        plan: &WalkPlan<'_>,
        budget: &mut WalkBudget,
        found: &mut MatchingFiles,
    ) -> Result<(), CollectError> {
        let mut path = root.to_vec();
        let depth = match root {
            b"" => 0,
            root => root.split(|byte| *byte == b'/').count(),
        };
        // For each open level, the folders that are still to be read. Only names are kept, and their size is bounded.
        let mut levels = vec![self.read_folder(&path, plan, budget, found)?];
        while let Some(folders) = levels.last_mut() {
            if !folders.pop_into(&mut path) {
                budget.folder_bytes_left += folders.charged;
                levels.pop();
                remove_last_part(&mut path);
                continue;
            }
            if path.len() >= MAX_PATH_BYTES || depth + levels.len() >= MAX_DEPTH {
                found.left_out.add(&path, 0, LeftOutReason::BadName);
                remove_last_part(&mut path);
                continue;
            }
            levels.push(self.read_folder(&path, plan, budget, found)?);
        }
        Ok(())
    }

    /// Adds the matching files of the folder, and returns the names of the folders in it that may contain others.
    fn read_folder(
        &mut self,
        path: &[u8],
        plan: &WalkPlan<'_>,
        budget: &mut WalkBudget,
        found: &mut MatchingFiles,
    ) -> Result<FolderNames, CollectError> {
        (self.progress)()?;
        let mut folders = FolderNames::default();
        if !budget.has_entries_left() {
            found.left_out.add_unknown(LeftOutReason::TooMany);
            return Ok(folders);
        }
        let opened = self.folder.open(path, OpenPurpose::Entries)?;
        let listed = opened.and_then(|folder| {
            let copy = folder.try_clone().map_err(|_| Errno::EMFILE)?;
            Ok((folder, Dir::from_fd(copy.into())?))
        });
        let (folder, mut entries) = match listed {
            Ok(listed) => listed,
            // It is not there, or it is not a folder any more.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(folders),
            Err(_) => {
                found.left_out.add(path, 0, LeftOutReason::NoSpace);
                return Ok(folders);
            }
        };
        for entry in entries.iter() {
            let Ok(entry) = entry else {
                found.left_out.add(path, 0, LeftOutReason::NoSpace);
                break;
            };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            (self.progress)()?;
            if !budget.take_entry() {
                found.left_out.add_unknown(LeftOutReason::TooMany);
                break;
            }
            let mut whole = path.to_vec();
            append_part(&mut whole, name);
            // Names that are no text are compared with patterns in a readable form.
            let text = String::from_utf8_lossy(&whole);
            let is_match = !plan.paths.contains(whole.as_slice())
                && plan.wildcards.iter().any(|pattern| pattern.matches(&text));
            let may_be_folder = matches!(entry.file_type(), Some(Type::Directory) | None);
            let is_on_the_way = may_be_folder
                && !plan.roots.contains(&whole)
                && plan
                    .wildcards
                    .iter()
                    .any(|pattern| pattern.may_match_below(&text));
            if !is_match && !is_on_the_way {
                continue;
            }
            let status = match self.read_status(&folder, name, &whole)? {
                Ok(status) => status,
                // It has vanished.
                Err(Errno::ENOENT) => continue,
                Err(_) => {
                    found.left_out.add(&whole, 0, LeftOutReason::NoSpace);
                    continue;
                }
            };
            let kind = SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT;
            if kind == SFlag::S_IFDIR {
                if !is_on_the_way {
                    continue;
                }
                if !folders.push(name, budget) {
                    found.left_out.add_unknown(LeftOutReason::TooMany);
                    break;
                }
            } else if is_match {
                let size = u64::try_from(status.st_size).unwrap_or(0);
                self.add(whole, (kind == SFlag::S_IFREG).then_some(size), found);
            }
        }
        Ok(folders)
    }

    /// The status of an entry of a folder, of which `path` is the whole path. Commands may have made a folder whose entries
    /// can be listed but not opened.
    fn read_status(
        &mut self,
        folder: &File,
        name: &[u8],
        path: &[u8],
    ) -> Result<nix::Result<FileStat>, WardenError> {
        match fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Err(Errno::EACCES | Errno::EPERM) => {
                let opened = self.folder.open(path, OpenPurpose::Status)?;
                Ok(opened.and_then(fstat))
            }
            status => Ok(status),
        }
    }

    /// Adds a matching file; `size` is `None` if it is not a regular one.
    fn add(&self, path: Vec<u8>, size: Option<u64>, found: &mut MatchingFiles) {
        let Some(size) = size else {
            return found.left_out.add(&path, 0, LeftOutReason::NotRegular);
        };
        let text = String::from_utf8(path);
        let valid = text
            .map_err(|error| error.into_bytes())
            .and_then(|text| WorkspacePath::of_kept_file(text.clone()).map_err(|_| text.into_bytes()));
        match valid {
            Ok(path) => {
                found.files.insert(path, size);
            }
            Err(path) => found.left_out.add(&path, size, LeftOutReason::BadName),
        }
        // The first ones in the order of paths are kept, in whatever order the folder lists them.
        if found.files.len() > self.limits.files
            && let Some((path, size)) = found.files.pop_last()
        {
            found
                .left_out
                .add(path.as_str().as_bytes(), size, LeftOutReason::TooMany);
        }
    }
}

impl<'a> WalkPlan<'a> {
    fn new(patterns: &'a [KeepPattern]) -> WalkPlan<'a> {
        let mut plan = WalkPlan::default();
        for pattern in patterns {
            let is_literal = |name: &&str| !name.contains(['*', '?']);
            let names = pattern.as_str().split('/');
            if names.clone().all(|name| is_literal(&name)) {
                plan.paths.insert(pattern.as_str().as_bytes());
                continue;
            }
            // A folder that is too deep is noticed on the way to it.
            let names: Vec<_> = names.take_while(is_literal).take(MAX_DEPTH - 1).collect();
            plan.roots.insert(names.join("/").into_bytes());
            plan.wildcards.push(pattern);
        }
        plan
    }
}

impl WalkBudget {
    fn take_entry(&mut self) -> bool {
        // The clock is read for some entries only.
        let is_left = match self.entries_left.is_multiple_of(64) {
            true => self.has_entries_left(),
            false => true,
        };
        self.entries_left = self.entries_left.saturating_sub(1);
        is_left
    }

    /// Also reads the clock: a workspace may have more folders without entries than can be opened in the time.
    fn has_entries_left(&mut self) -> bool {
        if Instant::now() >= self.ends_at {
            self.entries_left = 0;
        }
        self.entries_left > 0
    }
}

impl FolderNames {
    /// Adds a name, if the budget has the memory for it.
    fn push(&mut self, name: &[u8], budget: &mut WalkBudget) -> bool {
        let cost = (name.len() + 1) * BUFFER_GROWTH;
        let Some(left) = budget.folder_bytes_left.checked_sub(cost) else {
            return false;
        };
        budget.folder_bytes_left = left;
        self.charged += cost;
        self.names.extend_from_slice(name);
        self.names.push(b'/');
        true
    }

    /// Moves the last name to the end of the path. Returns false if there is none.
    fn pop_into(&mut self, path: &mut Vec<u8>) -> bool {
        let Some((_, names)) = self.names.split_last() else {
            return false;
        };
        let start = names
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |slash| slash + 1);
        append_part(path, &names[start..]);
        self.names.truncate(start);
        true
    }
}

fn append_part(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

fn remove_last_part(path: &mut Vec<u8>) {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    path.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace may have as many folders as its space allows, at every level.
    #[test]
    fn the_names_of_folders_take_no_more_memory_than_the_budget() {
        let budget = || WalkBudget {
            entries_left: 0,
            folder_bytes_left: MAX_FOLDER_BYTES,
            ends_at: Instant::now(),
        };
        for name in ["a", "a name of usual length", &"x".repeat(255)] {
            let mut budget = budget();
            let mut levels = Vec::new();
            for _ in 0..3 {
                let mut folders = FolderNames::default();
                for _ in 0..100_000 {
                    if !folders.push(name.as_bytes(), &mut budget) {
                        break;
                    }
                }
                let mut path = Vec::new();
                while folders.pop_into(&mut path) {
                    assert_eq!(path, name.as_bytes());
                    path.clear();
                }
                levels.push(folders);
            }
            let allocated: usize = levels.iter().map(|folders| folders.names.capacity()).sum();
            let charged = MAX_FOLDER_BYTES - budget.folder_bytes_left;
            assert!(allocated > 0 && allocated <= charged, "{allocated} > {charged}");
        }
    }
}
