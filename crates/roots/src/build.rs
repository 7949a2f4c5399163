//! Makes a root of Debian packages, with `mmdebstrap` or `debootstrap`.
//!
//! The tool writes a tar archive, which is unpacked as one that is imported. So a root has the same properties, however it
//! was made, and everything else that the tool writes is temporary.
#![allow(
    clippy::disallowed_types,
    reason = "this module starts a program that makes a root file system"
)]

mod apt_sources;
mod names;
mod tool;
mod tool_output;

use std::io;
use std::path::PathBuf;

use model::RootName;
use thiserror::Error;

use crate::InterruptFlag;
use crate::import::{PublishError, publish};
use crate::store::{NewRoot, RootStore, RootStoreError, WorkFolder};
use crate::unpack::{ArchiveKind, UnpackError, UnpackLimits, Unpacker};
pub use names::{InvalidBuildName, MirrorUrl, PackageName, PipRequirement, SuiteName};
use tool::DebianTool;
use tool_output::ToolOutput;

/// Which packages a root is made of.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    pub name: RootName,
    pub packages: Vec<PackageName>,
    /// Python packages, installed with the `pip` of the new root.
    pub pip: Vec<PipRequirement>,
    /// The release of Debian; by default that of this machine.
    pub suite: Option<SuiteName>,
    /// Where packages come from; by default the sources of this machine, if it has the same release.
    pub mirror: Option<MirrorUrl>,
    pub limits: UnpackLimits,
    pub interrupt: InterruptFlag,
}

/// Why a root could not be built. Nothing of it is left in the folder of the roots.
#[derive(Debug, Error)]
pub enum BuildError {
    #[error("neither mmdebstrap nor debootstrap is installed; install one: apt-get install mmdebstrap")]
    NoTool,
    #[error(
        "debootstrap can be run by root only; run this as root, or install mmdebstrap: apt-get install mmdebstrap"
    )]
    NeedsRoot,
    #[error("could not start {program}")]
    Start {
        program: &'static str,
        source: io::Error,
    },
    #[error("{program} failed ({status}); its messages are above")]
    Tool { program: &'static str, status: String },
    #[error("{program} has not ended after {} hours", TIME_LIMIT_HOURS)]
    TimeLimit { program: &'static str },
    #[error("what {program} has made cannot be unpacked")]
    Unpack {
        program: &'static str,
        source: UnpackError,
    },
    #[error("could not write {path:?}")]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Store(#[from] RootStoreError),
    #[error("{program} has written an archive without files")]
    Empty { program: &'static str },
    #[error("interrupted; nothing was built")]
    Interrupted,
}

/// Packages are downloaded, and a slow line needs time.
const TIME_LIMIT_HOURS: u64 = 2;

/// Makes a root, and replaces one of the same name. The tool's messages go to stderr.
pub fn build(store: &RootStore, options: &BuildOptions) -> Result<NewRoot, BuildError> {
    let tool = DebianTool::find()?;
    let program = tool.program();
    let work = WorkFolder::begin(store, &options.name, &options.interrupt)?;
    let (tree, scratch) = (work.tree(), work.scratch());
    let prepared = tool
        .prepare(options, &scratch)
        .map_err(|source| BuildError::Write {
            path: scratch.clone(),
            source,
        })?;
    let description = prepared.description.clone();
    let mut output = ToolOutput::start(&prepared, &options.interrupt)
        .map_err(|source| BuildError::Start { program, source })?;
    let mut unpacker = Unpacker::new(&tree, options.limits, &options.interrupt, &is_left_out)
        .map_err(|source| BuildError::Write { path: tree, source })?;
    let unpacked = unpacker.unpack(&mut output, ArchiveKind::RootFileSystem);
    let has_timed_out = output.has_timed_out();
    let status = output
        .finish()
        .map_err(|source| BuildError::Start { program, source })?;
    if options.interrupt.is_interrupted() {
        return Err(BuildError::Interrupted);
    }
    if has_timed_out {
        return Err(BuildError::TimeLimit { program });
    }
    match unpacked {
        // The tool fails as well when its output is refused, so only an incomplete archive is its own failure.
        Err(source) if !source.is_truncated() => return Err(BuildError::Unpack { program, source }),
        _ if !status.success() => {
            return Err(BuildError::Tool {
                program,
                status: status.to_string(),
            });
        }
        Err(source) => return Err(BuildError::Unpack { program, source }),
        Ok(()) => {}
    }
    let dropped = unpacker.finish().ok_or(BuildError::Empty { program })?;
    publish(work, &description, dropped, options.limits, &options.interrupt).map_err(|error| match error {
        PublishError::Write { path, source } => BuildError::Write { path, source },
        PublishError::Store(error) => BuildError::Store(error),
        PublishError::Interrupted => BuildError::Interrupted,
    })
}

/// Documentation, translations, and what the package manager needs. Licences are kept. The sources and the configuration of apt may
/// contain passwords of this machine.
fn is_left_out(path: &[u8]) -> bool {
    const FOLDERS: [&[u8]; 9] = [
        b"usr/share/doc/",
        b"usr/share/info/",
        b"usr/share/lintian/",
        b"usr/share/locale/",
        b"usr/share/man/",
        b"var/cache/apt/",
        b"var/lib/apt/lists/",
        b"var/log/",
        b"etc/apt/sources.list.d/",
    ];
    const FILES: [&[u8]; 7] = [
        b"etc/apt/sources.list",
        b"etc/apt/apt.conf.d/99mmdebstrap",
        b"etc/apt/auth.conf",
        b"etc/dpkg/dpkg.cfg.d/99mmdebstrap",
        b"etc/resolv.conf",
        b"etc/hostname",
        b"var/cache/ldconfig/aux-cache",
    ];
    if path.starts_with(b"usr/share/doc/") && path.ends_with(b"/copyright") {
        return false;
    }
    FILES.contains(&path) || FOLDERS.iter().any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documentation_and_caches_are_left_out_and_licences_are_kept() {
        for path in [
            "usr/share/doc/bash/README",
            "usr/share/locale/de/LC_MESSAGES/bash.mo",
            "var/cache/apt/pkgcache.bin",
            "etc/apt/sources.list",
        ] {
            assert!(is_left_out(path.as_bytes()), "{path}");
        }
        for path in [
            "usr/share/doc",
            "usr/share/doc/bash/copyright",
            "usr/share/documents",
            "usr/lib/locale/C.utf8/LC_CTYPE",
            "etc/apt",
        ] {
            assert!(!is_left_out(path.as_bytes()), "{path}");
        }
    }
}
