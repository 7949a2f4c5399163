//! ARCHITECTURE.md names files by crate and path; each of them exists.

use std::path::Path;

use crate::repository::{manifests, read, source_files};

/// The texts between backticks on a page.
fn quoted(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2)
}

#[test]
fn every_file_on_the_architecture_page_exists() {
    let (page, crates) = (read("ARCHITECTURE.md"), manifests());
    let files: Vec<_> = source_files().into_iter().map(|file| file.path).collect();
    let mut checked = 0;
    for name in quoted(&page) {
        let Some((crate_name, path)) = name.split_once('/') else {
            continue;
        };
        if !crates.contains_key(crate_name) {
            continue;
        }
        let file = Path::new(crate_name).join("src").join(path).with_extension("rs");
        assert!(
            files.contains(&file),
            "ARCHITECTURE.md names {name}, but there is no {file:?}"
        );
        checked += 1;
    }
    assert!(checked > 20, "found only {checked} files on the page");
}
