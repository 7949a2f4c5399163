//! The use of a machine as a whole, by the figures of its kernel and not by those of a control group.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(5);
const PAGE: u64 = 4096;

/// At one time; or how much more at one time than at another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostUsage {
    /// Memory that nobody can have. The kernel has it as what it could still give.
    pub memory_bytes: u64,
    /// Of the kernel's own objects, those in caches that it could give up included.
    pub slab_bytes: u64,
    pub fixed_slab_bytes: u64,
    /// What waits in TCP and UDP sockets of all network namespaces.
    pub socket_bytes: u64,
    pub open_files: u64,
    /// Processes and threads.
    pub processes: u64,
}

impl HostUsage {
    /// Files with the figures, for a caller that reads them on another machine and hands their text to `parse`.
    pub const FILES: [&str; 4] = [
        "/proc/meminfo",
        "/proc/net/sockstat",
        "/proc/sys/fs/file-nr",
        "/proc/loadavg",
    ];

    /// Of this machine, now.
    pub fn read() -> HostUsage {
        let text: String = HostUsage::FILES
            .iter()
            .map(|path| fs::read_to_string(path).expect("/proc"))
            .collect();
        HostUsage::parse(&text).unwrap_or_else(|| panic!("figures are missing: {text}"))
    }

    /// From all lines of these files.
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
        // In use, never more than 0 free, the most there may be.
        let open_files = text
            .lines()
            .find_map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
                [used, "0", _] => used.parse().ok(),
                _ => None,
            });
        // The fourth word is the number of runnable processes, a slash, and the number of all.
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

    /// How much more this is, figure by figure.
    #[must_use]
    pub fn over(&self, before: &HostUsage) -> HostUsage {
        self.with(before, u64::saturating_sub)
    }

    /// The larger of both, figure by figure.
    #[must_use]
    pub fn max(&self, other: &HostUsage) -> HostUsage {
        self.with(other, u64::max)
    }

    /// Whether no figure is above that of the bound.
    pub fn is_within(&self, bound: &HostUsage) -> bool {
        self.over(bound) == HostUsage::default()
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

/// Looks at this machine again and again, and remembers the highest of each figure.
pub struct HostWatch {
    before: HostUsage,
    stop: Arc<AtomicBool>,
    looking: JoinHandle<HostUsage>,
}

impl HostWatch {
    pub fn start() -> HostWatch {
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
        HostWatch {
            before,
            stop,
            looking,
        }
    }

    /// What there was at first.
    pub fn before(&self) -> HostUsage {
        self.before
    }

    /// How much more there was at most.
    pub fn end(self) -> HostUsage {
        self.stop.store(true, Ordering::Relaxed);
        self.looking.join().expect("figures").over(&self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::HostUsage;

    #[test]
    fn figures_are_read_as_the_kernel_writes_them() {
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
    fn only_what_is_more_is_over() {
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
        assert_eq!(many.over(&few).open_files, 2);
        assert_eq!(many.over(&few).processes, 0);
        assert!(!many.is_within(&few));
        assert!(few.is_within(&many.max(&few)));
    }
}
