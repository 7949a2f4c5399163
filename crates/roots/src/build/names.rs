//! What a user may write in the options of a build. All of it becomes arguments of other programs.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Why an option of `conclave root build` is not accepted.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("'{text}' is not {expected}")]
pub struct InvalidBuildName {
    text: String,
    expected: &'static str,
}

/// Declares the type of an option: a text of which each character, and the first one, is of a known set.
macro_rules! checked_text {
    ($(#[doc = $doc:literal])* $name:ident, $expected:literal, $is_valid:expr) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidBuildName;
            fn from_str(text: &str) -> Result<$name, InvalidBuildName> {
                let is_valid: fn(&str) -> bool = $is_valid;
                match is_valid(text) && text.len() <= MAX_LENGTH {
                    true => Ok($name(text.to_string())),
                    false => Err(InvalidBuildName {
                        text: text.to_string(),
                        expected: $expected,
                    }),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

const MAX_LENGTH: usize = 200;

checked_text!(
    /// The name of a Debian package that a root is made of.
    PackageName,
    "the name of a Debian package (lower-case letters, digits, '+', '-' and '.')",
    |text| {
        text.len() >= 2
            && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && text
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c))
    }
);

checked_text!(
    /// A Python package that `pip` installs into a root, with its version: `numpy==1.26.4`.
    PipRequirement,
    "a Python package like numpy, numpy==1.26.4 or pandas[excel]>=2",
    |text| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._-[]=<>~!+".contains(c))
    }
);

checked_text!(
    /// A release of Debian, such as `bookworm`.
    SuiteName,
    "a release of Debian like bookworm",
    |text| {
        text.starts_with(|c: char| c.is_ascii_lowercase())
            && text
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    }
);

checked_text!(
    /// The address of a mirror of Debian, from which a root's packages are downloaded.
    MirrorUrl,
    "the address of a mirror like https://deb.debian.org/debian",
    |text| {
        let schemes = ["http://", "https://", "file:///"];
        schemes.iter().any(|scheme| text.len() > scheme.len() && text.starts_with(scheme))
            && text.chars().all(|c| c.is_ascii_graphic() && !"'\"`$\\<>|;".contains(c))
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_could_be_anything_else_are_refused() {
        fn check<T: FromStr<Err = InvalidBuildName>>(good: &[&str], bad: &[&str]) {
            for text in good {
                assert!(text.parse::<T>().is_ok(), "{text:?}");
            }
            for text in bad
                .iter()
                .chain(&["", " ", "-x", "a b", "a\nb", "$(x)", "é", &"a".repeat(201)])
            {
                assert!(text.parse::<T>().is_err(), "{text:?}");
            }
        }
        check::<PackageName>(
            &["g++", "python3-numpy", "libstdc++6", "7zip"],
            &["A", "G++", "a", "bash=5", "bash/sid", "?essential", "a,b"],
        );
        check::<PipRequirement>(
            &[
                "numpy",
                "numpy==1.26.4",
                "pandas[excel]>=2",
                "ruamel.yaml",
                "X~=1.0",
            ],
            &[
                "--index-url",
                "http://x",
                "numpy; python_version<'3'",
                "a@b",
                "a,b",
                "./x",
            ],
        );
        check::<SuiteName>(
            &["bookworm", "trixie", "bookworm-backports"],
            &["../x", "Sid", "a/b"],
        );
        check::<MirrorUrl>(
            &[
                "http://deb.debian.org/debian",
                "https://user:pw@host:8080/x",
                "file:///srv/mirror",
            ],
            &[
                "deb http://x",
                "ftp://x",
                "http://",
                "http://x'y",
                "copy:/x",
                "/etc/apt/sources.list",
            ],
        );
    }
}
