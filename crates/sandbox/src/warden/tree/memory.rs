//! What several processes hold together, where the sum of what each holds is too much.
#![allow(unsafe_code)]

use std::fs;
use std::io;

use super::{Stat, Table};

impl Table {
    /// Bytes. Dear: the kernel walks through all pages. A process that has ended meanwhile holds nothing.
    pub(in crate::warden) fn memory_together(&self, stats: &[(i32, Stat)]) -> u64 {
        let memory = |(pid, stat): &(i32, Stat)| {
            // The order matters: one that has memory of its own by now keeps it, so what is read next is that.
            let has_parent = stats.iter().any(|(other, _)| *other == stat.parent);
            if has_parent && is_same_memory(*pid, stat.parent) {
                return 0;
            }
            match self.proportional_memory(*pid) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => stat.resident(),
                Err(_) => 0,
            }
        };
        stats.iter().map(memory).sum()
    }

    /// The memory of a process where pages that it shares with others count only in part, as after a fork.
    pub(super) fn proportional_memory(&self, pid: i32) -> io::Result<u64> {
        let text = fs::read_to_string(self.root.join(format!("{pid}/smaps_rollup")))?;
        let kib = text
            .lines()
            .find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix("kB"));
        let kib: Option<u64> = kib.and_then(|kib| kib.trim().parse().ok());
        kib.map(|kib| kib * 1024)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Between a vfork and its exec, parent and child are two processes in one memory, and to all other figures
/// they look like two that hold as much each. Kernels that cannot tell say no.
fn is_same_memory(one: i32, other: i32) -> bool {
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: takes numbers only.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0 }
}
