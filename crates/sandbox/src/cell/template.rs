//! The root that all cells of a warden share, read-only. Each cell gets a copy of the mounts, which costs little, and
//! adds what is its own.
//!
//! The warden itself moves in here, so that it has no path to the host's files any more.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::{chdir, fchdir, pivot_root};

use super::mount::{attach, copy_tree, restrict, restrict_one};
use super::settings::{CellSettings, Part, WORKSPACE};
use super::step::{At, Step, StepError};
use super::user::Who;
use crate::fault::Errno;

/// Where the root is put together: a folder that every host has. What lies there is hidden from this process alone,
/// and only after all that is needed of it was opened.
const SITE: &str = "/usr";
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const DEVICE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

struct Opened {
    tree: OwnedFd,
    to: PathBuf,
    is_folder: bool,
}

/// Must be called in a mount namespace of its own.
pub(super) fn move_in(settings: &CellSettings, who: &Who) -> Result<(), StepError> {
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).at(Step::PrivateMounts)?;

    let parts = open_parts(&settings.root).at(Step::OpenPart)?;
    let copies = read_copies(&settings.root).at(Step::OpenPart)?;
    let hosts_devices = open_devices().at(Step::MountDevice)?;
    // The kernel lets an ordinary user mount a new /proc only where an old one can be seen in full.
    let processes = match who {
        Who::Root { .. } => None,
        Who::Subordinate | Who::Ordinary => Some(open_processes().at(Step::MountProcesses)?),
    };

    mount(
        Some("root"),
        SITE,
        Some("tmpfs"),
        MsFlags::MS_NOSUID,
        Some("mode=0755,size=4m"),
    )
    .at(Step::MountRoot)?;
    let root = open(SITE, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).at(Step::MountRoot)?;
    fchdir(&root).at(Step::MountRoot)?;
    furnish(&settings.root, who).at(Step::MakeRoot)?;
    for (to, content) in copies {
        put_copy(&to, &content).at(Step::MakeRoot)?;
    }

    for part in &parts {
        put(&root, part).at(Step::MountPart)?;
    }
    // Nodes of this warden's own where it may make some: else a lock on /dev/null would be felt in other slots. Each
    // mount costs every cell a copy, so they lie in the root itself, in which no command can make any.
    let seal = match make_devices() {
        Ok(()) => READ_ONLY & !libc::MOUNT_ATTR_NODEV,
        Err(_) => {
            for device in &hosts_devices {
                put(&root, device).at(Step::MountDevice)?;
            }
            READ_ONLY
        }
    };
    if let Some(processes) = processes {
        attach(processes.as_fd(), root.as_fd(), Path::new("proc")).at(Step::MountProcesses)?;
    }

    // The old root ends up on top of the new one, and is taken off.
    pivot_root(".", ".").at(Step::PivotRoot)?;
    umount2(".", MntFlags::MNT_DETACH).at(Step::LeaveOldRoot)?;
    chdir("/").at(Step::LeaveOldRoot)?;
    restrict_one(root.as_fd(), seal).at(Step::SealRoot)
}

fn open_parts(parts: &[Part]) -> Result<Vec<Opened>, Errno> {
    let mut opened = Vec::new();
    for part in parts {
        if let Part::Bind { from, to } = part {
            let tree = copy_tree(from)?;
            restrict(tree.as_fd(), READ_ONLY)?;
            opened.push(Opened {
                tree,
                to: beneath_root(to),
                is_folder: fs::metadata(from)?.is_dir(),
            });
        }
    }
    Ok(opened)
}

fn read_copies(parts: &[Part]) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let copies = parts.iter().filter_map(|part| match part {
        Part::Copy { from, to } => Some((from, beneath_root(to))),
        Part::Bind { .. } | Part::Link { .. } => None,
    });
    copies.map(|(from, to)| Ok((to, fs::read(from)?))).collect()
}

fn put_copy(to: &Path, content: &[u8]) -> io::Result<()> {
    folder_at(to.parent().unwrap_or(Path::new("")))?;
    fs::write(to, content)
}

/// Covered in every cell by its own, and of no use to whoever could uncover it.
fn open_processes() -> Result<OwnedFd, Errno> {
    let tree = copy_tree(Path::new("/proc"))?;
    restrict(tree.as_fd(), READ_ONLY | libc::MOUNT_ATTR_NOEXEC)?;
    Ok(tree)
}

fn open_devices() -> Result<Vec<Opened>, Errno> {
    let open = |name: &&str| {
        let tree = copy_tree(&Path::new("/dev").join(name))?;
        restrict(tree.as_fd(), DEVICE)?;
        Ok(Opened {
            tree,
            to: Path::new("dev").join(name),
            is_folder: false,
        })
    };
    DEVICES.iter().map(open).collect()
}

/// The same devices as new nodes in the new root, or none of them.
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
    // Whether it can be used is known only now: a container may forbid it.
    File::open(&node)?;
    Ok(())
}

/// What needs no mount.
fn furnish(parts: &[Part], who: &Who) -> io::Result<()> {
    for folder in ["proc", "dev", "dev/shm", "tmp", &WORKSPACE[1..]] {
        folder_at(Path::new(folder))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, Path::new("dev").join(name))?;
    }
    for part in parts {
        if let Part::Link { at, target } = part {
            let at = beneath_root(at);
            folder_at(at.parent().unwrap_or(Path::new("")))?;
            symlink(target, at)?;
        }
    }
    // Where the operator's own root has an /etc, that one holds.
    let has_own = |part: &Part| matches!(part, Part::Bind { to, .. } if to == Path::new("/etc"));
    if parts.iter().any(has_own) {
        return Ok(());
    }
    folder_at(Path::new("etc"))?;
    let id = who.id();
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

fn put(root: &OwnedFd, part: &Opened) -> Result<(), Errno> {
    match part.is_folder {
        true => folder_at(&part.to)?,
        false => {
            folder_at(part.to.parent().unwrap_or(Path::new("")))?;
            // It may lie in a part that is read-only already.
            if !part.to.exists() {
                File::create_new(&part.to)?;
            }
        }
    }
    attach(part.tree.as_fd(), root.as_fd(), &part.to)
}

/// Whatever the umask is.
fn folder_at(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path)
}

fn beneath_root(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_path_buf()
}
