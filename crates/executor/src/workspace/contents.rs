//! What the executor writes into a workspace, and how it writes one file of it.

use std::borrow::Cow;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use model::{Content, TaskFile, TaskSpec};

use super::{CREATE, TaskFileSource, WorkspaceError, io_error};
use crate::cache::BlobCache;

/// The files that the executor writes into a workspace before a command runs there.
#[derive(Default)]
pub(crate) struct WorkspaceContents<'a> {
    /// No path occurs twice, and none leads through a link. Links come last.
    pub(crate) entries: Vec<WorkspaceEntry<'a>>,
    /// Standard input, if it is a file.
    pub(crate) input: Option<EntryContent<'a>>,
    /// How many bytes all files of the workspace may have together.
    pub(crate) space: Option<u64>,
}

/// A file, folder or link that the executor writes into a workspace.
#[derive(Clone)]
pub(crate) struct WorkspaceEntry<'a> {
    /// Relative to the working directory of the commands.
    pub(crate) path: Cow<'a, Path>,
    pub(crate) kind: WorkspaceEntryKind<'a>,
}

/// What kind of entry a [`WorkspaceEntry`] is, and what it contains.
#[derive(Clone, Copy)]
pub(crate) enum WorkspaceEntryKind<'a> {
    Folder { mode: u32 },
    File { mode: u32, content: EntryContent<'a> },
    Link { target: &'a Path },
}

/// Where the content of a file in a workspace comes from.
#[derive(Clone, Copy)]
pub(crate) enum EntryContent<'a> {
    /// A file of the task; a blob is in the cache.
    OfTask(&'a Content),
    Bytes(&'a [u8]),
    /// A part of a file of this process.
    Part {
        file: &'a File,
        offset: u64,
        bytes: u64,
    },
}

/// The mode of folders that the executor creates itself.
pub(super) const FOLDER_MODE: u32 = 0o755;
/// The modes of the files of a task.
const FILE_MODE: u32 = 0o644;
const EXECUTABLE_MODE: u32 = 0o755;
/// The size of one part of a large file.
pub(super) const PART: u64 = 4 << 20;
/// How much of a file of this process is read at once.
const READ_AT_ONCE: usize = 256 << 10;
/// More than the kernel needs to recognise a program: the path of its interpreter is in the first line.
const HEAD: usize = 256;

impl<'a> WorkspaceContents<'a> {
    /// The files of a task for its steps, with its input.
    pub(crate) fn of_task(spec: &'a TaskSpec) -> WorkspaceContents<'a> {
        let input = Some(&spec.execute.input).filter(|input| input.blob().is_some());
        WorkspaceContents {
            entries: WorkspaceEntry::of_files(spec.layout()),
            input: input.map(EntryContent::OfTask),
            space: spec.space(),
        }
    }
}

impl<'a> WorkspaceContents<'a> {
    /// The size of all files together.
    pub(crate) fn bytes(&self, cache: &BlobCache) -> Result<u64, WorkspaceError> {
        let contents = self.entries.iter().filter_map(WorkspaceEntry::content);
        let sizes = contents.chain(self.input).map(|content| content.size(cache));
        sizes.sum()
    }

    /// The first bytes of the file with this path. `None` if there is no such file, or if the path leads through a link.
    pub(crate) fn head_of(&self, path: &Path, cache: &BlobCache) -> Option<Vec<u8>> {
        let entry = self.entries.iter().find(|entry| entry.path == path)?;
        entry.content()?.head(cache).ok()
    }

    /// Adds entries. They replace what is at their paths and below, and what is no folder on the way to them.
    pub(crate) fn put_over(&mut self, over: Vec<WorkspaceEntry<'a>>) {
        if over.is_empty() {
            return;
        }
        // A workspace may have as many entries as a snapshot allows, so each is compared with its neighbours only: in the
        // order of paths, all that is beneath a path follows it directly.
        let mut outermost: Vec<&Path> = over.iter().map(|new| &*new.path).collect();
        outermost.sort_unstable();
        outermost.dedup_by(|path, outer| path.starts_with(*outer));
        self.entries.retain(|entry| {
            let is_folder = matches!(entry.kind, WorkspaceEntryKind::Folder { .. });
            let (before, after) = outermost.split_at(outermost.partition_point(|new| **new <= *entry.path));
            let is_replaced = before.last().is_some_and(|new| entry.path.starts_with(new));
            let is_on_the_way = after.first().is_some_and(|new| new.starts_with(&entry.path));
            !is_replaced && (is_folder || !is_on_the_way)
        });
        let is_link = |entry: &WorkspaceEntry<'_>| matches!(entry.kind, WorkspaceEntryKind::Link { .. });
        let first_link = self.entries.iter().position(is_link);
        let at = first_link.unwrap_or(self.entries.len());
        self.entries.splice(at..at, over);
    }
}

impl<'a> WorkspaceEntry<'a> {
    fn content(&self) -> Option<EntryContent<'a>> {
        match self.kind {
            WorkspaceEntryKind::File { content, .. } => Some(content),
            WorkspaceEntryKind::Folder { .. } | WorkspaceEntryKind::Link { .. } => None,
        }
    }

    pub(crate) fn of_files(files: impl Iterator<Item = (String, &'a TaskFile)>) -> Vec<WorkspaceEntry<'a>> {
        let entry = |(path, file): (String, &'a TaskFile)| WorkspaceEntry::of_file(path, file);
        files.map(entry).collect()
    }

    pub(crate) fn of_file(path: String, file: &'a TaskFile) -> WorkspaceEntry<'a> {
        let mode = match file.executable {
            true => EXECUTABLE_MODE,
            false => FILE_MODE,
        };
        let content = EntryContent::OfTask(&file.content);
        WorkspaceEntry {
            path: Cow::Owned(path.into()),
            kind: WorkspaceEntryKind::File { mode, content },
        }
    }

    /// A file that commands can read.
    pub(crate) fn readable(path: impl Into<Cow<'a, Path>>, content: EntryContent<'a>) -> WorkspaceEntry<'a> {
        let mode = FILE_MODE;
        WorkspaceEntry {
            path: path.into(),
            kind: WorkspaceEntryKind::File { mode, content },
        }
    }

    pub(crate) fn folder(path: impl Into<Cow<'a, Path>>) -> WorkspaceEntry<'a> {
        WorkspaceEntry {
            path: path.into(),
            kind: WorkspaceEntryKind::Folder { mode: FOLDER_MODE },
        }
    }
}

impl EntryContent<'_> {
    pub(super) fn size(self, cache: &BlobCache) -> Result<u64, WorkspaceError> {
        match self {
            EntryContent::OfTask(Content::Inline(bytes)) => Ok(bytes.len() as u64),
            EntryContent::OfTask(Content::Blob(hash)) => {
                let size = cache.size_of(hash);
                size.map_err(|source| WorkspaceError::CachedSize { source })
            }
            EntryContent::Bytes(bytes) => Ok(bytes.len() as u64),
            EntryContent::Part { bytes, .. } => Ok(bytes),
        }
    }

    /// The first bytes, [`HEAD`] of them at most.
    fn head(self, cache: &BlobCache) -> io::Result<Vec<u8>> {
        let mut head = vec![0; HEAD];
        let count = match self {
            EntryContent::OfTask(Content::Inline(bytes)) => (&bytes[..]).read(&mut head),
            EntryContent::OfTask(Content::Blob(hash)) => cache.open_blob(hash)?.read(&mut head),
            EntryContent::Bytes(mut bytes) => bytes.read(&mut head),
            EntryContent::Part { file, offset, bytes } => {
                head.truncate(usize::try_from(bytes).unwrap_or(HEAD).min(HEAD));
                file.read_at(&mut head, offset)
            }
        }?;
        head.truncate(count);
        Ok(head)
    }
}

/// Creates the parent folders of a path in a folder.
pub(super) fn make_folders(directory: &Path, path: &Path) -> Result<(), WorkspaceError> {
    match path.parent().filter(|parent| *parent != directory) {
        Some(parent) => make_folder(parent),
        None => Ok(()),
    }
}

/// Creates a folder and its parents, unless it exists.
pub(super) fn make_folder(path: &Path) -> Result<(), WorkspaceError> {
    let mut folders = DirBuilder::new();
    let created = folders.recursive(true).mode(FOLDER_MODE).create(path);
    created.map_err(io_error(CREATE, path))
}

/// Creates a file, folder or link with the folders around it. A folder gets its mode by `set_folder_modes`, when all that is in
/// it has been written.
pub(super) fn write_entry(
    directory: &Path,
    entry: &WorkspaceEntry<'_>,
    source: &TaskFileSource<'_>,
) -> Result<(), WorkspaceError> {
    let path = directory.join(&entry.path);
    make_folders(directory, &path)?;
    match entry.kind {
        WorkspaceEntryKind::Folder { .. } => make_folder(&path),
        WorkspaceEntryKind::File { mode, content } => write(&path, mode, content, source),
        WorkspaceEntryKind::Link { target } => symlink(target, &path).map_err(io_error(CREATE, &path)),
    }
}

/// Creates a file and writes its content.
pub(super) fn write(
    path: &Path,
    mode: u32,
    content: EntryContent<'_>,
    source: &TaskFileSource<'_>,
) -> Result<(), WorkspaceError> {
    (source.progress)()?;
    let file = create(path, mode)?;
    fill(&file, path, content, source)?;
    set_mode(&file, path, mode)
}

pub(super) fn create(path: &Path, mode: u32) -> Result<File, WorkspaceError> {
    // `create_new`: no two files of a workspace collide, and the last task has left nothing.
    let mut create = OpenOptions::new();
    create.write(true).create_new(true).mode(first_mode(mode));
    create.open(path).map_err(io_error(CREATE, path))
}

/// The mode of a file while it is written. Its own may forbid that.
fn first_mode(mode: u32) -> u32 {
    mode & EXECUTABLE_MODE | 0o600
}

/// Gives a file that was written its mode, if that is an unusual one.
pub(super) fn set_mode(file: &File, path: &Path, mode: u32) -> Result<(), WorkspaceError> {
    match mode == first_mode(mode) {
        true => Ok(()),
        false => file
            .set_permissions(Permissions::from_mode(mode))
            .map_err(io_error("change the mode of", path)),
    }
}

/// Gives the folders that were written their modes, if those are unusual ones.
pub(super) fn set_folder_modes(
    directory: &Path,
    entries: &[WorkspaceEntry<'_>],
) -> Result<(), WorkspaceError> {
    // Inner folders come first, because an outer one may forbid the way to them.
    for entry in entries.iter().rev() {
        if let WorkspaceEntryKind::Folder { mode } = entry.kind
            && mode != FOLDER_MODE
        {
            let path = directory.join(&entry.path);
            std::fs::set_permissions(&path, Permissions::from_mode(mode))
                .map_err(io_error("change the mode of", &path))?;
        }
    }
    Ok(())
}

pub(super) fn fill(
    mut out: &File,
    path: &Path,
    content: EntryContent<'_>,
    source: &TaskFileSource<'_>,
) -> Result<(), WorkspaceError> {
    match content {
        EntryContent::OfTask(Content::Inline(bytes)) => out.write_all(bytes).map_err(io_error("write", path)),
        EntryContent::Bytes(bytes) => out.write_all(bytes).map_err(io_error("write", path)),
        EntryContent::OfTask(Content::Blob(hash)) => {
            // A copy and not a hard link, because the task may write to its file.
            let blob = source.cache.open_blob(hash);
            let blob = blob.map_err(io_error("open the cached content of", path))?;
            copy(&blob, out, path, source)
        }
        EntryContent::Part { file, offset, bytes } => {
            (source.progress)()?;
            copy_part(file, offset, bytes, out).map_err(io_error("write", path))
        }
    }
}

/// Copies in parts, so that a large file reports progress.
fn copy(from: &File, mut to: &File, path: &Path, source: &TaskFileSource<'_>) -> Result<(), WorkspaceError> {
    while io::copy(&mut from.take(PART), &mut to).map_err(io_error("write", path))? > 0 {
        (source.progress)()?;
    }
    Ok(())
}

/// Other slots may read the same file, so its position is not used.
fn copy_part(from: &File, offset: u64, bytes: u64, mut to: &File) -> io::Result<()> {
    let buffer_bytes = usize::try_from(bytes).map_or(READ_AT_ONCE, |bytes| bytes.min(READ_AT_ONCE));
    let mut buffer = vec![0; buffer_bytes];
    let mut copied = 0;
    while copied < bytes {
        let wanted = usize::try_from(bytes - copied).map_or(READ_AT_ONCE, |left| left.min(READ_AT_ONCE));
        match from.read_at(&mut buffer[..wanted], offset + copied) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                to.write_all(&buffer[..count])?;
                copied += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &'static str) -> WorkspaceEntry<'static> {
        let path = Path::new(path);
        let target = Path::new("/nowhere");
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("file") => WorkspaceEntry::readable(path, EntryContent::Bytes(b"x")),
            Some("link") => WorkspaceEntry {
                path: path.into(),
                kind: WorkspaceEntryKind::Link { target },
            },
            _ => WorkspaceEntry::folder(path),
        }
    }

    #[test]
    fn what_is_put_over_a_workspace_replaces_what_is_in_its_way() {
        let check = |below: &[&'static str], over: &[&'static str], expected: &[&str]| {
            let mut contents = WorkspaceContents {
                entries: below.iter().map(|path| entry(path)).collect(),
                ..WorkspaceContents::default()
            };
            contents.put_over(over.iter().map(|path| entry(path)).collect());
            let found: Vec<_> = contents
                .entries
                .iter()
                .map(|entry| entry.path.to_str().unwrap())
                .collect();
            assert_eq!(found, expected);
        };
        check(&["a", "a/b.file"], &[], &["a", "a/b.file"]);
        check(&["a", "a/b.file"], &["a/c.file"], &["a", "a/b.file", "a/c.file"]);
        check(&["a.file", "ab.file"], &["a.file"], &["ab.file", "a.file"]);
        // A folder gives way to a file.
        check(&["a.file", "a.file/b.file"], &["a.file"], &["a.file"]);
        // A link never leads a new file elsewhere, and links stay last.
        check(&["x", "d.link"], &["d.link/y.file"], &["x", "d.link/y.file"]);
        check(&["x", "d.link"], &["y.file"], &["x", "y.file", "d.link"]);
        check(&["x", "d.file"], &["d.file/y.file"], &["x", "d.file/y.file"]);
        // Neighbours with the same beginning of their names stay.
        check(
            &["a", "a/b.file", "a/b.file-", "a-b.file", "ab.file", "b"],
            &["a/b.file"],
            &["a", "a/b.file-", "a-b.file", "ab.file", "b", "a/b.file"],
        );
        // A file and the folder around it are both put over what is there.
        check(
            &["c", "c/x.file", "c/d", "c/d/y.file", "e.file"],
            &["c/d", "c", "c/d/z.file"],
            &["e.file", "c/d", "c", "c/d/z.file"],
        );
        check(
            &["a.file"],
            &["a.file/b.file", "a.file/c.file"],
            &["a.file/b.file", "a.file/c.file"],
        );
    }
}
