//! Rules about dependencies between the crates of the workspace.
//!
//! `deny.toml` has the rules about crates from outside; `scripts/test` checks them with cargo-deny.

use std::collections::{BTreeMap, BTreeSet};

use crate::repository::{manifests, read};

/// Which crates each crate may use: the last column of the table of crates in ARCHITECTURE.md.
fn allowed_dependencies(crates: &BTreeSet<String>) -> BTreeMap<String, BTreeSet<String>> {
    let page = read("ARCHITECTURE.md");
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

#[test]
fn crates_use_only_the_crates_that_the_architecture_page_allows() {
    let manifests = manifests();
    let crates: BTreeSet<String> = manifests.keys().cloned().collect();
    let allowed = allowed_dependencies(&crates);
    let rows: BTreeSet<String> = allowed.keys().cloned().collect();
    assert_eq!(
        rows, crates,
        "the table of crates in ARCHITECTURE.md does not list exactly the crates of the workspace"
    );
    for (name, manifest) in &manifests {
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        let used = dependencies.into_iter().flat_map(toml::Table::keys);
        let used: BTreeSet<String> = used.filter(|other| crates.contains(*other)).cloned().collect();
        let forbidden: Vec<&String> = used.difference(&allowed[name]).collect();
        assert!(
            forbidden.is_empty(),
            "{name} uses {forbidden:?}, which ARCHITECTURE.md does not allow"
        );
    }
}
