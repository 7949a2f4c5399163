//! What happens on this machine when a command crashes.

use std::fs;

use nix::sys::resource::{Resource, getrlimit};

use super::EnforcementError;

/// Fails if a crash of a command would start a core dump helper. A helper is a program that the kernel starts as root
/// for each crash, unless the limit of core files is exactly 1, or a server that the kernel connects to regardless of
/// the limit.
pub(super) fn check_helper() -> Result<(), EnforcementError> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let pattern = read("/proc/sys/kernel/core_pattern");
    let hard = getrlimit(Resource::RLIMIT_CORE).map_or(0, |(_, hard)| hard);
    match helper_starts(&pattern, hard, may_raise(&read("/proc/self/status"))) {
        false => Ok(()),
        true => Err(EnforcementError::CoreDumpHelper {
            pattern: pattern.trim().to_string(),
        }),
    }
}

fn helper_starts(pattern: &str, hard: u64, may_raise: bool) -> bool {
    match pattern.chars().next() {
        Some('@') => true,
        Some('|') => hard == 0 && !may_raise,
        _ => false,
    }
}

/// Whether this process may raise its hard limits (CAP_SYS_RESOURCE). In a container root may lack it.
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
    fn a_helper_is_an_error_only_if_it_cannot_be_prevented() {
        fn check(pattern: &str, hard: u64, may_raise: bool, expected: bool) {
            assert_eq!(
                helper_starts(pattern, hard, may_raise),
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
    fn the_capability_to_raise_limits_is_read_from_the_status() {
        assert!(may_raise("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        // The usual capabilities of a container, without CAP_SYS_RESOURCE.
        assert!(!may_raise("CapEff:\t00000000a82425fb\n"));
        assert!(!may_raise("CapEff:\t0000000000000000\n"));
        assert!(!may_raise(""));
    }
}
