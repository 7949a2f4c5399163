//! Where a crash goes on this machine.

use std::fs;

use nix::sys::resource::{Resource, getrlimit};

use super::WallError;

/// A program that the kernel starts for each crash, as root, unless the limit of core files is just 1; or a server that
/// it connects to, whatever the limit.
pub(super) fn look_at_helper() -> Result<(), WallError> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let pattern = read("/proc/sys/kernel/core_pattern");
    let hard = getrlimit(Resource::RLIMIT_CORE).map_or(0, |(_, hard)| hard);
    match is_started(&pattern, hard, may_raise(&read("/proc/self/status"))) {
        false => Ok(()),
        true => Err(WallError::CoreDumpHelper {
            pattern: pattern.trim().to_string(),
        }),
    }
}

fn is_started(pattern: &str, hard: u64, may_raise: bool) -> bool {
    match pattern.chars().next() {
        Some('@') => true,
        Some('|') => hard == 0 && !may_raise,
        _ => false,
    }
}

/// Whether a hard limit can be raised: in a container not by every root.
fn may_raise(status: &str) -> bool {
    const SYS_RESOURCE: u32 = 24;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    effective.is_some_and(|set| set >> SYS_RESOURCE & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_helper_that_cannot_be_kept_from_starting_matters() {
        fn check(pattern: &str, hard: u64, may_raise: bool, expected: bool) {
            assert_eq!(
                is_started(pattern, hard, may_raise),
                expected,
                "{pattern} {hard} {may_raise}"
            );
        }
        check("|/usr/lib/systemd/systemd-coredump %P\n", 0, false, true);
        check("|/usr/lib/systemd/systemd-coredump %P\n", 0, true, false);
        check("|/usr/lib/systemd/systemd-coredump %P\n", u64::MAX, false, false);
        check("@/run/coredump.socket\n", u64::MAX, true, true);
        check("core\n", 0, false, false);
        check("", 0, false, false);
    }

    #[test]
    fn a_capability_is_read_off_its_set() {
        assert!(may_raise("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        // As of a container that was not given it.
        assert!(!may_raise("CapEff:\t00000000a82425fb\n"));
        assert!(!may_raise("CapEff:\t0000000000000000\n"));
        assert!(!may_raise(""));
    }
}
