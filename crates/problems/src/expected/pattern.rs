//! Patterns of `submissions.yaml`: `*` stands for any part of one name, `{a,b}` for either.

use std::fmt;

/// Which cases a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CasePattern {
    /// `None` stands for all cases.
    pattern: Option<String>,
}

/// Braces multiply: `{a,b}{a,b}{a,b}…` would never end.
const MAX_ALTERNATIVES: usize = 1000;

impl CasePattern {
    pub fn all() -> CasePattern {
        CasePattern::default()
    }

    /// Cases whose name, or the name of a group around them, matches.
    pub(crate) fn new(pattern: &str) -> CasePattern {
        CasePattern {
            pattern: Some(pattern.trim_matches('/').into()),
        }
    }

    pub fn is_all(&self) -> bool {
        self.pattern.is_none()
    }

    pub fn matches(&self, case: &str) -> bool {
        match &self.pattern {
            None => true,
            Some(pattern) => matches_submission(pattern, case),
        }
    }
}

impl fmt::Display for CasePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.pattern.as_deref().unwrap_or("all cases"))
    }
}

/// Whether a path or a folder around it matches.
pub(crate) fn matches_submission(pattern: &str, path: &str) -> bool {
    let pattern = pattern.trim_matches('/');
    alternatives(pattern).iter().any(|pattern| {
        let names: Vec<_> = pattern.split('/').collect();
        let parts: Vec<_> = path.split('/').collect();
        names.len() <= parts.len()
            && names
                .iter()
                .zip(&parts)
                .all(|(name, part)| matches_name(name, part))
    })
}

/// The pattern without braces, once for each of the alternatives.
fn alternatives(pattern: &str) -> Vec<String> {
    let mut found = vec![];
    let mut open = vec![pattern.to_string()];
    while let Some(next) = open.pop() {
        // The innermost braces first, so that those around them see plain text.
        let innermost = next
            .find('}')
            .and_then(|end| Some((next[..end].rfind('{')?, end)));
        match innermost {
            Some((start, end)) if open.len() + found.len() < MAX_ALTERNATIVES => {
                let parts = next[start + 1..end].split(',');
                open.extend(parts.map(|part| format!("{}{part}{}", &next[..start], &next[end + 1..])));
            }
            _ => found.push(next),
        }
    }
    found
}

fn matches_name(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_paths_and_the_folders_around_them() {
        for (pattern, path, expected) in [
            ("accepted", "accepted/a.py", true),
            ("accepted/*", "accepted/a.py", true),
            ("accepted/*.py", "accepted/a.cpp", false),
            ("*/a.{py,cpp}", "mixed/a.cpp", true),
            ("*/a.{py,cpp}", "mixed/a.java", false),
            ("{simple,com{plex,mon}}.py", "complex.py", true),
            ("*", "a/b", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abde", false),
            ("ab*ba", "aba", false),
            ("secret/group1", "secret/group1/03", true),
            ("secret/group1", "secret/group10/03", false),
            ("secret/*-easy", "secret/03-easy", true),
            ("a/b", "a", false),
            ("open{", "open{", true),
        ] {
            assert_eq!(matches_submission(pattern, path), expected, "{pattern} {path}");
        }
        assert!(alternatives(&"{a,b}".repeat(40)).len() <= MAX_ALTERNATIVES + 1);
    }
}
