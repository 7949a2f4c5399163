//! Which files a path on the command line stands for, and where each goes in the workspace.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use model::FilePath;

/// A file on this machine that becomes one of the task's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) executable: bool,
}

/// A file keeps its name; a folder stands for all that is in it.
///
/// A link that is named itself is followed: somebody meant it. A link inside a folder is refused, because
/// following it could take in files that nobody meant to send, and leaving it out could change what the task does.
pub(super) fn collect(paths: &[PathBuf]) -> Result<BTreeMap<FilePath, Found>> {
    let mut files = BTreeMap::new();
    for path in paths {
        let kind = fs::metadata(path).with_context(|| format!("could not look at {}", path.display()))?;
        if kind.is_dir() {
            walk(path, path, &mut files)?;
        } else {
            let name = path
                .file_name()
                .ok_or_else(|| anyhow!("{} has no file name; name a file or a folder", path.display()))?;
            take(Path::new(name), path, &kind, &mut files)?;
        }
    }
    Ok(files)
}

fn walk(root: &Path, folder: &Path, files: &mut BTreeMap<FilePath, Found>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("could not list {}", folder.display()))?;
    for entry in entries {
        let path = entry
            .with_context(|| format!("could not list {}", folder.display()))?
            .path();
        let kind =
            fs::symlink_metadata(&path).with_context(|| format!("could not look at {}", path.display()))?;
        if kind.is_symlink() {
            bail!(
                "{} is a link, and links in a folder are not sent; replace it by the file, or name the file itself",
                path.display()
            );
        }
        if kind.is_dir() {
            walk(root, &path, files)?;
        } else {
            let place = path.strip_prefix(root).unwrap_or(&path);
            take(place, &path, &kind, files)?;
        }
    }
    Ok(())
}

fn take(place: &Path, path: &Path, kind: &fs::Metadata, files: &mut BTreeMap<FilePath, Found>) -> Result<()> {
    if !kind.is_file() {
        bail!(
            "{} is neither a file nor a folder; only those are sent",
            path.display()
        );
    }
    let text = place
        .to_str()
        .ok_or_else(|| anyhow!("the name {} is not UTF-8; rename it", path.display()))?;
    let place = FilePath::new(text).map_err(|wrong| anyhow!("the path {text} {wrong}"))?;
    let found = Found {
        path: path.to_path_buf(),
        size: kind.len(),
        executable: kind.permissions().mode() & 0o111 != 0,
    };
    if let Some(other) = files.insert(place.clone(), found) {
        bail!(
            "{} and {} would both become {place}; leave one out",
            other.path.display(),
            path.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        folder
    }

    fn places(paths: &[PathBuf]) -> Vec<String> {
        collect(paths).unwrap().keys().map(ToString::to_string).collect()
    }

    fn complaint(paths: &[PathBuf]) -> String {
        format!("{:#}", collect(paths).unwrap_err())
    }

    #[test]
    fn a_file_keeps_its_name_and_a_folder_its_tree() {
        let folder = folder(&["main.c", "lib/a.h", "lib/deep/b.h", ".hidden"]);
        let at = |name: &str| folder.path().join(name);
        assert_eq!(
            places(&[at("")]),
            [".hidden", "lib/a.h", "lib/deep/b.h", "main.c"]
        );
        assert_eq!(places(&[at("lib/a.h")]), ["a.h"]);
        assert_eq!(places(&[at("lib"), at("main.c")]), ["a.h", "deep/b.h", "main.c"]);
    }

    #[test]
    fn programs_stay_executable() {
        let folder = folder(&["run.sh", "text"]);
        let program = folder.path().join("run.sh");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let files = collect(&[folder.path().to_path_buf()]).unwrap();
        let executable: Vec<_> = files.values().map(|file| file.executable).collect();
        assert_eq!(executable, [true, false]);
        assert_eq!(files.values().next().unwrap().size, 6);
    }

    #[test]
    fn links_in_a_folder_are_refused_and_named_ones_followed() {
        let folder = folder(&["tree/a", "b"]);
        let at = |name: &str| folder.path().join(name);
        symlink(at("b"), at("tree/link")).unwrap();
        assert!(complaint(&[at("tree")]).contains("tree/link is a link"));
        assert_eq!(places(&[at("tree/link")]), ["link"]);
    }

    #[test]
    fn what_cannot_be_sent_is_named() {
        let folder = folder(&["one/x", "two/x"]);
        let at = |name: &str| folder.path().join(name);
        let twice = complaint(&[at("one"), at("two")]);
        assert!(
            twice.contains("one/x") && twice.contains("two/x") && twice.contains("both become x"),
            "{twice}"
        );
        assert!(complaint(&[at("nowhere")]).contains("could not look at"));
        let socket = std::os::unix::net::UnixListener::bind(at("one/socket")).unwrap();
        assert!(complaint(&[at("one")]).contains("neither a file nor a folder"));
        drop(socket);
    }
}
