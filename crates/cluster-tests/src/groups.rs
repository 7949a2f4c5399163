//! Control groups, by the folders that they are.

use std::fs;
use std::path::{Path, PathBuf};

/// Wherever they are, those whose names are such.
pub fn groups_named(is_such: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut groups = groups_beneath(Path::new("/sys/fs/cgroup"));
    groups.retain(|group| {
        let name = group.file_name().and_then(|name| name.to_str());
        name.is_some_and(&is_such)
    });
    groups
}

/// The group itself and all beneath it.
pub fn groups_beneath(group: &Path) -> Vec<PathBuf> {
    let mut found = vec![group.to_path_buf()];
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(groups_beneath(&entry.path()));
        }
    }
    found
}
