//! What warden and cell say to each other.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::bare::Used;
use super::step::{Step, StepError};
use crate::fault::Errno;
use crate::warden::child::Rlimit;
use crate::warden::resolve::candidates;
use crate::warden::texts::{Texts, c_string};

/// To a process that is parked, in the memory that it shares with the warden; the three standard streams come as
/// descriptors. All in the form that the kernel takes, because the process can make none.
#[derive(Debug)]
pub(crate) struct Orders {
    /// What to execute, in this order, until one is there.
    pub(super) programs: Vec<CString>,
    /// Whether they were looked for in `PATH`.
    pub(super) looked_for: bool,
    pub(super) directory: CString,
    pub(super) rlimits: Vec<Rlimit>,
    pub(super) argv: Texts,
    pub(super) env: Texts,
}

impl Orders {
    pub(crate) fn new(
        argv: &[OsString],
        env: &[(OsString, OsString)],
        directory: &Path,
        rlimits: Vec<Rlimit>,
    ) -> Self {
        let programs = candidates(&argv[0], env, directory);
        Self {
            programs: programs.iter().map(|it| c_string(it.as_os_str())).collect(),
            looked_for: !argv[0].as_bytes().contains(&b'/'),
            directory: c_string(directory.as_os_str()),
            rlimits,
            argv: Texts::of_words(argv),
            env: Texts::of_environment(env),
        }
    }

    /// How many bytes the kernel copies to the new program.
    pub(crate) fn size(&self) -> usize {
        self.argv.size() + self.env.size()
    }
}

/// From the cell, on a pipe. After its orders the command's process says nothing more, unless it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// All power is given up. Each of the two processes says so.
    Parked,
    Failed(StepError),
    Ended {
        /// As `wait` gives it.
        status: i32,
        company: Company,
        used: Used,
    },
}

/// Who is left in the cell beside its first process when the command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Company {
    Nobody,
    Others,
}

impl Word {
    pub(super) const SIZE: usize = 2 + size_of::<i32>() + 2 * size_of::<u64>();

    const PARKED: u8 = 0;
    const FAILED: u8 = 1;
    const DESERTED: u8 = 2;
    const ENDED: u8 = 3;

    /// Without allocation.
    pub(super) fn encode(self) -> [u8; Self::SIZE] {
        let nothing = Used::default();
        let (kind, step, number, used) = match self {
            Self::Parked => (Self::PARKED, 0, 0, nothing),
            Self::Failed(StepError { step, errno }) => (Self::FAILED, step as u8, errno.0, nothing),
            Self::Ended {
                status,
                company,
                used,
            } => match company {
                Company::Nobody => (Self::DESERTED, 0, status, used),
                Company::Others => (Self::ENDED, 0, status, used),
            },
        };
        let [a, b, c, d] = number.to_ne_bytes();
        let mut word = [0; Self::SIZE];
        let (head, rest) = word.split_at_mut(6);
        head.copy_from_slice(&[kind, step, a, b, c, d]);
        let (cpu, memory) = rest.split_at_mut(size_of::<u64>());
        cpu.copy_from_slice(&used.cpu_micros.to_ne_bytes());
        memory.copy_from_slice(&used.memory_kib.to_ne_bytes());
        word
    }

    pub(super) fn decode(word: [u8; Self::SIZE]) -> Option<Self> {
        let (&[kind, step, a, b, c, d], rest) = word.split_first_chunk()?;
        let (cpu, memory) = rest.split_first_chunk()?;
        let number = i32::from_ne_bytes([a, b, c, d]);
        let ended = |company| Self::Ended {
            status: number,
            company,
            used: Used {
                cpu_micros: u64::from_ne_bytes(*cpu),
                memory_kib: memory.first_chunk().map_or(0, |kib| u64::from_ne_bytes(*kib)),
            },
        };
        match kind {
            Self::PARKED => Some(Self::Parked),
            Self::FAILED => Some(Self::Failed(StepError {
                step: Step::numbered(step)?,
                errno: Errno(number),
            })),
            Self::DESERTED => Some(ended(Company::Nobody)),
            Self::ENDED => Some(ended(Company::Others)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_comes_as_it_was_said() {
        fn check(word: Word) {
            assert_eq!(Word::decode(word.encode()), Some(word));
        }
        check(Word::Parked);
        for step in [Step::UserNamespace, Step::Seccomp, Step::Wait] {
            let errno = Errno(libc::EPERM);
            check(Word::Failed(StepError { step, errno }));
        }
        for company in [Company::Nobody, Company::Others] {
            for status in [0, 9, 256, -1] {
                let used = Used {
                    cpu_micros: 1 << 40,
                    memory_kib: 7,
                };
                check(Word::Ended {
                    status,
                    company,
                    used,
                });
            }
        }
        let mut garbage = [0; Word::SIZE];
        garbage[0] = 9;
        assert_eq!(Word::decode(garbage), None);
        garbage[..2].copy_from_slice(&[Word::FAILED, 255]);
        assert_eq!(Word::decode(garbage), None);
    }
}
