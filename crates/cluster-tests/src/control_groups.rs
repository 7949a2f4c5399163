//! Finds control groups in the cgroup file system.

use std::fs;
use std::path::{Path, PathBuf};

/// All control groups whose name satisfies the condition.
pub fn control_groups_named(matches: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut groups = control_groups_beneath(Path::new("/sys/fs/cgroup"));
    groups.retain(|group| {
        let name = group.file_name().and_then(|name| name.to_str());
        name.is_some_and(&matches)
    });
    groups
}

/// The group itself and all beneath it.
pub fn control_groups_beneath(group: &Path) -> Vec<PathBuf> {
    let mut found = vec![group.to_path_buf()];
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(control_groups_beneath(&entry.path()));
        }
    }
    found
}
