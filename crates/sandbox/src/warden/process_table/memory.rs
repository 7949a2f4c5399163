//! The memory of several processes together, in which shared pages count once.
#![allow(unsafe_code)]

use std::fs;
use std::io;

use super::{ProcessStat, ProcessTable};

impl ProcessTable {
    /// The memory of these processes together, in bytes. Expensive, because the kernel walks through all pages.
    /// A process that has ended meanwhile counts as 0.
    pub(in crate::warden) fn total_memory(&self, stats: &[(i32, ProcessStat)]) -> u64 {
        let memory = |(pid, stat): &(i32, ProcessStat)| {
            // This check comes before the memory is read: a process that has its own memory by now keeps it, so the
            // value read below is its own.
            let has_parent = stats.iter().any(|(other, _)| *other == stat.parent);
            if has_parent && shares_memory(*pid, stat.parent) {
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

    /// The memory of a process in which shared pages count only in part, for example after a fork.
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

/// Whether two processes share their whole memory. Between vfork and exec, a parent and its child do, while all other
/// measurements count the memory twice. Kernels that do not support the call say no.
fn shares_memory(one: i32, other: i32) -> bool {
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: the call takes numbers only.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0 }
}
