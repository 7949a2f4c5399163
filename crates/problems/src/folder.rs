//! The folder of a package: lists and reads files, and never leaves the folder.

use std::cell::Cell;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use model::WorkspacePath;

use crate::error::PackageError;
use crate::package::{PackageContent, PackageFile};

/// The folder of a package.
#[derive(Debug)]
pub(crate) struct PackageFolder {
    root: PathBuf,
    /// Without links, to find out what is inside.
    real_root: PathBuf,
    /// Bytes of all files so far.
    bytes: Cell<u64>,
    entries: Cell<usize>,
}

/// A file or folder in a package.
#[derive(Clone, Debug)]
pub(crate) struct FolderEntry {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) kind: EntryKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File { executable: bool },
    Folder,
}

/// The largest file, and all files that are returned together. Whole packages of contests have less.
const MAX_FILE_BYTES: u64 = 1 << 30;
const MAX_BYTES: u64 = 8 << 30;
/// Every case has a handful of files.
const MAX_ENTRIES: usize = 100_000;
/// A link to a folder above it would never end.
pub(crate) const MAX_DEPTH: usize = 16;
/// Settings and sources are loaded as a whole.
const MAX_TEXT_BYTES: u64 = 4 << 20;

impl PackageFolder {
    pub(crate) fn open(root: &Path) -> Result<PackageFolder, PackageError> {
        let real_root = fs::canonicalize(root).map_err(PackageError::read(root))?;
        if !real_root.is_dir() {
            return Err(PackageError::NoFolder { path: root.into() });
        }
        Ok(PackageFolder {
            root: root.to_path_buf(),
            real_root,
            bytes: Cell::new(0),
            entries: Cell::new(0),
        })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The name of the folder itself.
    pub(crate) fn name(&self) -> String {
        let name = self.real_root.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Whether this is a package of Polygon: `problem.xml`, or `tests/01`.
    pub(crate) fn is_polygon(&self) -> Result<bool, PackageError> {
        match (self.find("problem.xml")?, self.find("tests")?) {
            (Some(_), _) => Ok(true),
            (None, Some(tests)) => Ok(self.find_in(&tests.path, "01")?.is_some()),
            (None, None) => Ok(false),
        }
    }

    /// A file or folder directly in the package, if it exists.
    pub(crate) fn find(&self, name: &str) -> Result<Option<FolderEntry>, PackageError> {
        self.find_in(&self.root, name)
    }

    pub(crate) fn find_in(&self, folder: &Path, name: &str) -> Result<Option<FolderEntry>, PackageError> {
        let path = folder.join(name);
        match fs::symlink_metadata(&path) {
            Ok(_) => self.entry(name.to_string(), path).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(PackageError::Read { path, source }),
        }
    }

    /// What is in a folder, by name. Names that begin with a dot are those of tools, and no part of the package.
    pub(crate) fn entries(&self, folder: &Path) -> Result<Vec<FolderEntry>, PackageError> {
        let mut found = vec![];
        for entry in fs::read_dir(folder).map_err(PackageError::read(folder))? {
            let path = entry.map_err(PackageError::read(folder))?.path();
            let name = path.file_name().unwrap_or_default();
            let Some(name) = name.to_str().map(String::from) else {
                return Err(PackageError::NameNotUtf8 { path });
            };
            if name.starts_with('.') || name == "__pycache__" {
                continue;
            }
            self.count_entry()?;
            found.push(self.entry(name, path)?);
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn count_entry(&self) -> Result<(), PackageError> {
        let entries = self.entries.get() + 1;
        self.entries.set(entries);
        match entries > MAX_ENTRIES {
            true => Err(PackageError::TooManyFiles {
                path: self.root.clone(),
                limit: MAX_ENTRIES,
            }),
            false => Ok(()),
        }
    }

    fn entry(&self, name: String, path: PathBuf) -> Result<FolderEntry, PackageError> {
        // All links on the way are resolved, also those of folders above.
        let real = fs::canonicalize(&path).map_err(PackageError::read(&path))?;
        if !real.starts_with(&self.real_root) {
            return Err(PackageError::LeavesPackage { path, target: real });
        }
        let metadata = fs::metadata(&real).map_err(PackageError::read(&path))?;
        let kind = match metadata.file_type() {
            kind if kind.is_dir() => EntryKind::Folder,
            kind if kind.is_file() => EntryKind::File {
                executable: metadata.permissions().mode() & 0o100 != 0,
            },
            _ => return Err(PackageError::SpecialFile { path }),
        };
        Ok(FolderEntry { name, path, kind })
    }

    /// Counts a file that is part of the result, and finds out now whether it can be read.
    pub(crate) fn take_file(&self, entry: &FolderEntry) -> Result<PathBuf, PackageError> {
        if entry.kind == EntryKind::Folder {
            return Err(PackageError::Read {
                path: entry.path.clone(),
                source: std::io::ErrorKind::IsADirectory.into(),
            });
        }
        let file = fs::File::open(&entry.path).map_err(PackageError::read(&entry.path))?;
        let length = file.metadata().map_err(PackageError::read(&entry.path))?.len();
        if length > MAX_FILE_BYTES {
            return Err(PackageError::FileTooLarge {
                path: entry.path.clone(),
                actual: length,
                limit: MAX_FILE_BYTES,
            });
        }
        self.bytes.set(self.bytes.get() + length);
        match self.bytes.get() > MAX_BYTES {
            true => Err(PackageError::TooLarge {
                path: self.root.clone(),
                limit: MAX_BYTES,
            }),
            false => Ok(entry.path.clone()),
        }
    }

    /// A file as part of a program, under its name.
    pub(crate) fn program_file(&self, entry: &FolderEntry, path: &str) -> Result<PackageFile, PackageError> {
        let place = WorkspacePath::new(path).map_err(|problem| PackageError::FilePath {
            path: entry.path.clone(),
            problem,
        })?;
        let content = PackageContent::Path(self.take_file(entry)?);
        let executable = matches!(entry.kind, EntryKind::File { executable: true });
        Ok(PackageFile {
            path: place,
            content,
            executable,
        })
    }

    /// All files of a folder and its folders, with their paths in it.
    pub(crate) fn files_under(&self, folder: &Path) -> Result<Vec<PackageFile>, PackageError> {
        let mut found = vec![];
        let mut open = vec![(folder.to_path_buf(), String::new(), 0)];
        while let Some((folder, prefix, depth)) = open.pop() {
            if depth > MAX_DEPTH {
                return Err(PackageError::TooDeep {
                    path: folder,
                    limit: MAX_DEPTH,
                });
            }
            for entry in self.entries(&folder)? {
                let path = format!("{prefix}{}", entry.name);
                match entry.kind {
                    EntryKind::Folder => open.push((entry.path, format!("{path}/"), depth + 1)),
                    EntryKind::File { .. } => found.push(self.program_file(&entry, &path)?),
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// A file of settings as text.
    pub(crate) fn text(&self, path: &Path) -> Result<String, PackageError> {
        String::from_utf8(bounded_bytes(path)?).map_err(|_| PackageError::TextNotUtf8 { path: path.into() })
    }
}

/// The bytes of a file that is no data: settings or source.
pub(crate) fn bounded_bytes(path: &Path) -> Result<Vec<u8>, PackageError> {
    let file = fs::File::open(path).map_err(PackageError::read(path))?;
    let mut bytes = vec![];
    let mut bounded = file.take(MAX_TEXT_BYTES + 1);
    bounded
        .read_to_end(&mut bytes)
        .map_err(PackageError::read(path))?;
    match bytes.len() as u64 > MAX_TEXT_BYTES {
        true => Err(PackageError::FileTooLarge {
            path: path.to_path_buf(),
            actual: fs::metadata(path).map_or(MAX_TEXT_BYTES + 1, |metadata| metadata.len()),
            limit: MAX_TEXT_BYTES,
        }),
        false => Ok(bytes),
    }
}
