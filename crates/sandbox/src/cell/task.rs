//! The file system of one task: all that it can write, gone as a whole.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, chown, lchown};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use nix::sys::statvfs::statvfs;

use super::settings::{CellSettings, WORKSPACE};
use super::step::{At, Step, StepError};
use super::user::Who;

/// What a cell shows as its workspace, as `/tmp` and as `/dev/shm`.
pub(super) const FOLDERS: [&str; 3] = ["/box/box", "/box/tmp", "/box/shm"];
const FLAGS: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);

#[derive(Debug)]
pub(super) struct TaskFiles {
    who: Who,
    bytes: u64,
    files: u64,
    /// To the commands' user.
    handed_over: bool,
}

impl TaskFiles {
    pub(super) fn new(settings: &CellSettings, who: Who) -> TaskFiles {
        TaskFiles {
            who,
            bytes: settings.space,
            files: settings.files,
            handed_over: false,
        }
    }

    pub(super) fn mount(&mut self) -> Result<(), StepError> {
        let options = format!("mode=0711,size={},nr_inodes={}", self.bytes, self.files);
        mount(
            Some("task"),
            WORKSPACE,
            Some("tmpfs"),
            FLAGS,
            Some(options.as_str()),
        )
        .at(Step::MountTask)?;
        self.handed_over = false;
        for folder in FOLDERS {
            self.make_folder(Path::new(folder)).at(Step::MakeFolders)?;
        }
        Ok(())
    }

    pub(super) fn unmount(&self) -> Result<(), StepError> {
        umount2(WORKSPACE, MntFlags::MNT_DETACH).at(Step::ClearTask)
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)?;
        match self.who {
            Who::Root { command } => chown(path, Some(command), Some(command)),
            // The owner, who is no root, has yet to put the task's files there.
            Who::Subordinate | Who::Ordinary => Ok(()),
        }
    }

    /// Before the first command of a task, with all that the owner has put there. Only root can give a file away
    /// outside of the namespace, and does so itself; for any other owner the warden does it here.
    pub(super) fn hand_over(&mut self) -> Result<(), StepError> {
        if let (Who::Subordinate, false) = (self.who, self.handed_over) {
            let id = self.who.id();
            for folder in FOLDERS {
                give(Path::new(folder), id).at(Step::HandOver)?;
            }
        }
        self.handed_over = true;
        Ok(())
    }

    /// Bounds the task's files, until its end.
    pub(super) fn resize(&self, bytes: u64) -> Result<(), StepError> {
        let flags = MsFlags::MS_REMOUNT | FLAGS;
        let size = format!("size={bytes}");
        mount(None::<&str>, WORKSPACE, None::<&str>, flags, Some(size.as_str())).at(Step::ResizeTask)
    }

    /// Whether the task could write nothing more.
    pub(super) fn is_full(&self) -> bool {
        statvfs(WORKSPACE).is_ok_and(|space| space.blocks_available() == 0 || space.files_free() == 0)
    }

    /// `box`, `tmp`, `shm`, and room for what the task shall not see.
    pub(super) fn folder(&self) -> Result<OwnedFd, StepError> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        open(WORKSPACE, flags, Mode::empty()).at(Step::MakeFolders)
    }
}

/// Gives a folder and all beneath it to a user and group. No command is at work there, so nothing changes meanwhile.
fn give(folder: &Path, id: u32) -> io::Result<()> {
    let mut folders: Vec<PathBuf> = vec![folder.into()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => folders.push(entry.path()),
                false => lchown(entry.path(), Some(id), Some(id))?,
            }
        }
        lchown(&folder, Some(id), Some(id))?;
    }
    Ok(())
}
