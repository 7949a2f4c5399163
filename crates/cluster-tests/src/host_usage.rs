//! Resource usage of a whole machine, from the kernel's counters instead of a control group's.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(5);
const PAGE: u64 = 4096;

/// The resource usage of a whole test machine at one time, or the difference between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostUsage {
    /// MemTotal - MemAvailable.
    pub memory_bytes: u64,
    /// Kernel objects (Slab), including reclaimable caches.
    pub slab_bytes: u64,
    /// Kernel objects that cannot be reclaimed (SUnreclaim).
    pub fixed_slab_bytes: u64,
    /// Buffers of TCP and UDP sockets in all network namespaces.
    pub socket_bytes: u64,
    pub open_files: u64,
    /// Processes and threads.
    pub processes: u64,
}

impl HostUsage {
    /// The files to read, for a caller that reads them on another machine and passes their text to `parse`.
    pub const FILES: [&str; 4] = [
        "/proc/meminfo",
        "/proc/net/sockstat",
        "/proc/sys/fs/file-nr",
        "/proc/loadavg",
    ];

    /// The current usage of this machine.
    pub fn read() -> HostUsage {
        let text: String = HostUsage::FILES
            .iter()
            .map(|path| fs::read_to_string(path).expect("/proc"))
            .collect();
        HostUsage::parse(&text).unwrap_or_else(|| panic!("figures are missing: {text}"))
    }

    /// Parses the concatenated text of `FILES`.
    pub fn parse(text: &str) -> Option<HostUsage> {
        let words_after = |name: &str| {
            let mut lines = text.lines().map(str::split_whitespace);
            lines.find_map(|mut words| (words.next() == Some(name)).then_some(words))
        };
        let kib = |name| words_after(name)?.next()?.parse::<u64>().ok();
        let pages = |name| {
            let mut words = words_after(name)?.skip_while(|word| *word != "mem");
            words.nth(1)?.parse::<u64>().ok()
        };
        // file-nr: allocated, free (always 0), maximum.
        let open_files = text
            .lines()
            .find_map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
                [used, "0", _] => used.parse().ok(),
                _ => None,
            });
        // loadavg: the fourth field is RUNNABLE/TOTAL.
        let processes = text.lines().find_map(|line| {
            let (_, all) = line.split_whitespace().nth(3)?.split_once('/')?;
            all.parse().ok()
        });
        Some(HostUsage {
            memory_bytes: (kib("MemTotal:")? - kib("MemAvailable:")?) << 10,
            slab_bytes: kib("Slab:")? << 10,
            fixed_slab_bytes: kib("SUnreclaim:")? << 10,
            socket_bytes: (pages("TCP:")? + pages("UDP:")?) * PAGE,
            open_files: open_files?,
            processes: processes?,
        })
    }

    /// The increase since `before` of each counter; 0 where it fell.
    #[must_use]
    pub fn increase_since(&self, before: &HostUsage) -> HostUsage {
        self.with(before, u64::saturating_sub)
    }

    /// The larger value of each counter.
    #[must_use]
    pub fn max(&self, other: &HostUsage) -> HostUsage {
        self.with(other, u64::max)
    }

    /// Whether no counter exceeds that of the bound.
    pub fn is_within(&self, bound: &HostUsage) -> bool {
        self.increase_since(bound) == HostUsage::default()
    }

    fn with(&self, other: &HostUsage, join: fn(u64, u64) -> u64) -> HostUsage {
        HostUsage {
            memory_bytes: join(self.memory_bytes, other.memory_bytes),
            slab_bytes: join(self.slab_bytes, other.slab_bytes),
            fixed_slab_bytes: join(self.fixed_slab_bytes, other.fixed_slab_bytes),
            socket_bytes: join(self.socket_bytes, other.socket_bytes),
            open_files: join(self.open_files, other.open_files),
            processes: join(self.processes, other.processes),
        }
    }
}

/// Samples the resource usage of the test machine in a thread, and keeps the maximum of each counter.
pub struct HostUsageMonitor {
    before: HostUsage,
    stop: Arc<AtomicBool>,
    looking: JoinHandle<HostUsage>,
}

impl HostUsageMonitor {
    pub fn start() -> HostUsageMonitor {
        let (before, stop) = (HostUsage::read(), Arc::new(AtomicBool::new(false)));
        let looking = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let mut most = before;
                while !stop.load(Ordering::Relaxed) {
                    most = most.max(&HostUsage::read());
                    std::thread::sleep(PAUSE);
                }
                most
            }
        });
        HostUsageMonitor {
            before,
            stop,
            looking,
        }
    }

    /// The usage when the monitor started.
    pub fn before(&self) -> HostUsage {
        self.before
    }

    /// Stops sampling, and returns the largest increase of each counter.
    pub fn end(self) -> HostUsage {
        self.stop.store(true, Ordering::Relaxed);
        self.looking.join().expect("figures").increase_since(&self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::HostUsage;

    #[test]
    fn kernel_counters_are_parsed() {
        let text = "MemTotal:        1000 kB\nMemFree:          100 kB\nMemAvailable:     400 kB\nSlab:              50 kB\n\
            SReclaimable:      20 kB\nSUnreclaim:        30 kB\nsockets: used 100\n\
            TCP: inuse 5 orphan 0 tw 0 alloc 6 mem 2\nUDP: inuse 1 mem 1\nUDPLITE: inuse 0\n\
            1120\t0\t2097152\n0.10 0.20 0.30 2/345 6789\n";
        let expected = HostUsage {
            memory_bytes: 600 << 10,
            slab_bytes: 50 << 10,
            fixed_slab_bytes: 30 << 10,
            socket_bytes: 3 * 4096,
            open_files: 1120,
            processes: 345,
        };
        assert_eq!(HostUsage::parse(text), Some(expected));
        assert_eq!(HostUsage::parse("Slab: 50 kB\n"), None);
        HostUsage::read();
    }

    #[test]
    fn differences_do_not_go_below_zero() {
        let few = HostUsage {
            open_files: 5,
            processes: 9,
            ..HostUsage::default()
        };
        let many = HostUsage {
            open_files: 7,
            processes: 4,
            ..HostUsage::default()
        };
        assert_eq!(many.increase_since(&few).open_files, 2);
        assert_eq!(many.increase_since(&few).processes, 0);
        assert!(!many.is_within(&few));
        assert!(few.is_within(&many.max(&few)));
    }
}
