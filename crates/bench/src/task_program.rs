//! `conclave bench-task KIND ...`, an internal subcommand: what the tasks of the benchmark of results run.

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use model::StepCommand;
use nix::time::{ClockId, clock_gettime};

use crate::burn;

pub const SUBCOMMAND: &str = "bench-task";

/// What a task of the benchmark of results does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskProgram {
    /// Writes this many files of this many bytes to `out/`. The content depends on the seed.
    Files { seed: u64, count: usize, bytes: usize },
    /// Computes for a while before each of its lines.
    Lines { count: usize },
    /// Writes this many bytes to stdout.
    Flood { bytes: u64 },
    /// Writes the time before each of its lines, and pauses between them.
    Clock { count: usize },
}

const PAUSE_BETWEEN_TIMES: Duration = Duration::from_millis(5);
const WORK_BEFORE_A_LINE: u64 = 400_000;

impl TaskProgram {
    /// The command of a task that runs it: this binary, which exists wherever the benchmark runs.
    pub(crate) fn command(self) -> io::Result<StepCommand> {
        let program = std::env::current_exe()?;
        let mut words = vec![program.to_string_lossy().into_owned(), SUBCOMMAND.to_string()];
        words.extend(match self {
            TaskProgram::Files { seed, count, bytes } => {
                vec![
                    "files".into(),
                    seed.to_string(),
                    count.to_string(),
                    bytes.to_string(),
                ]
            }
            TaskProgram::Lines { count } => vec!["lines".into(), count.to_string()],
            TaskProgram::Flood { bytes } => vec!["flood".into(), bytes.to_string()],
            TaskProgram::Clock { count } => vec!["clock".into(), count.to_string()],
        });
        Ok(StepCommand::Argv(words))
    }

    fn parse(arguments: &[String]) -> Option<TaskProgram> {
        match arguments {
            [kind, seed, count, bytes] if kind == "files" => Some(TaskProgram::Files {
                seed: seed.parse().ok()?,
                count: count.parse().ok()?,
                bytes: bytes.parse().ok()?,
            }),
            [kind, count] if kind == "lines" => Some(TaskProgram::Lines {
                count: count.parse().ok()?,
            }),
            [kind, bytes] if kind == "flood" => Some(TaskProgram::Flood {
                bytes: bytes.parse().ok()?,
            }),
            [kind, count] if kind == "clock" => Some(TaskProgram::Clock {
                count: count.parse().ok()?,
            }),
            _ => None,
        }
    }

    fn run(self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match self {
            TaskProgram::Files { seed, count, bytes } => {
                fs::create_dir_all("out")?;
                for index in 0..count {
                    fs::write(format!("out/{index}"), pseudo_random(seed, index, bytes))?;
                }
            }
            TaskProgram::Lines { count } => {
                for line in 0..count {
                    burn::iterations(WORK_BEFORE_A_LINE);
                    writeln!(out, "{line:>99}")?;
                }
            }
            TaskProgram::Flood { bytes } => {
                let block = [b'x'; 64 << 10];
                let mut left = bytes;
                while left > 0 {
                    let part = left.min(block.len() as u64);
                    out.write_all(&block[..part as usize])?;
                    left -= part;
                }
            }
            TaskProgram::Clock { count } => {
                for _ in 0..count {
                    std::thread::sleep(PAUSE_BETWEEN_TIMES);
                    writeln!(out, "{}", monotonic_nanos()?)?;
                }
            }
        }
        Ok(())
    }
}

pub fn run() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(2).collect();
    match TaskProgram::parse(&arguments).map(TaskProgram::run) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(_)) | None => ExitCode::FAILURE,
    }
}

/// The clock that all processes of a machine share.
pub(crate) fn monotonic_nanos() -> io::Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(Duration::from(now).as_nanos() as u64)
}

/// Bytes that no store can share between two seeds or indexes. Xorshift, because making them must cost little.
pub(crate) fn pseudo_random(seed: u64, index: usize, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (index as u64 + 1);
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        content.extend_from_slice(&state.to_le_bytes());
    }
    content.truncate(bytes);
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_parsed_as_it_was_made() {
        let all = [
            TaskProgram::Files {
                seed: 7,
                count: 10,
                bytes: 100_000,
            },
            TaskProgram::Lines { count: 3 },
            TaskProgram::Flood { bytes: 1 << 30 },
            TaskProgram::Clock { count: 5 },
        ];
        for program in all {
            let StepCommand::Argv(words) = program.command().unwrap() else {
                panic!("a list of words is expected");
            };
            assert_eq!(TaskProgram::parse(&words[2..]), Some(program));
        }
    }

    #[test]
    fn contents_differ() {
        assert_ne!(pseudo_random(1, 0, 100), pseudo_random(1, 1, 100));
        assert_ne!(pseudo_random(1, 0, 100), pseudo_random(2, 0, 100));
        assert_eq!(pseudo_random(1, 0, 13).len(), 13);
    }
}
