//! Keeps the warden's memory small, because it affects measurements.
//!
//! The kernel starts the memory peak of a process with that of the process it was cloned from. Large inputs pass
//! through the warden's memory, and output makes the pages of its fixed buffers resident. Without a reset both would
//! count as the next command's memory.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::Write;

/// If more bytes than this passed through the warden's memory, its peak is reset.
const RESET_THRESHOLD: usize = 64 << 10;

/// The memory of the warden process itself, which it keeps small because new processes inherit its peak.
pub(super) struct WardenMemory {
    /// Writing to this file lowers the peak to the current value. Some kernels do not have it; then peaks are less
    /// exact.
    clear_refs: Option<File>,
    buffered: usize,
    /// The peak, in bytes, with which every new process starts.
    baseline: u64,
}

impl WardenMemory {
    pub(super) fn new() -> Self {
        let clear_refs = OpenOptions::new().write(true).open("/proc/self/clear_refs").ok();
        // The memory that starting this process took counts as buffered.
        Self {
            clear_refs,
            buffered: usize::MAX,
            baseline: 0,
        }
    }

    /// Records that this many bytes passed through the warden's memory.
    pub(super) fn on_bytes_buffered(&mut self, bytes: usize) {
        self.buffered = self.buffered.saturating_add(bytes);
    }

    /// Must be called after the buffers are freed and before the next clone.
    pub(super) fn reset_peak(&mut self) {
        const RESET_PEAK: &[u8] = b"5";
        if self.buffered <= RESET_THRESHOLD {
            return;
        }
        self.buffered = 0;
        if let Some(file) = &mut self.clear_refs {
            let _ = file.write_all(RESET_PEAK);
        }
        self.baseline = read_own_peak();
    }

    /// How much of a measured peak certainly belongs to the command: all of it, or nothing if it is no more than
    /// every new process starts with. Otherwise a memory limit below the warden's size would fail commands that stay
    /// within it.
    pub(super) fn command_part(&self, peak: u64) -> u64 {
        if peak > self.baseline + RESET_THRESHOLD as u64 {
            peak
        } else {
            0
        }
    }
}

fn read_own_peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Makes the allocator return large blocks to the kernel as soon as they are freed. By default it keeps later blocks
/// after the first one was freed.
pub(super) fn return_freed_memory_early() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE: libc::c_int = 128 << 10;
        // SAFETY: called before anything else in a single-threaded process; it only sets allocator parameters.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
            libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE);
        }
    }
}
