//! Patterns of the files that a task keeps when its execute step has ended.

use std::fmt;

use thiserror::Error;

/// A pattern of workspace files that a task keeps, like `out/*.csv`.
///
/// `?` is one character and `*` any number of them within a name, `**` as a whole name any number of folders. A pattern is
/// relative to the workspace and cannot leave it. Names that begin with a dot are matched like all others.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeepPattern(String);

/// Why a text is not a [`KeepPattern`].
#[derive(Debug, Error, PartialEq, Eq)]
pub enum KeepPatternError {
    #[error("must not be empty")]
    Empty,
    #[error("must have at most {limit} bytes, this one has {actual}")]
    TooLong { limit: usize, actual: usize },
    #[error("must be relative to the workspace, without '/' at its beginning or end")]
    Slash,
    #[error("must not have an empty name, '.' or '..' between its slashes")]
    Component,
    #[error("must not contain control characters")]
    Control,
    #[error("'**' must stand alone between slashes")]
    DoubleStar,
}

impl KeepPattern {
    pub const MAX_BYTES: usize = 1024;

    pub fn new(text: impl Into<String>) -> Result<KeepPattern, KeepPatternError> {
        let text = text.into();
        if text.is_empty() {
            return Err(KeepPatternError::Empty);
        }
        if text.len() > KeepPattern::MAX_BYTES {
            return Err(KeepPatternError::TooLong {
                limit: KeepPattern::MAX_BYTES,
                actual: text.len(),
            });
        }
        if text.chars().any(char::is_control) {
            return Err(KeepPatternError::Control);
        }
        if text.starts_with('/') || text.ends_with('/') {
            return Err(KeepPatternError::Slash);
        }
        for component in text.split('/') {
            match component {
                "" | "." | ".." => return Err(KeepPatternError::Component),
                "**" => {}
                other if other.contains("**") => return Err(KeepPatternError::DoubleStar),
                _ => {}
            }
        }
        Ok(KeepPattern(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches a file with this path in the workspace, like `out/a.csv`.
    pub fn matches(&self, path: &str) -> bool {
        let reached = self.reached_after(path);
        reached.last() == Some(&true)
    }

    /// Whether the pattern can match a file somewhere below the folder with this path. If not, nobody needs to read it.
    pub fn may_match_below(&self, folder: &str) -> bool {
        // The last position means that the pattern ends at the folder itself, unless it ends with `**`.
        let reached = self.reached_after(folder);
        let before_end = reached.split_last().map_or(&[][..], |(_, before)| before);
        before_end.contains(&true)
    }

    /// For each number of names of the pattern, whether these names match the whole path. The time is bounded by the
    /// product of both lengths.
    fn reached_after(&self, path: &str) -> Vec<bool> {
        let names: Vec<&str> = self.0.split('/').collect();
        let mut reached = vec![false; names.len() + 1];
        reached[0] = true;
        skip_double_stars(&names, &mut reached);
        for component in path.split('/') {
            let mut next = vec![false; names.len() + 1];
            for (index, name) in names.iter().enumerate().filter(|(index, _)| reached[*index]) {
                match *name {
                    // It stays at this position, to take further folders; the last `**` also takes the file itself.
                    "**" => {
                        next[index] = true;
                        next[index + 1] |= index + 1 == names.len();
                    }
                    name => next[index + 1] |= name_matches(name, component),
                }
            }
            skip_double_stars(&names, &mut next);
            reached = next;
        }
        reached
    }
}

/// A `**` that is not the last name also stands for no folder at all.
fn skip_double_stars(names: &[&str], reached: &mut [bool]) {
    for (index, name) in names.iter().enumerate() {
        if reached[index] && *name == "**" && index + 1 < names.len() {
            reached[index + 1] = true;
        }
    }
}

/// Matches one name without slashes. After a mismatch it goes back to the last `*` only, which is enough, because an
/// earlier one could take nothing that the last one cannot.
fn name_matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut done, mut last_star) = (0, 0, None);
    while done < name.len() {
        match pattern.get(at) {
            Some('*') => {
                last_star = Some((at, done));
                at += 1;
            }
            Some(c) if *c == '?' || *c == name[done] => {
                at += 1;
                done += 1;
            }
            _ => match last_star {
                Some((star, taken)) => {
                    last_star = Some((star, taken + 1));
                    at = star + 1;
                    done = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

impl fmt::Display for KeepPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KeepPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_and_folders() {
        let check = |pattern: &str, matching: &[&str], other: &[&str]| {
            let pattern = KeepPattern::new(pattern).unwrap();
            for path in matching {
                assert!(pattern.matches(path), "{pattern} {path}");
            }
            for path in other {
                assert!(!pattern.matches(path), "{pattern} {path}");
            }
        };
        check(
            "report.pdf",
            &["report.pdf"],
            &["report.pdfx", "a/report.pdf", "report"],
        );
        check(
            "out/*.csv",
            &["out/a.csv", "out/.csv"],
            &["out/a/b.csv", "a.csv", "out/a.tsv"],
        );
        check("*", &["a", ".hidden"], &["a/b"]);
        check("?.x", &["a.x", "é.x"], &["ab.x", ".x"]);
        check("a*b*c", &["abc", "aXbYbZc"], &["abcd", "acb"]);
        check("**", &["a", "a/b/c"], &[]);
        check("out/**", &["out/a", "out/a/b"], &["out", "x/out/a"]);
        check("**/*.log", &["x.log", "a/b/x.log"], &["x.logs"]);
        check("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["a", "a/b/c", "b"]);
        check("**/a/**/b", &["a/b", "x/a/y/b", "a/a/b"], &["a", "b/a"]);
    }

    #[test]
    fn folders_that_no_match_can_be_in_are_left_out() {
        let check = |pattern: &str, folder: &str, expected: bool| {
            let pattern = KeepPattern::new(pattern).unwrap();
            assert_eq!(pattern.may_match_below(folder), expected, "{pattern} {folder}");
        };
        check("report.pdf", "out", false);
        check("out/*.csv", "out", true);
        check("out/*.csv", "out/deep", false);
        check("out/*.csv", "src", false);
        check("*/x", "any", true);
        check("out/**", "out/a/b", true);
        check("**/x", "a/b", true);
        check("a/**/x", "b", false);
    }

    #[test]
    fn patterns_cannot_leave_the_workspace() {
        let check =
            |text: &str, expected| assert_eq!(KeepPattern::new(text).map(drop), Err(expected), "{text}");
        check("", KeepPatternError::Empty);
        check("/etc/passwd", KeepPatternError::Slash);
        check("out/", KeepPatternError::Slash);
        check("../x", KeepPatternError::Component);
        check("a/../../x", KeepPatternError::Component);
        check("a//b", KeepPatternError::Component);
        check("./a", KeepPatternError::Component);
        check("a\0b", KeepPatternError::Control);
        check("a**", KeepPatternError::DoubleStar);
        let long = "x".repeat(KeepPattern::MAX_BYTES + 1);
        check(
            &long,
            KeepPatternError::TooLong {
                limit: 1024,
                actual: 1025,
            },
        );
    }

    /// A pattern of a user must not be able to keep a slot busy.
    #[test]
    fn matching_takes_no_exponential_time() {
        let pattern = KeepPattern::new("*a".repeat(500) + "b").unwrap();
        assert!(!pattern.matches(&"a".repeat(4000)));
        let pattern = KeepPattern::new("**/a/".repeat(200) + "b").unwrap();
        assert!(!pattern.matches(&vec!["a"; 1000].join("/")));
    }
}
