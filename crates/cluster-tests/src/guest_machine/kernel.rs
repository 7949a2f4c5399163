//! Finds the kernel that guests boot.

use std::path::PathBuf;

/// `CONCLAVE_KERNEL`, or Debian's kernel that `scripts/setup test` has downloaded.
pub(super) fn find() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    variable("CONCLAVE_KERNEL")
        .or_else(|| Some(cache()?.join("conclave/kernel/vmlinuz")))
        .filter(|file| file.is_file())
        .expect("no kernel for a guest: `scripts/setup test` brings one, or CONCLAVE_KERNEL names one")
}
