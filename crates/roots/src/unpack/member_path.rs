//! The path of a member of an archive, which must be one inside the root.

use thiserror::Error;

/// The path of a member of an archive that becomes a root: it has no empty part, no `.` and no `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemberPath<'a> {
    parts: Vec<&'a [u8]>,
}

/// Why the path of a member of an archive is refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum MemberPathError {
    #[error("is absolute")]
    Absolute,
    #[error("has a '..' part, which may lead out of the root")]
    ParentPart,
    #[error("contains a NUL")]
    Nul,
    #[error("is longer than {} bytes", MAX_LENGTH)]
    TooLong,
    #[error("has a part longer than {} bytes", MAX_PART)]
    PartTooLong,
    #[error("is deeper than {} folders", MAX_DEPTH)]
    TooDeep,
}

/// The kernel's limits, less the root's own path in a cell.
pub(super) const MAX_LENGTH: usize = 3800;
const MAX_PART: usize = 255;
pub(super) const MAX_DEPTH: usize = 128;

impl<'a> MemberPath<'a> {
    pub(super) fn parse(path: &'a [u8]) -> Result<MemberPath<'a>, MemberPathError> {
        if path.contains(&0) {
            return Err(MemberPathError::Nul);
        }
        if path.starts_with(b"/") {
            return Err(MemberPathError::Absolute);
        }
        if path.len() > MAX_LENGTH {
            return Err(MemberPathError::TooLong);
        }
        let parts: Vec<&[u8]> = path
            .split(|byte| *byte == b'/')
            .filter(|part| !matches!(*part, b"" | b"."))
            .collect();
        if parts.contains(&b"..".as_slice()) {
            return Err(MemberPathError::ParentPart);
        }
        if parts.iter().any(|part| part.len() > MAX_PART) {
            return Err(MemberPathError::PartTooLong);
        }
        if parts.len() > MAX_DEPTH {
            return Err(MemberPathError::TooDeep);
        }
        Ok(MemberPath { parts })
    }

    /// The folders and the name; `None` for the root itself.
    pub(super) fn split_last(&self) -> Option<(&[&'a [u8]], &'a [u8])> {
        self.parts.split_last().map(|(name, parents)| (parents, *name))
    }

    pub(super) fn has_part_with_prefix(&self, prefix: &[u8]) -> bool {
        self.parts.iter().any(|part| part.starts_with(prefix))
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.parts.join(&b'/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_root_are_refused() {
        let check = |path: &[u8], expected: Result<&[u8], MemberPathError>| {
            let parsed = MemberPath::parse(path).map(|path| path.to_bytes());
            assert_eq!(parsed.as_deref(), expected.as_deref(), "{}", path.escape_ascii());
        };
        check(b"usr/bin/true", Ok(b"usr/bin/true"));
        check(b"./usr//bin/./", Ok(b"usr/bin"));
        check(b".", Ok(b""));
        check(b"...", Ok(b"..."));
        check(b"a/\xff", Ok(b"a/\xff"));
        check(b"/etc/passwd", Err(MemberPathError::Absolute));
        check(b"//", Err(MemberPathError::Absolute));
        check(b"../x", Err(MemberPathError::ParentPart));
        check(b"a/../b", Err(MemberPathError::ParentPart));
        check(b"a/..", Err(MemberPathError::ParentPart));
        check(b"a\0b", Err(MemberPathError::Nul));
        check(&[b'x'; 256], Err(MemberPathError::PartTooLong));
        check(&b"x/".repeat(129), Err(MemberPathError::TooDeep));
        check(&b"xx/".repeat(2000), Err(MemberPathError::TooLong));
    }
}
