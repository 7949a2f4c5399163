//! Removes files that tasks left, whatever permissions and depth they have.

use std::fs::{self, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use uuid::Uuid;

/// Removes the content of a folder, except `lost+found`: the folder may be a mount point.
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

/// Removes a file or folder, does not follow symbolic links, and restores permissions where a task has removed them.
///
/// A task can nest folders deeper than a path, a thread's stack or the number of open files allows. So this does not recurse,
/// and moves folders that are too deep up to the root first. `progress` is called for each entry.
pub(super) fn remove(root: &Path, progress: &dyn Fn()) -> io::Result<()> {
    const MAX_DEPTH_BYTES: usize = 1024;
    match fs::symlink_metadata(root) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.is_dir() => return fs::remove_file(root),
        Ok(metadata) => make_accessible(root, &metadata)?,
    }
    // Random and chosen after the task has ended, so no file of the task has this name.
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
            make_accessible(&path, &entry.metadata()?)?;
            if path.as_os_str().len() > root.as_os_str().len() + MAX_DEPTH_BYTES {
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
            // Visited again when the folders inside it are removed.
            folders.push(folder);
            folders.append(&mut within);
        }
    }
    Ok(())
}

/// Makes a folder accessible for its owner.
fn make_accessible(folder: &Path, metadata: &Metadata) -> io::Result<()> {
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
    fn folders_nested_deeper_than_any_path_are_removed() {
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
