//! One name, one meaning: no two types that are visible outside of their module share a name.

use std::collections::BTreeMap;

use crate::repository::source_files;

/// Crates that hold the same concept in other forms: plain value, message between nodes, JSON. Each may have a type of
/// the same name once.
const FORMS_OF_THE_SAME_CONCEPT: [&str; 3] = ["model", "rpc", "api"];

/// The name of the type that this line declares, if other modules can see it.
fn visible_type(line: &str) -> Option<&str> {
    let declaration = line.trim_start().strip_prefix("pub")?;
    let declaration = match declaration.strip_prefix('(') {
        Some(restricted) => restricted.split_once(')')?.1,
        None => declaration,
    };
    let (keyword, rest) = declaration.trim_start().split_once(' ')?;
    if !["struct", "enum", "trait", "type", "union"].contains(&keyword) {
        return None;
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &rest[..end.unwrap_or(rest.len())];
    // A macro's `$name` is none.
    (!name.is_empty()).then_some(name)
}

#[test]
fn visible_types_are_found_by_their_declarations() {
    for (line, expected) in [
        ("pub struct Task {", Some("Task")),
        ("    pub(crate) enum Kind<'a> {", Some("Kind")),
        ("pub(in crate::warden) type Pid = i32;", Some("Pid")),
        ("pub trait Calls: Send {", Some("Calls")),
        ("struct Private;", None),
        ("pub(crate) enum $name {", None),
        ("pub fn struct_of() {", None),
        ("public struct Task {", None),
    ] {
        assert_eq!(visible_type(line), expected, "{line}");
    }
}

#[test]
fn no_two_visible_types_share_a_name() {
    let mut declared: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for file in source_files() {
        for name in file.text.lines().filter_map(visible_type) {
            let place = (file.crate_name().to_string(), file.path.display().to_string());
            declared.entry(name.to_string()).or_default().push(place);
        }
    }
    declared.retain(|_, places| {
        let mut crates: Vec<&str> = places.iter().map(|(name, _)| name.as_str()).collect();
        crates.sort_unstable();
        crates.dedup();
        let are_forms = crates.iter().all(|name| FORMS_OF_THE_SAME_CONCEPT.contains(name));
        places.len() > 1 && !(are_forms && crates.len() == places.len())
    });
    assert!(
        declared.is_empty(),
        "name what differs between these types: {declared:#?}"
    );
}
