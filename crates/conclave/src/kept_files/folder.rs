//! A folder into which files are downloaded. No symbolic link below it is followed.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use model::WorkspacePath;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use uuid::Uuid;

/// The folder of `--to`, into which the kept files of a task are downloaded.
#[derive(Debug)]
pub(crate) struct DownloadFolder {
    path: PathBuf,
    descriptor: OwnedFd,
    existing: ExistingFiles,
}

/// Whether a download replaces files that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistingFiles {
    Refuse,
    Replace,
}

/// A file that is being downloaded, under a temporary name. It is removed unless it is kept.
#[derive(Debug)]
pub(crate) struct NewFile<'a> {
    folder: &'a DownloadFolder,
    path: &'a WorkspacePath,
    /// The folder that the file is in.
    parent: OwnedFd,
    temporary_name: String,
    file: File,
    is_kept: bool,
}

impl ExistingFiles {
    pub(crate) fn from_force(force: bool) -> ExistingFiles {
        match force {
            true => ExistingFiles::Replace,
            false => ExistingFiles::Refuse,
        }
    }
}

impl DownloadFolder {
    /// Opens the folder, and creates it if it does not exist.
    pub(crate) fn open(path: &Path, existing: ExistingFiles) -> Result<DownloadFolder> {
        fs::create_dir_all(path)
            .with_context(|| format!("could not create the folder {}", path.display()))?;
        let folder =
            File::open(path).with_context(|| format!("could not open the folder {}", path.display()))?;
        Ok(DownloadFolder {
            path: path.to_path_buf(),
            descriptor: folder.into(),
            existing,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses a path at which a file exists, unless existing files are replaced.
    pub(crate) fn check_free(&self, path: &WorkspacePath) -> Result<()> {
        if self.existing == ExistingFiles::Replace {
            return Ok(());
        }
        let (folders, name) = split(path);
        let parent = match self.walk(&folders, MissingFolder::Fail) {
            Ok(parent) => parent,
            Err(Errno::ENOENT) => return Ok(()),
            Err(error) => return Err(self.cannot_write(path, error)),
        };
        match fstatat(&parent, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Err(Errno::ENOENT) => Ok(()),
            Ok(_) => bail!(
                "{} exists; give another folder with --to, or --force to replace it",
                self.path.join(path.as_str()).display()
            ),
            Err(error) => Err(self.cannot_write(path, error)),
        }
    }

    /// Creates a file for the download of this path, and the folders that it is in.
    pub(crate) fn create<'a>(&'a self, path: &'a WorkspacePath, executable: bool) -> Result<NewFile<'a>> {
        let (folders, _) = split(path);
        let parent = self
            .walk(&folders, MissingFolder::Create)
            .map_err(|error| self.cannot_write(path, error))?;
        let temporary_name = format!(".conclave-{}", Uuid::now_v7().simple());
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        // The umask of this process applies.
        let mode = match executable {
            true => Mode::from_bits_truncate(0o777),
            false => Mode::from_bits_truncate(0o666),
        };
        let file = openat(&parent, temporary_name.as_str(), flags, mode)
            .map_err(|error| self.cannot_write(path, error))?;
        Ok(NewFile {
            folder: self,
            path,
            parent,
            temporary_name,
            file: file.into(),
            is_kept: false,
        })
    }

    /// Opens a folder below this one, one name after the other, so that no link on the way is followed.
    fn walk(&self, folders: &[&str], missing: MissingFolder) -> Result<OwnedFd, Errno> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let open = |parent: &OwnedFd, name: &str| openat(parent, name, flags, Mode::empty());
        let mut current = open(&self.descriptor, ".")?;
        for name in folders {
            current = match open(&current, name) {
                Err(Errno::ENOENT) if missing == MissingFolder::Create => {
                    match mkdirat(&current, *name, Mode::from_bits_truncate(0o777)) {
                        Ok(()) | Err(Errno::EEXIST) => open(&current, name)?,
                        Err(error) => return Err(error),
                    }
                }
                opened => opened?,
            };
        }
        Ok(current)
    }

    fn cannot_write(&self, path: &WorkspacePath, error: Errno) -> anyhow::Error {
        let problem = match error {
            Errno::ELOOP | Errno::ENOTDIR => {
                "a part of its path is a symbolic link or a file, and links are not followed".to_string()
            }
            Errno::EISDIR => "it is a folder".to_string(),
            error => io::Error::from(error).to_string(),
        };
        anyhow::anyhow!("could not write {path} below {}: {problem}", self.path.display())
    }
}

/// What to do when a folder on the way to a downloaded file does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingFolder {
    Create,
    Fail,
}

impl NewFile<'_> {
    pub(crate) fn writer(&self) -> Result<File> {
        self.file.try_clone().context("could not duplicate a descriptor")
    }

