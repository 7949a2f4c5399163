//! A folder of roots for a test, beside a folder that no import may touch.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::RootName;
use roots::{ImportError, ImportOptions, InstalledRoot, InterruptFlag, NewRoot, RootStore, UnpackLimits};

/// A folder of roots for a test, beside a folder that no import may touch.
pub(crate) struct TestRoots {
    pub(crate) store: RootStore,
    folder: tempfile::TempDir,
}

/// What a file in a root is, as far as tests compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileContent {
    Folder { mode: u32 },
    File { mode: u32, content: Vec<u8> },
    Link { target: PathBuf },
    Other,
}

pub(crate) fn name(text: &str) -> RootName {
    RootName::new(text).unwrap()
}

/// Small enough for hostile archives of a test.
pub(crate) fn test_limits() -> UnpackLimits {
    UnpackLimits {
        max_size: 64 << 20,
        ..UnpackLimits::default()
    }
}

pub(crate) fn import_options(root: &str, source: &Path) -> ImportOptions {
    ImportOptions {
        name: name(root),
        source: source.to_path_buf(),
        limits: test_limits(),
        interrupt: InterruptFlag::default(),
    }
}

impl TestRoots {
    pub(crate) fn new() -> TestRoots {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("outside/victim"), "old").unwrap();
        TestRoots {
            store: RootStore::open(&folder.path().join("roots")),
            folder,
        }
    }

    /// A path beside the roots, for archives.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.path("outside")
    }

    pub(crate) fn import(&self, root: &str, source: &Path) -> Result<NewRoot, ImportError> {
        roots::import(&self.store, &import_options(root, source))
    }

    pub(crate) fn import_bytes(&self, root: &str, archive: &[u8]) -> Result<NewRoot, ImportError> {
        let path = self.path("archive");
        fs::write(&path, archive).unwrap();
        self.import(root, &path)
    }

    /// Imports an archive that must be accepted, and returns the folder of its files.
    pub(crate) fn import_tree(&self, archive: &[u8]) -> PathBuf {
        let new = self
            .import_bytes("r", archive)
            .unwrap_or_else(|error| panic!("{}", causes(&error)));
        new.find(&self.store).unwrap().unwrap().folder
    }

    pub(crate) fn get(&self, root: &str) -> Option<InstalledRoot> {
        self.store.get(&name(root)).unwrap()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let list = self.store.list().unwrap();
        assert!(list.damaged.is_empty(), "{list:?}");
        list.roots.iter().map(|root| root.name.to_string()).collect()
    }

    /// Everything in the folder of roots, hidden names included.
    pub(crate) fn entries(&self) -> Vec<String> {
        entries(self.store.folder())
    }

    /// Checks that a refused import has left nothing, neither in the folder of roots nor beside it.
    pub(crate) fn assert_nothing_left(&self, what: &str) {
        assert_eq!(self.entries(), Vec::<String>::new(), "{what}");
        assert_eq!(entries(&self.outside()), ["victim"], "{what}");
        assert_eq!(fs::read(self.outside().join("victim")).unwrap(), b"old", "{what}");
    }
}

pub(crate) fn entries(folder: &Path) -> Vec<String> {
    let Ok(read) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = read
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The error with its causes, as the command line prints it.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    error_causes::with_causes(error)
}

/// Every file below a folder, by its path.
pub(crate) fn read_tree(folder: &Path) -> BTreeMap<Vec<u8>, FileContent> {
    let mut files = BTreeMap::new();
    read_into(folder, folder, &mut files);
    files
}

fn read_into(base: &Path, folder: &Path, files: &mut BTreeMap<Vec<u8>, FileContent>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let mode = metadata.mode() & 0o7777;
        let content = match metadata.file_type() {
            kind if kind.is_dir() => FileContent::Folder { mode },
            kind if kind.is_symlink() => FileContent::Link {
                target: fs::read_link(&path).unwrap(),
            },
            kind if kind.is_file() => FileContent::File {
                mode,
                content: fs::read(&path).unwrap(),
            },
            _ => FileContent::Other,
        };
        let relative = path.strip_prefix(base).unwrap().as_os_str().as_bytes().to_vec();
        if metadata.is_dir() {
            read_into(base, &path, files);
        }
        files.insert(relative, content);
    }
}

/// The paths of a tree, for short comparisons.
pub(crate) fn paths(folder: &Path) -> Vec<String> {
    let tree = read_tree(folder);
    tree.keys()
        .map(|path| String::from_utf8_lossy(path).into_owned())
        .collect()
}
