//! Keep the warden small, because its size shows in what is measured.
//!
//! The kernel starts a process's memory peak with that of the process it was cloned from. Large inputs and
//! outputs pass through the warden's memory; without care the next command would be charged for them.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::Write;

/// More than this moved through the warden's memory is worth a system call to forget its peak.
const WORTH: usize = 64 << 10;

pub(super) struct Footprint {
    /// Writing to it lowers the peak to what is held now. Missing on kernels without it: then peaks are only
    /// less exact.
    clear_refs: Option<File>,
    moved: usize,
    /// What every process started now is charged at least, in bytes.
    floor: u64,
}

impl Footprint {
    pub(super) fn new() -> Self {
        let clear_refs = OpenOptions::new().write(true).open("/proc/self/clear_refs").ok();
        // What the start of the process itself used counts as moved.
        Self {
            clear_refs,
            moved: usize::MAX,
            floor: 0,
        }
    }

    /// So many bytes went through.
    pub(super) fn on_moved(&mut self, bytes: usize) {
        self.moved = self.moved.saturating_add(bytes);
    }

    /// To be called when they are gone and before the next clone.
    pub(super) fn forget_peak(&mut self) {
        const RESET_PEAK: &[u8] = b"5";
        if self.moved <= WORTH {
            return;
        }
        self.moved = 0;
        if let Some(file) = &mut self.clear_refs {
            let _ = file.write_all(RESET_PEAK);
        }
        self.floor = own_peak();
    }

    /// How much of a measured peak is certainly the command's: all of it or, where it is only what any process
    /// would be charged, nothing. Else a limit below the warden's size would fail commands that keep it.
    pub(super) fn own_part(&self, peak: u64) -> u64 {
        if peak > self.floor + WORTH as u64 { peak } else { 0 }
    }
}

fn own_peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Large blocks go back to the kernel as soon as they are freed. By default the allocator learns from the
/// first of them to keep the next.
pub(super) fn return_memory_early() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE: libc::c_int = 128 << 10;
        // SAFETY: called before anything else in a process of one thread; it only sets allocator parameters.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
            libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE);
        }
    }
}
