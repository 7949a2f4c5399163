//! The name of a root, a root file system that the cells of a task see.

use std::fmt;

use crate::NameError;
use crate::id::check_length;

/// The name of a root file system for cells, which a task or a language may ask for. The operators of the executors
/// define the roots.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RootName(String);

const ROOT_LIMIT: usize = 64;

impl RootName {
    /// A root is a folder with this name and a section of the config file. The first character keeps it apart from
    /// hidden files and from options of commands.
    pub fn new(name: impl Into<String>) -> Result<RootName, NameError> {
        let name = name.into();
        check_length(&name, ROOT_LIMIT)?;
        if !name
            .chars()
            .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-'))
        {
            return Err(NameError::LowerCaseCharset);
        }
        if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return Err(NameError::FirstCharacter);
        }
        if name.contains("..") {
            return Err(NameError::DoubleDot);
        }
        Ok(RootName(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RootName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RootName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootName({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_name_is_a_plain_lower_case_word() {
        let check = |name: &str, expected: Result<(), NameError>| {
            assert_eq!(RootName::new(name).map(|_| ()), expected, "{name:?}");
        };
        check("debian", Ok(()));
        check("gcc-12.2_a", Ok(()));
        check("0", Ok(()));
        check("a.b.", Ok(()));
        check(&"x".repeat(64), Ok(()));
        check("", Err(NameError::Empty));
        check(
            &"x".repeat(65),
            Err(NameError::TooLong {
                limit: 64,
                actual: 65,
            }),
        );
        for wrong in ["Debian", "a/b", "a b", "é", "a\n", "a\0"] {
            check(wrong, Err(NameError::LowerCaseCharset));
        }
        for wrong in [".", "..", ".hidden", "-option", "_a"] {
            check(wrong, Err(NameError::FirstCharacter));
        }
        check("a..b", Err(NameError::DoubleDot));
        assert_eq!(RootName::new("gcc-12").unwrap().as_str(), "gcc-12");
    }
}
