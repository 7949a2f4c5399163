//! Which kernel guests have.

use std::path::PathBuf;

/// What `CONCLAVE_KERNEL` says, or where `scripts/setup test` has put Debian's.
pub(super) fn find() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    variable("CONCLAVE_KERNEL")
        .or_else(|| Some(cache()?.join("conclave/kernel/vmlinuz")))
        .filter(|file| file.is_file())
        .expect("no kernel for a guest: `scripts/setup test` brings one, or CONCLAVE_KERNEL names one")
}
