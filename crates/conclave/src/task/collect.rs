//! Collects the files of the paths on the command line, with the path of each in the workspace.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use model::WorkspacePath;

/// A file on this machine that becomes a file of the task that `conclave run` or `conclave add` adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LocalFile {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) executable: bool,
}

/// Collects files by their name, and folders by their whole content.
///
/// A symbolic link given on the command line is followed. A symbolic link inside a folder is refused: following it could send
/// files by accident, and skipping it could change what the task does.
pub(super) fn collect(paths: &[PathBuf]) -> Result<BTreeMap<WorkspacePath, LocalFile>> {
    let mut files = BTreeMap::new();
    for path in paths {
        let metadata = fs::metadata(path)
            .with_context(|| format!("could not read the metadata of {}", path.display()))?;
        if metadata.is_dir() {
            walk(path, path, &mut files)?;
        } else {
            let name = path
                .file_name()
                .ok_or_else(|| anyhow!("{} has no file name; give a file or a folder", path.display()))?;
            add_file(Path::new(name), path, &metadata, &mut files)?;
        }
    }
    Ok(files)
}

fn walk(root: &Path, folder: &Path, files: &mut BTreeMap<WorkspacePath, LocalFile>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("could not list {}", folder.display()))?;
    for entry in entries {
        let path = entry
            .with_context(|| format!("could not list {}", folder.display()))?
            .path();
        let metadata = fs::symlink_metadata(&path)
            .with_context(|| format!("could not read the metadata of {}", path.display()))?;
        if metadata.is_symlink() {
            bail!(
                "{} is a symbolic link, and links in a folder are not sent; replace it by the file, or give the file itself",
                path.display()
            );
        }
        if metadata.is_dir() {
            walk(root, &path, files)?;
        } else {
            let relative = path.strip_prefix(root).unwrap_or(&path);
            add_file(relative, &path, &metadata, files)?;
        }
    }
    Ok(())
}

fn add_file(
    relative: &Path,
    path: &Path,
    metadata: &fs::Metadata,
    files: &mut BTreeMap<WorkspacePath, LocalFile>,
) -> Result<()> {
    if !metadata.is_file() {
        bail!(
            "{} is neither a file nor a folder, and nothing else can be sent",
            path.display()
        );
    }
    let text = relative
        .to_str()
        .ok_or_else(|| anyhow!("the name {} is not UTF-8; rename it", path.display()))?;
    let workspace_path = WorkspacePath::new(text).map_err(|wrong| anyhow!("the path {text} {wrong}"))?;
    let file = LocalFile {
        path: path.to_path_buf(),
        size: metadata.len(),
        executable: metadata.permissions().mode() & 0o111 != 0,
    };
    if let Some(other) = files.insert(workspace_path.clone(), file) {
        bail!(
            "{} and {} would both become {workspace_path}; leave one out",
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

    fn workspace_paths(paths: &[PathBuf]) -> Vec<String> {
        collect(paths).unwrap().keys().map(ToString::to_string).collect()
    }

    fn error_message(paths: &[PathBuf]) -> String {
        format!("{:#}", collect(paths).unwrap_err())
    }

    #[test]
    fn a_file_keeps_its_name_and_a_folder_keeps_its_tree() {
        let folder = folder(&["main.c", "lib/a.h", "lib/deep/b.h", ".hidden"]);
        let at = |name: &str| folder.path().join(name);
        assert_eq!(
            workspace_paths(&[at("")]),
            [".hidden", "lib/a.h", "lib/deep/b.h", "main.c"]
        );
        assert_eq!(workspace_paths(&[at("lib/a.h")]), ["a.h"]);
        assert_eq!(
            workspace_paths(&[at("lib"), at("main.c")]),
            ["a.h", "deep/b.h", "main.c"]
        );
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
    fn links_in_a_folder_are_refused_and_given_links_are_followed() {
        let folder = folder(&["tree/a", "b"]);
        let at = |name: &str| folder.path().join(name);
        symlink(at("b"), at("tree/link")).unwrap();
        assert!(error_message(&[at("tree")]).contains("tree/link is a symbolic link"));
        assert_eq!(workspace_paths(&[at("tree/link")]), ["link"]);
    }

    #[test]
    fn the_error_names_the_path_that_cannot_be_sent() {
        let folder = folder(&["one/x", "two/x"]);
        let at = |name: &str| folder.path().join(name);
        let twice = error_message(&[at("one"), at("two")]);
        assert!(
            twice.contains("one/x") && twice.contains("two/x") && twice.contains("both become x"),
            "{twice}"
        );
        assert!(error_message(&[at("nowhere")]).contains("could not read the metadata of"));
        let socket = std::os::unix::net::UnixListener::bind(at("one/socket")).unwrap();
        assert!(error_message(&[at("one")]).contains("neither a file nor a folder"));
        drop(socket);
    }
}
