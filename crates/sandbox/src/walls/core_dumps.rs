//! Where a crash goes on this machine.

use std::fs;

use nix::sys::resource::{Resource, getrlimit};

use super::WallError;

/// A program that the kernel starts for each crash, as root, unless the limit of core files is just 1. Who is not root
/// cannot raise a hard limit of 0 to that.
pub(super) fn look_at_helper() -> Result<(), WallError> {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let hard = getrlimit(Resource::RLIMIT_CORE).map_or(0, |(_, hard)| hard);
    match is_started(&pattern, hard, nix::unistd::geteuid().is_root()) {
        false => Ok(()),
        true => Err(WallError::CoreDumpHelper {
            pattern: pattern.trim().to_string(),
        }),
    }
}

fn is_started(pattern: &str, hard: u64, is_root: bool) -> bool {
    pattern.starts_with('|') && hard == 0 && !is_root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_helper_that_cannot_be_kept_from_starting_matters() {
        fn check(pattern: &str, hard: u64, is_root: bool, expected: bool) {
            assert_eq!(
                is_started(pattern, hard, is_root),
                expected,
                "{pattern} {hard} {is_root}"
            );
        }
        check("|/usr/lib/systemd/systemd-coredump %P\n", 0, false, true);
        check("|/usr/lib/systemd/systemd-coredump %P\n", 0, true, false);
        check("|/usr/lib/systemd/systemd-coredump %P\n", u64::MAX, false, false);
        check("core\n", 0, false, false);
        check("", 0, false, false);
    }
}
