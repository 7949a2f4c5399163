//! The settings of the cells of one warden, which the owner decides before it starts the warden.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cgroup::CgroupRoot;
use crate::spec::CommandLimits;
use crate::subordinate_ids::SubordinateIds;
use crate::wire;

/// The path of the workspace in every cell.
pub const WORKSPACE: &str = "/box";

/// How a warden creates its cells: root file system, user, cgroup, default limits, space and networks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CellSettings {
    /// The entries of the root file system, in addition to those that every cell has.
    pub root_entries: Vec<RootEntry>,
    /// The user and group id of the commands, if the warden is root.
    pub user: u32,
    /// The ids from which the user of the commands is taken, if the warden is an ordinary user. `None` means that
    /// they run as the same user.
    pub subordinate_ids: Option<SubordinateIds>,
    /// The maximum number of open files of a command, regardless of its own limit.
    pub max_open_files: Option<u64>,
    /// The cgroup root, and the name of this warden's group. `None` if the operator does without control groups.
    pub group: Option<(CgroupRoot, String)>,
    /// The limits of a command that asks for none.
    pub default_limits: DefaultCommandLimits,
    /// Bytes that all files of a task may have together.
    pub space: u64,
    /// How many files and folders a task may have.
    pub max_files: u64,
    /// The networks that a command may ask for.
    pub networks: Vec<NamedNetwork>,
}

/// The memory, process and open-file limits of commands in cells that ask for none. `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultCommandLimits {
    pub memory: Option<u64>,
    pub processes: Option<u32>,
    /// The limit of each process.
    pub open_files: Option<u64>,
}

impl DefaultCommandLimits {
    pub(crate) fn fill_in(self, limits: CommandLimits) -> CommandLimits {
        CommandLimits {
            memory: limits.memory.or(self.memory),
            processes: limits.processes.or(self.processes),
            open_files: limits.open_files.or(self.open_files),
            ..limits
        }
    }
}

/// A network for cells that the operator has created: its name, and the file of its network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedNetwork {
    pub name: String,
    #[serde(with = "wire::path")]
    pub namespace: PathBuf,
}

/// One entry of the root file system of every cell: a read-only bind mount, a copied file or a symlink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootEntry {
    /// A file or folder of the host, mounted read-only.
    Bind {
        #[serde(with = "wire::path")]
        from: PathBuf,
        #[serde(with = "wire::path")]
        to: PathBuf,
    },
    /// A copy of a small file of the host, made when the warden starts. It is cheaper than a mount, which each cell
    /// must copy.
    Copy {
        #[serde(with = "wire::path")]
        from: PathBuf,
        #[serde(with = "wire::path")]
        to: PathBuf,
    },
    Symlink {
        #[serde(with = "wire::path")]
        at: PathBuf,
        #[serde(with = "wire::path")]
        target: PathBuf,
    },
}

/// Folders of the host with programs and their libraries.
const PROGRAM_FOLDERS: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// The configuration files of the host that programs need to start: libraries, alternatives, time zone, certificates,
/// and what Java requires.
const CONFIGURATION_FILES: [&str; 9] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/ssl/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/mime.types",
];

/// Top-level folders that every cell has itself. Such a folder of a given root is ignored.
pub(crate) const RESERVED_NAMES: [&str; 6] = ["proc", "sys", "dev", "tmp", "run", "box"];

impl RootEntry {
    /// The path of the entry in the cell.
    pub(crate) fn path_in_cell(&self) -> &Path {
        match self {
            RootEntry::Bind { to, .. } | RootEntry::Copy { to, .. } => to,
            RootEntry::Symlink { at, .. } => at,
        }
    }

    /// The programs of the host, without its data and most of its configuration.
    pub fn of_host() -> io::Result<Vec<RootEntry>> {
        let mut entries = Vec::new();
        for path in PROGRAM_FOLDERS {
            entries.extend(root_entry(Path::new(path), Path::new(path))?);
        }
        for path in CONFIGURATION_FILES {
            let root_entry = root_entry(Path::new(path), Path::new(path))?;
            entries.extend(root_entry.map(RootEntry::copy_if_small));
        }
        for entry in fs::read_dir("/etc").into_iter().flatten() {
            let path = entry?.path();
            if path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("java-"))
            {
                entries.extend(root_entry(&path, &path)?);
            }
        }
        Ok(entries)
    }

    fn copy_if_small(self) -> RootEntry {
        const SMALL: u64 = 256 << 10;
        let is_small = |path: &Path| fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= SMALL);
        match self {
            RootEntry::Bind { from, to } if is_small(&from) => RootEntry::Copy { from, to },
            root_entry => root_entry,
        }
    }

    /// A folder with a complete root file system, for example an unpacked container image.
    pub fn of_folder(folder: &Path) -> io::Result<Vec<RootEntry>> {
        let mut entries = Vec::new();
        let mut found: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
        found.sort_by_key(|entry| entry.file_name());
        for entry in found {
            let name = entry.file_name();
            if !RESERVED_NAMES.iter().any(|own| name == *own) {
                entries.extend(root_entry(&entry.path(), &Path::new("/").join(name))?);
            }
        }
        Ok(entries)
    }
}

/// Symbolic links stay links: `/bin` is one on most machines.
fn root_entry(from: &Path, to: &Path) -> io::Result<Option<RootEntry>> {
    match fs::symlink_metadata(from) {
        Ok(metadata) if metadata.is_symlink() => Ok(Some(RootEntry::Symlink {
            at: to.into(),
            target: fs::read_link(from)?,
        })),
        Ok(_) => Ok(Some(RootEntry::Bind {
            from: from.into(),
            to: to.into(),
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
