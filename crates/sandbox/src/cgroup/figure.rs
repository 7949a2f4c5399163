//! Files of a group that are read again and again.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use super::GroupError;
use crate::fault::Errno;

#[derive(Debug)]
pub(super) struct Figure {
    pub(super) file: File,
    /// As messages name it.
    pub(super) name: &'static str,
}

impl Figure {
    /// From its start. That also makes the kernel tell of the next change.
    pub(super) fn read(&self, parse: impl Fn(&str) -> Option<u64>) -> Result<u64, GroupError> {
        // More than these files have, or than what is looked for in them is away from their start.
        let mut text = [0; 1024];
        let failed = |errno| GroupError::Read {
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

/// A file of one number.
pub(super) fn number(text: &str) -> Option<u64> {
    text.trim_end().parse().ok()
}

/// A file of lines of a key and a number each.
pub(super) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
        .and_then(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_by_key() {
        fn check(text: &str, key: &str, expected: Option<u64>) {
            assert_eq!(keyed(text, key), expected, "{key} in {text:?}");
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
    fn single_numbers_are_read() {
        fn check(text: &str, expected: Option<u64>) {
            assert_eq!(number(text), expected, "{text:?}");
        }
        check("1568768\n", Some(1_568_768));
        check("0", Some(0));
        check("max\n", None);
        check("", None);
    }
}
