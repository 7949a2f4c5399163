//! Reads the repository: its pages, manifests and source files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file, by its path from the root of the repository.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The manifest of each crate, by the crate's name.
pub(crate) fn manifests() -> BTreeMap<String, toml::Table> {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    let manifests = folders.map(|folder| {
        let text = fs::read_to_string(folder.unwrap().path().join("Cargo.toml")).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        let name = manifest["package"]["name"].as_str().unwrap().to_string();
        (name, manifest)
    });
    manifests.collect()
}

/// A Rust source file of the workspace.
pub(crate) struct SourceFile {
    /// From the folder of all crates, so its first part is the crate's name.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl SourceFile {
    pub(crate) fn crate_name(&self) -> &str {
        self.path.iter().next().unwrap().to_str().unwrap()
    }
}

/// Every Rust source file of the workspace.
pub(crate) fn source_files() -> Vec<SourceFile> {
    let crates = root().join("crates");
    let mut paths = Vec::new();
    collect_source_files(&crates, &mut paths);
    assert!(paths.len() > 100, "found only {}", paths.len());
    let files = paths.into_iter().map(|path| SourceFile {
        text: fs::read_to_string(&path).unwrap(),
        path: path.strip_prefix(&crates).unwrap().to_path_buf(),
    });
    files.collect()
}

fn collect_source_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_source_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}