    /// Gives the file its name. A link of that name is replaced itself, not the file that it leads to.
    pub(crate) fn keep(mut self) -> Result<()> {
        self.folder.check_free(self.path)?;
        let (_, name) = split(self.path);
        let (parent, temporary_name) = (self.parent.as_fd(), self.temporary_name.as_str());
        renameat(parent, temporary_name, parent, name)
            .map_err(|error| self.folder.cannot_write(self.path, error))?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            let name = self.temporary_name.as_str();
            let _ = unlinkat(&self.parent, name, UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// The folders of a path, and the name of the file.
fn split(path: &WorkspacePath) -> (Vec<&str>, &str) {
    let mut parts: Vec<&str> = path.as_str().split('/').collect();
    let name = parts.pop().unwrap_or_default();
    (parts, name)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn path(text: &str) -> WorkspacePath {
        WorkspacePath::new(text).unwrap()
    }

    fn save(folder: &DownloadFolder, name: &str, executable: bool) -> Result<()> {
        let path = path(name);
        folder.check_free(&path)?;
        let file = folder.create(&path, executable)?;
        file.writer()?.write_all(b"new")?;
        file.keep()
    }

    fn entries(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_keep_their_paths_and_the_executable_bit() {
        let outer = tempfile::tempdir().unwrap();
        let to = outer.path().join("new/folder");
        let folder = DownloadFolder::open(&to, ExistingFiles::Refuse).unwrap();
        save(&folder, "out/deep/a.csv", false).unwrap();
        save(&folder, "out/tool", true).unwrap();
        assert_eq!(fs::read(to.join("out/deep/a.csv")).unwrap(), b"new");
        let mode = |name: &str| fs::metadata(to.join(name)).unwrap().permissions().mode() & 0o100;
        assert_eq!((mode("out/tool"), mode("out/deep/a.csv")), (0o100, 0));
        assert_eq!(entries(&to.join("out")), ["deep", "tool"]);
    }

    #[test]
    fn an_existing_file_is_replaced_only_with_force() {
        let to = tempfile::tempdir().unwrap();
        fs::write(to.path().join("a"), "old").unwrap();
        let refuse = DownloadFolder::open(to.path(), ExistingFiles::Refuse).unwrap();
        let error = save(&refuse, "a", false).unwrap_err().to_string();
        assert!(error.contains("exists") && error.contains("--force"), "{error}");
        assert_eq!(fs::read(to.path().join("a")).unwrap(), b"old");
        let replace = DownloadFolder::open(to.path(), ExistingFiles::Replace).unwrap();
        save(&replace, "a", false).unwrap();
        assert_eq!(fs::read(to.path().join("a")).unwrap(), b"new");
        fs::create_dir(to.path().join("b")).unwrap();
        let error = save(&replace, "b", false).unwrap_err().to_string();
        assert!(error.contains("it is a folder"), "{error}");
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let outer = tempfile::tempdir().unwrap();
        let (to, outside) = (outer.path().join("to"), outer.path().join("outside"));
        fs::create_dir_all(&to).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("victim"), "old").unwrap();
        symlink(&outside, to.join("folder")).unwrap();
        symlink(outside.join("victim"), to.join("file")).unwrap();
        symlink(outside.join("created"), to.join("dangling")).unwrap();
        for existing in [ExistingFiles::Refuse, ExistingFiles::Replace] {
            let folder = DownloadFolder::open(&to, existing).unwrap();
            for name in ["folder/victim", "folder/created", "file/x"] {
                let error = save(&folder, name, false).unwrap_err().to_string();
                assert!(error.contains("symbolic link"), "{error}");
            }
        }
        let refuse = DownloadFolder::open(&to, ExistingFiles::Refuse).unwrap();
        for name in ["file", "dangling"] {
            assert!(save(&refuse, name, false).is_err(), "{name}");
        }
        // The link itself is replaced.
        let replace = DownloadFolder::open(&to, ExistingFiles::Replace).unwrap();
        save(&replace, "file", false).unwrap();
        assert_eq!(fs::read(to.join("file")).unwrap(), b"new");
        assert_eq!(entries(&outside), ["victim"]);
        assert_eq!(fs::read(outside.join("victim")).unwrap(), b"old");
    }

    #[test]
    fn an_interrupted_download_leaves_nothing() {
        let to = tempfile::tempdir().unwrap();
        let folder = DownloadFolder::open(to.path(), ExistingFiles::Refuse).unwrap();
        let name = path("a");
        let file = folder.create(&name, false).unwrap();
        file.writer().unwrap().write_all(b"half").unwrap();
        assert_eq!(entries(to.path()).len(), 1);
        drop(file);
        assert!(entries(to.path()).is_empty());
    }
}
