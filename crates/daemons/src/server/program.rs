//! Finds the program of a server, and checks that its version is new enough.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

/// The program of etcd or mongod: its name, its oldest supported version, and what error messages say about it.
#[derive(Debug)]
pub(crate) struct ServerProgram {
    pub(crate) name: &'static str,
    /// The config key for its path.
    pub(crate) key: &'static str,
    pub(crate) install: &'static str,
    pub(crate) oldest: ProgramVersion,
}

/// The version of an etcd or mongod program: major, minor, patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProgramVersion(pub(crate) u32, pub(crate) u32, pub(crate) u32);

impl fmt::Display for ProgramVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Why the program of etcd or mongod cannot be used, and what to do about it.
#[derive(Debug, Error)]
pub enum ProgramError {
    #[error("{name} is not on the PATH; install it ({install}) or set {key} to its path")]
    NotOnPath {
        name: String,
        install: &'static str,
        key: &'static str,
    },
    #[error("there is no program {path:?}; install {name} ({install}) or correct {key}")]
    NotThere {
        path: PathBuf,
        name: &'static str,
        install: &'static str,
        key: &'static str,
    },
    #[error("could not run {path:?} --version; correct {key}")]
    Run {
        path: PathBuf,
        key: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{path:?} --version does not print a version of {name}; correct {key}")]
    NoVersion {
        path: PathBuf,
        name: &'static str,
        key: &'static str,
    },
    #[error(
        "{path:?} is {name} {found}, but {oldest} or newer is needed; upgrade it or set {key} to a newer one"
    )]
    TooOld {
        path: PathBuf,
        name: &'static str,
        found: String,
        oldest: String,
        key: &'static str,
    },
}

impl ServerProgram {
    /// Looks for a name without a slash on the PATH.
    pub(crate) fn find(&self, program: &Path) -> Result<PathBuf, ProgramError> {
        if program.components().count() > 1 || program.is_absolute() {
            return match is_executable(program) {
                true => Ok(program.to_path_buf()),
                false => Err(ProgramError::NotThere {
                    path: program.to_path_buf(),
                    name: self.name,
                    install: self.install,
                    key: self.key,
                }),
            };
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .map(|folder| folder.join(program))
            .find(|candidate| is_executable(candidate))
            .ok_or_else(|| ProgramError::NotOnPath {
                name: program.display().to_string(),
                install: self.install,
                key: self.key,
            })
    }

    /// Runs `PROGRAM --version`, and refuses a version that is too old.
    pub(crate) fn version(&self, path: &Path) -> Result<ProgramVersion, ProgramError> {
        let output = Command::new(path)
            .arg("--version")
            .output()
            .map_err(|source| ProgramError::Run {
                path: path.to_path_buf(),
                key: self.key,
                source,
            })?;
        let found = first_version(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| {
            ProgramError::NoVersion {
                path: path.to_path_buf(),
                name: self.name,
                key: self.key,
            }
        })?;
        if found < self.oldest {
            return Err(ProgramError::TooOld {
                path: path.to_path_buf(),
                name: self.name,
                found: found.to_string(),
                oldest: self.oldest.to_string(),
                key: self.key,
            });
        }
        Ok(found)
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The first word that consists of three numbers, as in `etcd Version: 3.4.23` and `db version v6.0.5`.
fn first_version(text: &str) -> Option<ProgramVersion> {
    text.split_whitespace().find_map(|word| {
        let word = word.trim_start_matches('v');
        let mut numbers = word.splitn(3, '.').map(|part| {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..digits].parse().ok()
        });
        Some(ProgramVersion(
            numbers.next()??,
            numbers.next()??,
            numbers.next()??,
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETCD: ServerProgram = ServerProgram {
        name: "etcd",
        key: "etcd.program",
        install: "Debian: apt-get install etcd-server",
        oldest: ProgramVersion(3, 4, 0),
    };

    #[test]
    fn versions_are_parsed() {
        for (text, version) in [
            (
                "etcd Version: 3.4.23\nGit SHA: x\nGo Version: go1.19.8\n",
                Some(ProgramVersion(3, 4, 23)),
            ),
            (
                "db version v6.0.5\nBuild Info: {\n",
                Some(ProgramVersion(6, 0, 5)),
            ),
            ("etcd Version: 3.6.0-rc.1\n", Some(ProgramVersion(3, 6, 0))),
            ("hello\n", None),
            ("", None),
        ] {
            assert_eq!(first_version(text), version, "{text}");
        }
    }

    #[test]
    fn the_error_for_a_missing_program_says_what_to_do() {
        let check = |program: &str, message: &str| {
            assert_eq!(ETCD.find(Path::new(program)).unwrap_err().to_string(), message);
        };
        check(
            "no-such-etcd",
            "no-such-etcd is not on the PATH; install it (Debian: apt-get install etcd-server) or set etcd.program to its path",
        );
        check(
            "/nowhere/etcd",
            "there is no program \"/nowhere/etcd\"; install etcd (Debian: apt-get install etcd-server) or correct etcd.program",
        );
        assert_eq!(ETCD.find(Path::new("sh")).unwrap().file_name().unwrap(), "sh");
    }

    #[test]
    fn a_program_that_is_too_old_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let check = |script: &str, message: &str| {
            let path = folder.path().join("etcd");
            std::fs::write(&path, script).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            let error = ETCD.version(&path).unwrap_err().to_string();
            assert!(error.ends_with(message), "{error}");
        };
        check(
            "#!/bin/sh\necho etcd Version: 3.3.9\n",
            "is etcd 3.3.9, but 3.4.0 or newer is needed; upgrade it or set etcd.program to a newer one",
        );
        check(
            "#!/bin/sh\necho hello\n",
            "does not print a version of etcd; correct etcd.program",
        );
    }
}
