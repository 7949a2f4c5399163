//! How the cells of one warden are to be made. Decided by the owner, before anything is done.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cgroup::Place;
use crate::spec::Limits;
use crate::subordinate::Subordinates;
use crate::wire;

/// Where commands find their files, in every cell.
pub const WORKSPACE: &str = "/box";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CellSettings {
    /// What lies in the root beside what every cell has.
    pub root: Vec<Part>,
    /// User and group that commands run as, where the warden is root.
    pub user: u32,
    /// Of whom commands are one, where the warden is an ordinary user. None: they are that user as well.
    pub subordinates: Option<Subordinates>,
    /// Files that a command may have open at most, whatever it asks for.
    pub most_open_files: Option<u64>,
    /// Where the groups are, and the name of this warden's. None: the operator does without.
    pub group: Option<(Place, String)>,
    /// What a command may have that asks for no limit of its own.
    pub usual: Usual,
    /// Bytes that a task may have in files, all its folders together.
    pub space: u64,
    /// Files and folders that a task may have.
    pub files: u64,
    /// Networks that a command may ask for: a name, and a network namespace that the operator has made.
    pub networks: Vec<Network>,
}

/// Limits of commands that ask for none. `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usual {
    pub memory: Option<u64>,
    pub processes: Option<u32>,
    /// For each process.
    pub open_files: Option<u64>,
}

impl Usual {
    pub(crate) fn complete(self, limits: Limits) -> Limits {
        Limits {
            memory: limits.memory.or(self.memory),
            processes: limits.processes.or(self.processes),
            open_files: limits.open_files.or(self.open_files),
            ..limits
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    pub name: String,
    #[serde(with = "wire::path")]
    pub namespace: PathBuf,
}

/// One entry of the root of every cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// A file or folder of the host, to be read only.
    Bind {
        #[serde(with = "wire::path")]
        from: PathBuf,
        #[serde(with = "wire::path")]
        to: PathBuf,
    },
    /// A small file of the host, as it is when the warden starts. Each mount is a cost to every cell.
    Copy {
        #[serde(with = "wire::path")]
        from: PathBuf,
        #[serde(with = "wire::path")]
        to: PathBuf,
    },
    Link {
        #[serde(with = "wire::path")]
        at: PathBuf,
        #[serde(with = "wire::path")]
        target: PathBuf,
    },
}

/// Folders of the host that hold programs and what these need.
const PROGRAMS: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Of the host's settings only what programs need to start: which libraries there are, which program a name stands
/// for, the time zone, the certificates, and what Java will not start without.
const CONFIGURATION: [&str; 9] = [
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

/// What every cell has of its own; a root that brings these does not change that.
pub(crate) const OWN: [&str; 6] = ["proc", "sys", "dev", "tmp", "run", "box"];

impl Part {
    /// Where it is in the cell.
    pub(crate) fn place(&self) -> &Path {
        match self {
            Part::Bind { to, .. } | Part::Copy { to, .. } => to,
            Part::Link { at, .. } => at,
        }
    }

    /// The host's own programs, without its data and without its settings.
    pub fn of_host() -> io::Result<Vec<Part>> {
        let mut parts = Vec::new();
        for path in PROGRAMS {
            parts.extend(part(Path::new(path), Path::new(path))?);
        }
        for path in CONFIGURATION {
            let part = part(Path::new(path), Path::new(path))?;
            parts.extend(part.map(Part::copied_if_small));
        }
        for entry in fs::read_dir("/etc").into_iter().flatten() {
            let path = entry?.path();
            if path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("java-"))
            {
                parts.extend(part(&path, &path)?);
            }
        }
        Ok(parts)
    }

    fn copied_if_small(self) -> Part {
        const SMALL: u64 = 256 << 10;
        let is_small = |path: &Path| fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= SMALL);
        match self {
            Part::Bind { from, to } if is_small(&from) => Part::Copy { from, to },
            part => part,
        }
    }

    /// A folder with a whole root file system, as an image unpacks to.
    pub fn of_folder(folder: &Path) -> io::Result<Vec<Part>> {
        let mut parts = Vec::new();
        let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            let name = entry.file_name();
            if !OWN.iter().any(|own| name == *own) {
                parts.extend(part(&entry.path(), &Path::new("/").join(name))?);
            }
        }
        Ok(parts)
    }
}

/// Links stay links: `/bin` is one on most machines.
fn part(from: &Path, to: &Path) -> io::Result<Option<Part>> {
    match fs::symlink_metadata(from) {
        Ok(metadata) if metadata.is_symlink() => Ok(Some(Part::Link {
            at: to.into(),
            target: fs::read_link(from)?,
        })),
        Ok(_) => Ok(Some(Part::Bind {
            from: from.into(),
            to: to.into(),
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
