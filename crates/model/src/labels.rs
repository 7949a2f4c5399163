//! Labels: pairs of text that a user gives a task, to search by them.

use std::collections::BTreeMap;

use crate::InvalidField;

/// The labels of a task, or those that a search requires: at most 16 pairs of a key and a value.
///
/// A key has letters, digits, `.`, `_`, `-` and `/`, so that `key:value` and `key=value` are unambiguous.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    pub const MAX_COUNT: usize = 16;
    pub const MAX_KEY: usize = 64;
    /// In characters.
    pub const MAX_VALUE: usize = 256;

    pub fn new(labels: BTreeMap<String, String>) -> Result<Labels, InvalidField> {
        if labels.len() > Labels::MAX_COUNT {
            return Err(InvalidField::over_limit(
                "labels",
                "has too many labels",
                Labels::MAX_COUNT,
                labels.len(),
            ));
        }
        for (key, value) in &labels {
            check_key(key)?;
            check_value(key, value)?;
        }
        Ok(Labels(labels))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether these labels include all of the others.
    pub fn include(&self, others: &Labels) -> bool {
        others.0.iter().all(|(key, value)| self.0.get(key) == Some(value))
    }

    pub fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }
}

fn check_key(key: &str) -> Result<(), InvalidField> {
    let field = || format!("labels.{key}");
    if key.is_empty() {
        return Err(InvalidField::new("labels", "has a label without a key"));
    }
    if key.len() > Labels::MAX_KEY {
        return Err(InvalidField::over_limit(
            "labels",
            "has a key that is too long",
            Labels::MAX_KEY,
            key.len(),
        ));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    match key.chars().all(allowed) {
        true => Ok(()),
        false => Err(InvalidField::new(
            field(),
            "a key may contain only letters, digits, '.', '_', '-' and '/'",
        )),
    }
}

fn check_value(key: &str, value: &str) -> Result<(), InvalidField> {
    let field = || format!("labels.{key}");
    let length = value.chars().count();
    if length > Labels::MAX_VALUE {
        return Err(InvalidField::over_limit(
            field(),
            "is too long",
            Labels::MAX_VALUE,
            length,
        ));
    }
    match value.chars().any(char::is_control) {
        true => Err(InvalidField::new(field(), "must not contain control characters")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Result<Labels, InvalidField> {
        let pair = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
        Labels::new(pairs.iter().map(pair).collect())
    }

    #[test]
    fn labels_are_bounded() {
        assert!(labels(&[("course/term", "2026 å"), ("a", "")]).is_ok());
        let check = |pairs: &[(&str, &str)], field: &str| {
            assert_eq!(labels(pairs).unwrap_err().field, field);
        };
        check(&[("", "x")], "labels");
        check(&[(&"k".repeat(65), "x")], "labels");
        check(&[("a:b", "x")], "labels.a:b");
        check(&[("a", "x\n")], "labels.a");
        check(&[("a", &"x".repeat(257))], "labels.a");
        let many: BTreeMap<_, _> = (0..17).map(|n| (n.to_string(), String::new())).collect();
        assert_eq!(Labels::new(many).unwrap_err().actual, Some("17".into()));
    }

    #[test]
    fn a_search_requires_all_of_its_labels() {
        let task = labels(&[("a", "1"), ("b", "2")]).unwrap();
        assert!(task.include(&Labels::default()));
        assert!(task.include(&labels(&[("b", "2")]).unwrap()));
        assert!(!task.include(&labels(&[("a", "1"), ("b", "3")]).unwrap()));
        assert!(!task.include(&labels(&[("c", "1")]).unwrap()));
    }
}
