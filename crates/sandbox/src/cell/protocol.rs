//! What the warden and the processes of a cell send to each other.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::bare::ResourceUsage;
use super::setup_step::{CellSetupError, CellSetupStep};
use crate::platform_error::Errno;
use crate::warden::c_strings::{CStringArray, c_string};
use crate::warden::child::Rlimit;
use crate::warden::resolve::candidates;

/// The command that the warden gives to the stub of a cell to execute. The stub reads it in the memory that it shares
/// with the warden; the three standard streams are sent as descriptors. Everything has the form that the kernel takes,
/// because the stub cannot allocate.
#[derive(Debug)]
pub(crate) struct ExecRequest {
    /// The paths to try, in this order, until one exists.
    pub(super) programs: Vec<CString>,
    /// Whether the program name was searched in `PATH`.
    pub(super) searched_in_path: bool,
    pub(super) directory: CString,
    pub(super) rlimits: Vec<Rlimit>,
    pub(super) argv: CStringArray,
    pub(super) env: CStringArray,
}

impl ExecRequest {
    pub(crate) fn new(
        argv: &[OsString],
        env: &[(OsString, OsString)],
        directory: &Path,
        rlimits: Vec<Rlimit>,
    ) -> Self {
        let programs = candidates(&argv[0], env, directory);
        Self {
            programs: programs.iter().map(|it| c_string(it.as_os_str())).collect(),
            searched_in_path: !argv[0].as_bytes().contains(&b'/'),
            directory: c_string(directory.as_os_str()),
            rlimits,
            argv: CStringArray::from_arguments(argv),
            env: CStringArray::from_environment(env),
        }
    }

    /// How many bytes the kernel copies to the new program.
    pub(crate) fn exec_bytes(&self) -> usize {
        self.argv.size() + self.env.size()
    }
}

/// A message from the init or stub process of a cell to the warden, on a pipe. After it got the exec request, the stub
/// sends another message only if it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellMessage {
    /// The process has dropped all its privileges. Each of the two processes sends this.
    Ready,
    Failed(CellSetupError),
    CommandEnded {
        /// The wait status.
        status: i32,
        remaining: RemainingProcesses,
        used: ResourceUsage,
    },
}

/// Whether processes other than init were left in a cell when its command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemainingProcesses {
    None,
    Some,
}

impl CellMessage {
    pub(super) const SIZE: usize = 2 + size_of::<i32>() + 2 * size_of::<u64>();

    const READY: u8 = 0;
    const FAILED: u8 = 1;
    const ENDED_ALONE: u8 = 2;
    const ENDED_WITH_OTHERS: u8 = 3;

    /// Encodes the message without allocation.
    pub(super) fn encode(self) -> [u8; Self::SIZE] {
        let no_usage = ResourceUsage::default();
        let (kind, step, number, used) = match self {
            Self::Ready => (Self::READY, 0, 0, no_usage),
            Self::Failed(CellSetupError { step, errno }) => (Self::FAILED, step as u8, errno.0, no_usage),
            Self::CommandEnded {
                status,
                remaining,
                used,
            } => match remaining {
                RemainingProcesses::None => (Self::ENDED_ALONE, 0, status, used),
                RemainingProcesses::Some => (Self::ENDED_WITH_OTHERS, 0, status, used),
            },
        };
        let [a, b, c, d] = number.to_ne_bytes();
        let mut bytes = [0; Self::SIZE];
        let (head, rest) = bytes.split_at_mut(6);
        head.copy_from_slice(&[kind, step, a, b, c, d]);
        let (cpu, memory) = rest.split_at_mut(size_of::<u64>());
        cpu.copy_from_slice(&used.cpu_micros.to_ne_bytes());
        memory.copy_from_slice(&used.memory_kib.to_ne_bytes());
        bytes
    }

    pub(super) fn decode(bytes: [u8; Self::SIZE]) -> Option<Self> {
        let (&[kind, step, a, b, c, d], rest) = bytes.split_first_chunk()?;
        let (cpu, memory) = rest.split_first_chunk()?;
        let number = i32::from_ne_bytes([a, b, c, d]);
        let ended = |remaining| Self::CommandEnded {
            status: number,
            remaining,
            used: ResourceUsage {
                cpu_micros: u64::from_ne_bytes(*cpu),
                memory_kib: memory.first_chunk().map_or(0, |kib| u64::from_ne_bytes(*kib)),
            },
        };
        match kind {
            Self::READY => Some(Self::Ready),
            Self::FAILED => Some(Self::Failed(CellSetupError {
                step: CellSetupStep::from_index(step)?,
                errno: Errno(number),
            })),
            Self::ENDED_ALONE => Some(ended(RemainingProcesses::None)),
            Self::ENDED_WITH_OTHERS => Some(ended(RemainingProcesses::Some)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_decoded_as_it_was_encoded() {
        fn check(message: CellMessage) {
            assert_eq!(CellMessage::decode(message.encode()), Some(message));
        }
        check(CellMessage::Ready);
        for step in [
            CellSetupStep::UserNamespace,
            CellSetupStep::Seccomp,
            CellSetupStep::Wait,
        ] {
            let errno = Errno(libc::EPERM);
            check(CellMessage::Failed(CellSetupError { step, errno }));
        }
        for remaining in [RemainingProcesses::None, RemainingProcesses::Some] {
            for status in [0, 9, 256, -1] {
                let used = ResourceUsage {
                    cpu_micros: 1 << 40,
                    memory_kib: 7,
                };
                check(CellMessage::CommandEnded {
                    status,
                    remaining,
                    used,
                });
            }
        }
        let mut garbage = [0; CellMessage::SIZE];
        garbage[0] = 9;
        assert_eq!(CellMessage::decode(garbage), None);
        garbage[..2].copy_from_slice(&[CellMessage::FAILED, 255]);
        assert_eq!(CellMessage::decode(garbage), None);
    }
}
