//! Paths of a task's files, relative to its workspace.

use std::fmt;

use thiserror::Error;

/// The path of a task's file, relative to the task's workspace. It cannot leave the workspace: it has no root, no `.`
/// or `..`, and no empty part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath(String);

/// Why a text is not a valid path of a file in a task's workspace.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WorkspacePathError {
    #[error("is empty; name the file")]
    Empty,
    #[error("is absolute; paths are relative to the workspace")]
    Absolute,
    #[error("has a '..' or '.' part; paths must stay inside the workspace")]
    DotPart,
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

impl WorkspacePath {
    pub fn new(path: impl Into<String>) -> Result<WorkspacePath, WorkspacePathError> {
        let path = path.into();
        if path.chars().any(char::is_control) {
            return Err(WorkspacePathError::Control);
        }
        WorkspacePath::of_kept_file(path)
    }

    /// The path of a file that a program made: it may have control characters in its name.
    pub fn of_kept_file(path: impl Into<String>) -> Result<WorkspacePath, WorkspacePathError> {
        let path = path.into();
        if path.is_empty() {
            return Err(WorkspacePathError::Empty);
        }
        if path.len() > LENGTH_LIMIT {
            return Err(WorkspacePathError::TooLong {
                limit: LENGTH_LIMIT,
                actual: path.len(),
            });
        }
        if path.starts_with('/') {
            return Err(WorkspacePathError::Absolute);
        }
        if path.contains('\0') {
            return Err(WorkspacePathError::Control);
        }
        for part in path.split('/') {
            match part {
                "" => return Err(WorkspacePathError::EmptyPart),
                "." | ".." => return Err(WorkspacePathError::DotPart),
                _ if part.len() > PART_LIMIT => {
                    return Err(WorkspacePathError::PartTooLong {
                        limit: PART_LIMIT,
                        actual: part.len(),
                    });
                }
                _ => {}
            }
        }
        let depth = path.split('/').count();
        if depth > DEPTH_LIMIT {
            return Err(WorkspacePathError::TooDeep {
                limit: DEPTH_LIMIT,
                actual: depth,
            });
        }
        Ok(WorkspacePath(path))
    }

    /// The same path inside `folder`.
    pub fn beneath(&self, folder: &str) -> Result<WorkspacePath, WorkspacePathError> {
        WorkspacePath::new(format!("{folder}/{}", self.0))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folders that contain this file, outermost first: `a/b/c` gives `a` and `a/b`.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(end, _)| &self.0[..end])
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_workspace_are_refused() {
        let check = |path: &str, expected: Result<(), WorkspacePathError>| {
            assert_eq!(WorkspacePath::new(path).map(|_| ()), expected, "{path:?}");
        };
        check("main.cpp", Ok(()));
        check("lib/a b/ü.h", Ok(()));
        check("...", Ok(()));
        check("", Err(WorkspacePathError::Empty));
        check("/etc/passwd", Err(WorkspacePathError::Absolute));
        check("../x", Err(WorkspacePathError::DotPart));
        check("a/../../x", Err(WorkspacePathError::DotPart));
        check("./x", Err(WorkspacePathError::DotPart));
        check("a//b", Err(WorkspacePathError::EmptyPart));
        check("a/", Err(WorkspacePathError::EmptyPart));
        check("a\0b", Err(WorkspacePathError::Control));
        check(
            &"x".repeat(256),
            Err(WorkspacePathError::PartTooLong {
                limit: 255,
                actual: 256,
            }),
        );
        check(
            &"x/".repeat(600),
            Err(WorkspacePathError::TooLong {
                limit: 1024,
                actual: 1200,
            }),
        );
        check(
            &["d"; 40].join("/"),
            Err(WorkspacePathError::TooDeep {
                limit: 32,
                actual: 40,
            }),
        );
    }

    #[test]
    fn folders_are_listed_outermost_first() {
        let path = WorkspacePath::new("a/b/c").unwrap();
        assert_eq!(path.folders().collect::<Vec<_>>(), ["a", "a/b"]);
    }
}
