//! Files with measurements of a control group.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use super::CgroupError;
use crate::platform_error::Errno;

/// A file of a control group, such as `memory.current`, that the warden keeps open and reads repeatedly.
#[derive(Debug)]
pub(super) struct StatFile {
    pub(super) file: File,
    /// The file name, for error messages.
    pub(super) name: &'static str,
}

impl StatFile {
    /// Reads the file from its start, which also makes the kernel notify the next change.
    pub(super) fn read(&self, parse: impl Fn(&str) -> Option<u64>) -> Result<u64, CgroupError> {
        // Long enough for these files, or at least for the part that holds the value.
        let mut text = [0; 1024];
        let failed = |errno| CgroupError::Read {
            file: self.name.to_owned(),
            errno,
        };
        let length = self.file.read_at(&mut text, 0).map_err(|e| failed(e.into()))?;
        str::from_utf8(&text[..length])
            .ok()
            .and_then(parse)
            .ok_or(failed(Errno(libc::EBADMSG)))
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Parses a file with a single number.
pub(super) fn parse_number(text: &str) -> Option<u64> {
    text.trim_end().parse().ok()
}

/// Parses a file with a key and a number on each line.
pub(super) fn parse_keyed(text: &str, key: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
        .and_then(parse_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_by_key() {
        fn check(text: &str, key: &str, expected: Option<u64>) {
            assert_eq!(parse_keyed(text, key), expected, "{key} in {text:?}");
        }
        let memory_events = "low 0\nhigh 0\nmax 31\noom 2\noom_kill 1\noom_group_kill 3\n";
        check(memory_events, "oom", Some(2));
        check(memory_events, "oom_kill", Some(1));
        check(memory_events, "oom_group_kill", Some(3));
        check(memory_events, "oom_group", None);
        check(
            "oom_kill_disable 7\nunder_oom 8\noom_kill 9\n",
            "oom_kill",
            Some(9),
        );
        check("max 12\n", "max", Some(12));
        check(
            "usage_usec 17734\nuser_usec 9000\nsystem_usec 8734\n",
            "usage_usec",
            Some(17734),
        );
        check("max\n", "max", None);
        check("max x\n", "max", None);
        check("", "max", None);
    }

    #[test]
    fn single_numbers_are_parsed() {
        fn check(text: &str, expected: Option<u64>) {
            assert_eq!(parse_number(text), expected, "{text:?}");
        }
        check("1568768\n", Some(1_568_768));
        check("0", Some(0));
        check("max\n", None);
        check("", None);
    }
}
