//! The read-only root that all cells of a warden share. Each cell gets a copy of its mounts, which is cheap, and adds
//! its own mounts.
//!
//! The warden itself moves into this root, so that it has no path to the host's files any more.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::{chdir, fchdir, pivot_root};

use super::command_user::CommandUser;
use super::mount::{attach, copy_tree, restrict, restrict_one};
use super::settings::{CellSettings, RootEntry, WORKSPACE};
use super::setup_step::{AtSetupStep, CellSetupError, CellSetupStep};
use crate::platform_error::Errno;

/// Where the root is assembled: a folder that every host has. The mount hides its contents only from this process,
/// after everything needed from it was opened.
const ROOT_MOUNT_POINT: &str = "/usr";
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const DEVICE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

/// A file or folder of the host that the warden has opened to mount it in the root file system of its cells.
struct OpenedMount {
    tree: OwnedFd,
    to: PathBuf,
    is_folder: bool,
}

/// Builds the root and moves this process into it. Must be called in a new mount namespace.
pub(super) fn enter_root(settings: &CellSettings, command_user: &CommandUser) -> Result<(), CellSetupError> {
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).at(CellSetupStep::PrivateMounts)?;

    let entries = open_binds(&settings.root_entries).at(CellSetupStep::OpenRootEntry)?;
    let copies = read_copies(&settings.root_entries).at(CellSetupStep::OpenRootEntry)?;
    let host_devices = open_devices().at(CellSetupStep::MountDevice)?;
    // The kernel lets an ordinary user mount a new /proc only if an existing one is fully visible.
    let host_proc = match command_user {
        CommandUser::Dedicated { .. } => None,
        CommandUser::Subordinate | CommandUser::SameAsWarden => {
            Some(open_host_proc().at(CellSetupStep::MountProc)?)
        }
    };

    mount(
        Some("root"),
        ROOT_MOUNT_POINT,
        Some("tmpfs"),
        MsFlags::MS_NOSUID,
        Some("mode=0755,size=4m"),
    )
    .at(CellSetupStep::MountRoot)?;
    let root = open(
        ROOT_MOUNT_POINT,
        OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )
    .at(CellSetupStep::MountRoot)?;
    fchdir(&root).at(CellSetupStep::MountRoot)?;
    create_entries(&settings.root_entries, command_user).at(CellSetupStep::FillRoot)?;
    for (to, content) in copies {
        write_copy(&to, &content).at(CellSetupStep::FillRoot)?;
    }

    for entry in &entries {
        attach_mount(&root, entry).at(CellSetupStep::MountRootEntry)?;
    }
    // The warden creates its own device nodes if it may: with the host's nodes, a lock on /dev/null would affect
    // other slots. The nodes are in the root itself, because each mount must be copied for every cell. No command can
    // create device nodes there.
    let root_attributes = match make_devices() {
        Ok(()) => READ_ONLY & !libc::MOUNT_ATTR_NODEV,
        Err(_) => {
            for device in &host_devices {
                attach_mount(&root, device).at(CellSetupStep::MountDevice)?;
            }
            READ_ONLY
        }
    };
    if let Some(host_proc) = host_proc {
        attach(host_proc.as_fd(), root.as_fd(), Path::new("proc")).at(CellSetupStep::MountProc)?;
    }

    // This mounts the old root on top of the new one; the next call unmounts it.
    pivot_root(".", ".").at(CellSetupStep::PivotRoot)?;
    umount2(".", MntFlags::MNT_DETACH).at(CellSetupStep::LeaveOldRoot)?;
    chdir("/").at(CellSetupStep::LeaveOldRoot)?;
    restrict_one(root.as_fd(), root_attributes).at(CellSetupStep::MakeRootReadOnly)
}

fn open_binds(entries: &[RootEntry]) -> Result<Vec<OpenedMount>, Errno> {
    let mut opened = Vec::new();
    for entry in entries {
        if let RootEntry::Bind { from, to } = entry {
            let tree = copy_tree(from)?;
            restrict(tree.as_fd(), READ_ONLY)?;
            opened.push(OpenedMount {
                tree,
                to: beneath_root(to),
                is_folder: fs::metadata(from)?.is_dir(),
            });
        }
    }
    Ok(opened)
}

