//! The memory of a group.

use std::fs::File;

use nix::poll::{PollFd, PollFlags};

use super::alarm::Alarm;
use super::directory::{Directory, write};
use super::figure::{Figure, keyed, number};
use super::{GroupError, Version};
use crate::fault::Errno;

#[derive(Debug)]
pub(super) struct Memory {
    limit: File,
    /// Version 1 limits memory and swap space together, where it does.
    with_swap: Option<File>,
    unlimited: &'static str,
    peak: Peak,
    held: Figure,
    events: Figure,
    notice: Notice,
}

#[derive(Debug)]
enum Peak {
    /// Since it was last set back.
    SinceReset(Figure),
    /// Since the group was made.
    OfLife(Figure),
    /// The kernel is too old to tell.
    Unknown,
}

/// Bytes that may wait in TCP and UDP sockets. Version 1 counts them apart from memory, and not at all without a limit.
const SOCKETS: u64 = 16 << 20;

/// How the kernel tells that memory ran out.
#[derive(Debug)]
enum Notice {
    None,
    Alarm(Alarm),
    Events,
}

impl Memory {
    pub(super) fn open(version: Version, directory: &Directory) -> Result<Self, GroupError> {
        match version {
            Version::V1 => Self::open_v1(directory),
            Version::V2 => Self::open_v2(directory),
        }
    }

    fn open_v1(directory: &Directory) -> Result<Self, GroupError> {
        let with_swap = if_there(directory.open_to_write("memory.memsw.limit_in_bytes"))?;
        if with_swap.is_none() {
            let swappiness = directory.open_to_write("memory.swappiness")?;
            write(&swappiness, b"0").map_err(GroupError::ForbidSwap)?;
        }
        // Kernels without TCP have no such file.
        if let Some(sockets) = if_there(directory.open_to_write("memory.kmem.tcp.limit_in_bytes"))? {
            write(&sockets, SOCKETS.to_string().as_bytes()).map_err(GroupError::LimitSockets)?;
        }
        let events = directory.figure("memory.oom_control")?;
        Ok(Self {
            limit: directory.open_to_write("memory.limit_in_bytes")?,
            with_swap,
            unlimited: "-1",
            peak: Peak::SinceReset(directory.resettable_figure("memory.max_usage_in_bytes")?),
            held: directory.figure("memory.usage_in_bytes")?,
            notice: Alarm::set(directory, &events).map_or(Notice::None, Notice::Alarm),
            events,
        })
    }

    fn open_v2(directory: &Directory) -> Result<Self, GroupError> {
        // A kernel without swap space has no such file.
        if let Some(swap) = if_there(directory.open_to_write("memory.swap.max"))? {
            write(&swap, b"0").map_err(GroupError::ForbidSwap)?;
        }
        // A program that lost one of its processes is of no use, and would only run on into another limit.
        write(&directory.open_to_write("memory.oom.group")?, b"1").map_err(GroupError::KillWhole)?;
        Ok(Self {
            limit: directory.open_to_write("memory.max")?,
            with_swap: None,
            unlimited: "max",
            peak: Peak::open_v2(directory)?,
            held: directory.figure("memory.current")?,
            events: directory.figure("memory.events")?,
            notice: Notice::Events,
        })
    }

    pub(super) fn limit(&self, old: Option<u64>, new: Option<u64>) -> Result<(), GroupError> {
        let text = new.map_or(self.unlimited.to_owned(), |bytes| bytes.to_string());
        let mut files = [Some(&self.limit), self.with_swap.as_ref()];
        // Memory alone may at no time be allowed more than memory and swap space together.
        if is_raised(old, new) {
            files.reverse();
        }
        files
            .into_iter()
            .flatten()
            .try_for_each(|file| write(file, text.as_bytes()))
            .map_err(GroupError::LimitMemory)
    }

    /// A peak of the group's whole life stays: `is_as_new` has seen to it that this life has just begun.
    pub(super) fn reset_peak(&self) -> Result<(), GroupError> {
        match &self.peak {
            Peak::SinceReset(figure) => write(&figure.file, b"0").map_err(GroupError::ResetPeak),
            Peak::OfLife(_) | Peak::Unknown => Ok(()),
        }
    }

    pub(super) fn peak(&self) -> Result<Option<u64>, GroupError> {
        match &self.peak {
            Peak::SinceReset(figure) | Peak::OfLife(figure) => figure.read(number).map(Some),
            Peak::Unknown => Ok(None),
        }
    }

    pub(super) fn held(&self) -> Result<u64, GroupError> {
        self.held.read(number)
    }

    /// Also silences the notice.
    pub(super) fn oom_kills(&self) -> Result<u64, GroupError> {
        if let Notice::Alarm(alarm) = &self.notice {
            // First, so that what happens in between is told again.
            alarm.silence();
        }
        self.events.read(|text| keyed(text, "oom_kill"))
    }

    pub(super) fn notice(&self) -> Option<PollFd<'_>> {
        match &self.notice {
            Notice::None => None,
            Notice::Alarm(alarm) => Some(PollFd::new(alarm.as_fd(), PollFlags::POLLIN)),
            Notice::Events => Some(PollFd::new(self.events.as_fd(), PollFlags::POLLPRI)),
        }
    }

    /// Whether an empty group shows nothing of what was in it, but for so many bytes.
    pub(super) fn is_as_new(&self, within: u64) -> Result<bool, GroupError> {
        match self.peak {
            Peak::OfLife(_) => Ok(false),
            Peak::SinceReset(_) | Peak::Unknown => Ok(self.held()? <= within),
        }
    }
}

impl Peak {
    fn open_v2(directory: &Directory) -> Result<Self, GroupError> {
        const FILE: &str = "memory.peak";
        // Kernels before 6.12 let it be read only: some say so on opening, some on writing.
        if let Ok(figure) = directory.resettable_figure(FILE)
            && write(&figure.file, b"0").is_ok()
        {
            return Ok(Self::SinceReset(figure));
        }
        // Before 5.19 there is none.
        Ok(if_there(directory.figure(FILE))?.map_or(Self::Unknown, Self::OfLife))
    }
}

/// None where the kernel has no such file.
fn if_there<T>(opened: Result<T, GroupError>) -> Result<Option<T>, GroupError> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(GroupError::Open {
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
    fn none_is_the_highest_limit() {
        fn check(old: Option<u64>, new: Option<u64>, expected: bool) {
            assert_eq!(is_raised(old, new), expected, "{old:?} to {new:?}");
        }
        check(None, Some(1), false);
        check(Some(1), None, true);
        check(Some(1), Some(2), true);
        check(Some(2), Some(1), false);
    }
}
