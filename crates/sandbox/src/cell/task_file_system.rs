//! The file system of one task: a tmpfs with everything that the task can write. It is removed as a whole.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, lchown};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use nix::sys::statvfs::statvfs;

use super::command_user::CommandUser;
use super::settings::{CellSettings, WORKSPACE};
use super::setup_step::{AtSetupStep, CellSetupError, CellSetupStep};
use crate::open_beneath::{OpenPurpose, open_beneath};
use crate::platform_error::Errno;

/// The folders that a cell shows as its workspace, as `/tmp` and as `/dev/shm`.
pub(super) const TASK_FOLDERS: [&str; 3] = [COMMAND_WORKSPACE, "/box/tmp", "/box/shm"];
/// The folder that a cell shows as its workspace. Commands can neither remove nor replace it: to them it is a mount.
const COMMAND_WORKSPACE: &str = "/box/box";
const FLAGS: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);

/// The tmpfs that a warden mounts for the current task, with everything that the task's commands can write.
#[derive(Debug)]
pub(super) struct TaskFileSystem {
    command_user: CommandUser,
    bytes: u64,
    max_files: u64,
    /// Whether the files already belong to the commands' user.
    handed_over: bool,
}

impl TaskFileSystem {
    pub(super) fn new(settings: &CellSettings, command_user: CommandUser) -> TaskFileSystem {
        TaskFileSystem {
            command_user,
            bytes: settings.space,
            max_files: settings.max_files,
            handed_over: false,
        }
    }

    pub(super) fn mount(&mut self) -> Result<(), CellSetupError> {
        let options = format!("mode=0711,size={},nr_inodes={}", self.bytes, self.max_files);
        mount(
            Some("task"),
            WORKSPACE,
            Some("tmpfs"),
            FLAGS,
            Some(options.as_str()),
        )
        .at(CellSetupStep::MountTask)?;
        self.handed_over = false;
        for folder in TASK_FOLDERS {
            self.make_folder(Path::new(folder))
                .at(CellSetupStep::CreateTaskFolders)?;
        }
        Ok(())
    }

    pub(super) fn unmount(&self) -> Result<(), CellSetupError> {
        umount2(WORKSPACE, MntFlags::MNT_DETACH).at(CellSetupStep::ClearTask)
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)?;
        match self.command_user {
            CommandUser::Dedicated { id } => chown(path, Some(id), Some(id)),
            // The owner is not root and must be able to write the task's files there first, and to read what the task
            // leaves there. Nobody else can reach the file system.
            CommandUser::Subordinate => fs::set_permissions(path, Permissions::from_mode(0o755)),
            CommandUser::SameAsWarden => Ok(()),
        }
    }

    /// Gives the task's files to the commands' user, before the first command. An owner that is root does so itself;
    /// any other owner may not, so the warden does it here.
    pub(super) fn hand_over(&mut self) -> Result<(), CellSetupError> {
        if let (CommandUser::Subordinate, false) = (self.command_user, self.handed_over) {
            let id = self.command_user.id();
            for folder in TASK_FOLDERS {
                chown_recursively(Path::new(folder), id).at(CellSetupStep::HandOverFiles)?;
            }
        }
        self.handed_over = true;
        Ok(())
    }

    /// Limits the total size of the task's files, until the task ends.
    pub(super) fn resize(&self, bytes: u64) -> Result<(), CellSetupError> {
        let flags = MsFlags::MS_REMOUNT | FLAGS;
        let size = format!("size={bytes}");
        mount(None::<&str>, WORKSPACE, None::<&str>, flags, Some(size.as_str())).at(CellSetupStep::ResizeTask)
    }

    /// Whether the file system has no space or no inode left.
    pub(super) fn is_full(&self) -> bool {
        statvfs(WORKSPACE).is_ok_and(|space| space.blocks_available() == 0 || space.files_free() == 0)
    }

    /// Opens the folder that contains `box`, `tmp`, `shm` and files that the task must not see.
    pub(super) fn open_folder(&self) -> Result<OwnedFd, CellSetupError> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        open(WORKSPACE, flags, Mode::empty()).at(CellSetupStep::CreateTaskFolders)
    }

    /// Opens a file or folder that commands have left in their workspace. This process may read all of them, whatever
    /// their modes are, so nothing outside of the workspace may be reachable here.
    pub(super) fn open_in_workspace(
        &self,
        path: &Path,
        purpose: OpenPurpose,
    ) -> Result<Result<OwnedFd, Errno>, CellSetupError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let workspace = open(COMMAND_WORKSPACE, flags, Mode::empty()).at(CellSetupStep::OpenWorkspace)?;
        Ok(open_beneath(workspace.as_fd(), path, purpose))
    }
}

/// Gives a folder and everything beneath it to a user and group. No command is running there, so nothing changes
/// meanwhile.
fn chown_recursively(folder: &Path, id: u32) -> io::Result<()> {
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
