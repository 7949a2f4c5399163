//! Takes away what tasks left, whatever they did to it.

use std::fs::{self, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use uuid::Uuid;

/// Removes all that is in a folder, but neither the folder, which may be a disk of its own, nor what belongs to
/// such a disk.
pub(crate) fn clear(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "lost+found" {
                remove(&entry.path(), &|| ())?;
            }
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Removes whatever is there, links not followed, also where a task took away the permission to.
///
/// A task may have nested folders deeper than a thread's stack, a path or the number of open files reaches: no
/// recursion, and what lies too deep is moved up to the root first. There may be very many files: `progress` is called
/// for each.
pub(super) fn remove(root: &Path, progress: &dyn Fn()) -> io::Result<()> {
    const DEEPEST: usize = 1024;
    match fs::symlink_metadata(root) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.is_dir() => return fs::remove_file(root),
        Ok(metadata) => open_up(root, &metadata)?,
    }
    // Made up now that the task is over: nothing of its own has this name.
    let name = Uuid::now_v7().simple().to_string();
    let mut moved = 0_u64;
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let mut within = Vec::new();
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            progress();
            let mut path = entry.path();
            if !entry.file_type()?.is_dir() {
                fs::remove_file(path)?;
                continue;
            }
            open_up(&path, &entry.metadata()?)?;
            if path.as_os_str().len() > root.as_os_str().len() + DEEPEST {
                moved += 1;
                let up = root.join(format!("{name}-{moved}"));
                fs::rename(path, &up)?;
                path = up;
            }
            within.push(path);
        }
        if within.is_empty() {
            fs::remove_dir(folder)?;
        } else {
            // Once more when those are gone.
            folders.push(folder);
            folders.append(&mut within);
        }
    }
    Ok(())
}

/// Lets us into a folder, and what is in it out.
fn open_up(folder: &Path, metadata: &Metadata) -> io::Result<()> {
    const ALL: u32 = 0o700;
    if metadata.mode() & ALL == ALL {
        return Ok(());
    }
    fs::set_permissions(folder, Permissions::from_mode(ALL))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;

    use nix::fcntl::{OFlag, openat};
    use nix::sys::stat::{Mode, mkdirat};

    use super::*;

    #[test]
    fn a_nest_deeper_than_any_path_is_removed() {
        let work = tempfile::tempdir().unwrap();
        let root = work.path().join("box");
        fs::create_dir(&root).unwrap();
        let mut folder = OwnedFd::from(File::open(&root).unwrap());
        for _ in 0..2_500 {
            mkdirat(&folder, "a", Mode::S_IRWXU).unwrap();
            folder = openat(&folder, "a", OFlag::O_DIRECTORY, Mode::empty()).unwrap();
        }
        mkdirat(&folder, "closed", Mode::empty()).unwrap();
        remove(&root, &|| ()).unwrap();
        assert!(!root.exists());
    }
}
