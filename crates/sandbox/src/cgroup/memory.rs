//! The memory controller of a control group.

use std::fs::File;

use nix::poll::{PollFd, PollFlags};

use super::directory::{CgroupDirectory, write};
use super::oom_eventfd::OomEventFd;
use super::stat_file::{StatFile, parse_keyed, parse_number};
use super::{CgroupError, CgroupVersion};
use crate::platform_error::Errno;

/// The open files of the memory controller of one control group, with the differences between cgroup v1 and v2.
#[derive(Debug)]
pub(super) struct MemoryFiles {
    limit: File,
    /// Version 1 limits memory and swap together, if swap accounting is enabled.
    with_swap: Option<File>,
    unlimited: &'static str,
    peak: MemoryPeakFile,
    current: StatFile,
    events: StatFile,
    oom_notification: OomNotification,
}

/// Where the kernel reports the peak memory of a control group, if it does, and whether the peak can be reset.
#[derive(Debug)]
enum MemoryPeakFile {
    /// The peak since the last reset.
    SinceReset(StatFile),
    /// The peak since the group was created.
    SinceCreation(StatFile),
    /// The kernel is too old to report the peak.
    Unknown,
}

/// The limit of bytes in TCP and UDP socket buffers. Version 1 counts them separately from memory, and only if there
/// is a limit.
const SOCKETS: u64 = 16 << 20;

/// How the kernel notifies the warden that a control group ran out of memory, if it does.
#[derive(Debug)]
enum OomNotification {
    None,
    EventFd(OomEventFd),
    EventsFile,
}

impl MemoryFiles {
    pub(super) fn open(version: CgroupVersion, directory: &CgroupDirectory) -> Result<Self, CgroupError> {
        match version {
            CgroupVersion::V1 => Self::open_v1(directory),
            CgroupVersion::V2 => Self::open_v2(directory),
        }
    }

    fn open_v1(directory: &CgroupDirectory) -> Result<Self, CgroupError> {
        let with_swap = if_exists(directory.open_to_write("memory.memsw.limit_in_bytes"))?;
        if with_swap.is_none() {
            let swappiness = directory.open_to_write("memory.swappiness")?;
            write(&swappiness, b"0").map_err(CgroupError::ForbidSwap)?;
        }
        // Kernels without TCP do not have this file.
        if let Some(sockets) = if_exists(directory.open_to_write("memory.kmem.tcp.limit_in_bytes"))? {
            write(&sockets, SOCKETS.to_string().as_bytes()).map_err(CgroupError::LimitSockets)?;
        }
        let events = directory.open_stat_file("memory.oom_control")?;
        Ok(Self {
            limit: directory.open_to_write("memory.limit_in_bytes")?,
            with_swap,
            unlimited: "-1",
            peak: MemoryPeakFile::SinceReset(
                directory.open_resettable_stat_file("memory.max_usage_in_bytes")?,
            ),
            current: directory.open_stat_file("memory.usage_in_bytes")?,
            oom_notification: OomEventFd::register(directory, &events)
                .map_or(OomNotification::None, OomNotification::EventFd),
            events,
        })
    }

    fn open_v2(directory: &CgroupDirectory) -> Result<Self, CgroupError> {
        // Kernels without swap do not have this file.
        if let Some(swap) = if_exists(directory.open_to_write("memory.swap.max"))? {
            write(&swap, b"0").map_err(CgroupError::ForbidSwap)?;
        }
        // A program that has lost one of its processes is useless and would only run into another limit.
        write(&directory.open_to_write("memory.oom.group")?, b"1").map_err(CgroupError::SetOomGroup)?;
        Ok(Self {
            limit: directory.open_to_write("memory.max")?,
            with_swap: None,
            unlimited: "max",
            peak: MemoryPeakFile::open_v2(directory)?,
            current: directory.open_stat_file("memory.current")?,
            events: directory.open_stat_file("memory.events")?,
            oom_notification: OomNotification::EventsFile,
        })
    }

