//! Where a task's file lies, relative to its workspace.

use std::fmt;

use thiserror::Error;

/// A relative path that stays below the folder it is put in: no root, no `.` or `..`, no empty part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath(String);

#[derive(Debug, Error, PartialEq, Eq)]
pub enum PathError {
    #[error("is empty; name the file")]
    Empty,
    #[error("is absolute; paths are relative to the workspace")]
    Absolute,
    #[error("has a '..' or '.' part; paths must stay inside the workspace")]
    Leaves,
    #[error("has an empty part (two slashes in a row, or one at the end)")]
    EmptyPart,
    #[error("contains a NUL or another control character")]
    Control,
    #[error("is {actual} bytes long, the limit is {limit}")]
    TooLong { limit: usize, actual: usize },
    #[error("has a part of {actual} bytes, the limit is {limit}")]
    PartTooLong { limit: usize, actual: usize },
    #[error("is {actual} folders deep, the limit is {limit}")]
    TooDeep { limit: usize, actual: usize },
}

const LENGTH_LIMIT: usize = 1024;
const PART_LIMIT: usize = 255;
const DEPTH_LIMIT: usize = 32;

impl FilePath {
    pub fn new(path: impl Into<String>) -> Result<FilePath, PathError> {
        let path = path.into();
        if path.is_empty() {
            return Err(PathError::Empty);
        }
        if path.len() > LENGTH_LIMIT {
            return Err(PathError::TooLong {
                limit: LENGTH_LIMIT,
                actual: path.len(),
            });
        }
        if path.starts_with('/') {
            return Err(PathError::Absolute);
        }
        if path.chars().any(char::is_control) {
            return Err(PathError::Control);
        }
        for part in path.split('/') {
            match part {
                "" => return Err(PathError::EmptyPart),
                "." | ".." => return Err(PathError::Leaves),
                _ if part.len() > PART_LIMIT => {
                    return Err(PathError::PartTooLong {
                        limit: PART_LIMIT,
                        actual: part.len(),
                    });
                }
                _ => {}
            }
        }
        let depth = path.split('/').count();
        if depth > DEPTH_LIMIT {
            return Err(PathError::TooDeep {
                limit: DEPTH_LIMIT,
                actual: depth,
            });
        }
        Ok(FilePath(path))
    }

    /// The same file one folder further down.
    pub fn beneath(&self, folder: &str) -> Result<FilePath, PathError> {
        FilePath::new(format!("{folder}/{}", self.0))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folders on the way to this file, outermost first: `a/b/c` gives `a` and `a/b`.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(end, _)| &self.0[..end])
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_stay_inside_are_taken() {
        let check = |path: &str, expected: Result<(), PathError>| {
            assert_eq!(FilePath::new(path).map(|_| ()), expected, "{path:?}");
        };
        check("main.cpp", Ok(()));
        check("lib/a b/ü.h", Ok(()));
        check("...", Ok(()));
        check("", Err(PathError::Empty));
        check("/etc/passwd", Err(PathError::Absolute));
        check("../x", Err(PathError::Leaves));
        check("a/../../x", Err(PathError::Leaves));
        check("./x", Err(PathError::Leaves));
        check("a//b", Err(PathError::EmptyPart));
        check("a/", Err(PathError::EmptyPart));
        check("a\0b", Err(PathError::Control));
        check(
            &"x".repeat(256),
            Err(PathError::PartTooLong {
                limit: 255,
                actual: 256,
            }),
        );
        check(
            &"x/".repeat(600),
            Err(PathError::TooLong {
                limit: 1024,
                actual: 1200,
            }),
        );
        check(
            &["d"; 40].join("/"),
            Err(PathError::TooDeep {
                limit: 32,
                actual: 40,
            }),
        );
    }

    #[test]
    fn folders_come_outermost_first() {
        let path = FilePath::new("a/b/c").unwrap();
        assert_eq!(path.folders().collect::<Vec<_>>(), ["a", "a/b"]);
    }
}
