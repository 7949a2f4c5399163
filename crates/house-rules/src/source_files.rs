//! Rules about source files: their length and their names.

use crate::repository::source_files;

/// A longer file is split in two.
const MAX_LINES: usize = 500;

#[test]
fn no_source_file_has_more_than_500_lines() {
    for file in source_files() {
        let lines = file.text.lines().count();
        assert!(lines <= MAX_LINES, "{:?} has {lines} lines: split it", file.path);
    }
}

#[test]
fn no_module_file_is_called_mod_rs() {
    for file in source_files() {
        assert!(
            !file.path.ends_with("mod.rs"),
            "{:?}: name the file after the module and put it beside the module's folder",
            file.path
        );
    }
}