    pub(super) fn set_limit(&self, old: Option<u64>, new: Option<u64>) -> Result<(), CgroupError> {
        let text = new.map_or(self.unlimited.to_owned(), |bytes| bytes.to_string());
        let mut files = [Some(&self.limit), self.with_swap.as_ref()];
        // The limit of memory alone may never be above the limit of memory and swap together.
        if is_raised(old, new) {
            files.reverse();
        }
        files
            .into_iter()
            .flatten()
            .try_for_each(|file| write(file, text.as_bytes()))
            .map_err(CgroupError::LimitMemory)
    }

    /// A peak since creation stays: `is_pristine` ensures that the group was created just before the run.
    pub(super) fn reset_peak(&self) -> Result<(), CgroupError> {
        match &self.peak {
            MemoryPeakFile::SinceReset(stat_file) => {
                write(&stat_file.file, b"0").map_err(CgroupError::ResetPeak)
            }
            MemoryPeakFile::SinceCreation(_) | MemoryPeakFile::Unknown => Ok(()),
        }
    }

    pub(super) fn peak(&self) -> Result<Option<u64>, CgroupError> {
        match &self.peak {
            MemoryPeakFile::SinceReset(stat_file) | MemoryPeakFile::SinceCreation(stat_file) => {
                stat_file.read(parse_number).map(Some)
            }
            MemoryPeakFile::Unknown => Ok(None),
        }
    }

    pub(super) fn current(&self) -> Result<u64, CgroupError> {
        self.current.read(parse_number)
    }

    /// Also clears the OOM notification.
    pub(super) fn oom_kills(&self) -> Result<u64, CgroupError> {
        if let OomNotification::EventFd(eventfd) = &self.oom_notification {
            // The notification is cleared before the counter is read, so that a later event is notified again.
            eventfd.clear();
        }
        self.events.read(|text| parse_keyed(text, "oom_kill"))
    }

    pub(super) fn oom_notification(&self) -> Option<PollFd<'_>> {
        match &self.oom_notification {
            OomNotification::None => None,
            OomNotification::EventFd(eventfd) => Some(PollFd::new(eventfd.as_fd(), PollFlags::POLLIN)),
            OomNotification::EventsFile => Some(PollFd::new(self.events.as_fd(), PollFlags::POLLPRI)),
        }
    }

    /// Whether an empty group shows no trace of its last run, except for this many bytes.
    pub(super) fn is_pristine(&self, within: u64) -> Result<bool, CgroupError> {
        match self.peak {
            MemoryPeakFile::SinceCreation(_) => Ok(false),
            MemoryPeakFile::SinceReset(_) | MemoryPeakFile::Unknown => Ok(self.current()? <= within),
        }
    }
}

impl MemoryPeakFile {
    fn open_v2(directory: &CgroupDirectory) -> Result<Self, CgroupError> {
        const FILE: &str = "memory.peak";
        // Kernels before 6.12 have a read-only peak: some of them fail on open, some on write.
        if let Ok(stat_file) = directory.open_resettable_stat_file(FILE)
            && write(&stat_file.file, b"0").is_ok()
        {
            return Ok(Self::SinceReset(stat_file));
        }
        // Kernels before 5.19 do not have the file.
        Ok(if_exists(directory.open_stat_file(FILE))?.map_or(Self::Unknown, Self::SinceCreation))
    }
}

/// Returns `None` if the kernel does not have the file.
fn if_exists<T>(opened: Result<T, CgroupError>) -> Result<Option<T>, CgroupError> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(CgroupError::Open {
            errno: Errno(libc::ENOENT),
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_raised(old: Option<u64>, new: Option<u64>) -> bool {
    match (old, new) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(old), Some(new)) => new > old,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_counts_as_the_highest_limit() {
        fn check(old: Option<u64>, new: Option<u64>, expected: bool) {
            assert_eq!(is_raised(old, new), expected, "{old:?} to {new:?}");
        }
        check(None, Some(1), false);
        check(Some(1), None, true);
        check(Some(1), Some(2), true);
        check(Some(2), Some(1), false);
    }
}