fn read_copies(entries: &[RootEntry]) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let copies = entries.iter().filter_map(|entry| match entry {
        RootEntry::Copy { from, to } => Some((from, beneath_root(to))),
        RootEntry::Bind { .. } | RootEntry::Symlink { .. } => None,
    });
    copies.map(|(from, to)| Ok((to, fs::read(from)?))).collect()
}

fn write_copy(to: &Path, content: &[u8]) -> io::Result<()> {
    create_folder(to.parent().unwrap_or(Path::new("")))?;
    fs::write(to, content)
}

/// Every cell covers this mount with its own /proc. It is read-only, so it is harmless even if a command could see
/// it.
fn open_host_proc() -> Result<OwnedFd, Errno> {
    let tree = copy_tree(Path::new("/proc"))?;
    restrict(tree.as_fd(), READ_ONLY | libc::MOUNT_ATTR_NOEXEC)?;
    Ok(tree)
}

fn open_devices() -> Result<Vec<OpenedMount>, Errno> {
    let open = |name: &&str| {
        let tree = copy_tree(&Path::new("/dev").join(name))?;
        restrict(tree.as_fd(), DEVICE)?;
        Ok(OpenedMount {
            tree,
            to: Path::new("dev").join(name),
            is_folder: false,
        })
    };
    DEVICES.iter().map(open).collect()
}

/// Creates the same devices as new nodes in the new root; on failure, none of them.
fn make_devices() -> Result<(), Errno> {
    let made = DEVICES.iter().try_for_each(|name| make_device(name));
    if made.is_err() {
        for name in DEVICES {
            let _ = fs::remove_file(Path::new("dev").join(name));
        }
    }
    made
}

fn make_device(name: &str) -> Result<(), Errno> {
    let number = fs::metadata(Path::new("/dev").join(name))?.rdev();
    let node = Path::new("dev").join(name);
    let everyone = Mode::from_bits_truncate(0o666);
    mknod(&node, SFlag::S_IFCHR, everyone, number)?;
    fs::set_permissions(&node, fs::Permissions::from_mode(everyone.bits()))?;
    // Opening the node shows whether it can be used: a container may forbid it.
    File::open(&node)?;
    Ok(())
}

/// Creates the entries of the root that need no mount.
fn create_entries(entries: &[RootEntry], command_user: &CommandUser) -> io::Result<()> {
    for folder in ["proc", "dev", "dev/shm", "tmp", &WORKSPACE[1..]] {
        create_folder(Path::new(folder))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, Path::new("dev").join(name))?;
    }
    for entry in entries {
        if let RootEntry::Symlink { at, target } = entry {
            let at = beneath_root(at);
            create_folder(at.parent().unwrap_or(Path::new("")))?;
            symlink(target, at)?;
        }
    }
    // An /etc in the operator's root replaces ours.
    let has_own = |entry: &RootEntry| matches!(entry, RootEntry::Bind { to, .. } if to == Path::new("/etc"));
    if entries.iter().any(has_own) {
        return Ok(());
    }
    create_folder(Path::new("etc"))?;
    let id = command_user.id();
    for (name, text) in [
        (
            "passwd",
            format!("root:x:0:0::/:/sbin/nologin\ntask:x:{id}:{id}::{WORKSPACE}:/bin/sh\n"),
        ),
        ("group", format!("root:x:0:\ntask:x:{id}:\n")),
        ("hosts", "127.0.0.1 localhost\n::1 localhost\n".into()),
        (
            "nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files\n".into(),
        ),
    ] {
        File::create_new(Path::new("etc").join(name))?.write_all(text.as_bytes())?;
    }
    Ok(())
}

fn attach_mount(root: &OwnedFd, entry: &OpenedMount) -> Result<(), Errno> {
    match entry.is_folder {
        true => create_folder(&entry.to)?,
        false => {
            create_folder(entry.to.parent().unwrap_or(Path::new("")))?;
            // The file may be in an entry that is already mounted read-only.
            if !entry.to.exists() {
                File::create_new(&entry.to)?;
            }
        }
    }
    attach(entry.tree.as_fd(), root.as_fd(), &entry.to)
}

/// Creates a folder with this mode, whatever the umask is.
fn create_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path)
}

fn beneath_root(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_path_buf()
}
