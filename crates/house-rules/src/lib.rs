//! Rules of this repository that the compiler does not check. There is nothing here but their tests.
//!
//! Which crate may use which is read from the table in ARCHITECTURE.md, so that the page stays true.
#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A file beyond this many lines is split in two.
const LONGEST_FILE: usize = 500;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The manifest of each crate, by the crate's name.
fn manifests() -> BTreeMap<String, toml::Table> {
    let folders = fs::read_dir(repository().join("crates")).unwrap();
    let manifests = folders.map(|folder| {
        let text = fs::read_to_string(folder.unwrap().path().join("Cargo.toml")).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        (
            manifest["package"]["name"].as_str().unwrap().to_string(),
            manifest,
        )
    });
    manifests.collect()
}

/// The last column of the table of crates: what each may use.
fn allowed(crates: &BTreeSet<String>) -> BTreeMap<String, BTreeSet<String>> {
    let page = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let mut allowed = BTreeMap::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, _, uses] = cells[..] else { continue };
        let name = name.trim_matches('`');
        if !crates.contains(name) {
            continue;
        }
        let uses = match uses {
            "all" => crates.clone(),
            _ => {
                let words = uses.split([' ', ',']).map(String::from);
                words.filter(|word| crates.contains(word)).collect()
            }
        };
        allowed.insert(name.to_string(), uses);
    }
    allowed
}

fn source_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            source_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn all_source_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    source_files(&repository().join("crates"), &mut found);
    assert!(found.len() > 100, "found only {}", found.len());
    found
}

#[test]
fn crates_use_only_what_the_architecture_page_allows() {
    let manifests = manifests();
    let crates: BTreeSet<String> = manifests.keys().cloned().collect();
    let allowed = allowed(&crates);
    let named: BTreeSet<String> = allowed.keys().cloned().collect();
    assert_eq!(
        named, crates,
        "the table of crates in ARCHITECTURE.md has other rows"
    );
    for (name, manifest) in &manifests {
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        let used = dependencies.into_iter().flat_map(toml::Table::keys);
        let used: BTreeSet<String> = used.filter(|other| crates.contains(*other)).cloned().collect();
        let beyond: Vec<&String> = used.difference(&allowed[name]).collect();
        assert!(
            beyond.is_empty(),
            "{name} uses {beyond:?}, which ARCHITECTURE.md does not allow"
        );
    }
}

#[test]
fn no_source_file_is_too_long() {
    for path in all_source_files() {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= LONGEST_FILE, "{path:?} has {lines} lines: split it");
    }
}

#[test]
fn no_module_is_called_mod() {
    for path in all_source_files() {
        assert!(
            !path.ends_with("mod.rs"),
            "{path:?}: name it after its folder, beside it"
        );
    }
}
