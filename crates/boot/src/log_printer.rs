//! Prints the logs of services to the terminal, for `--print-log`.
//!
//! A separate thread reads the log files, so that a blocked terminal delays neither the services nor boot.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::service_log::LogFollower;

/// How often the log files are read.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long boot waits for the last lines to be printed before it exits.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);
/// A longer line is printed in parts.
const MAX_LINE: usize = 64 * 1024;

/// The thread of boot that prints the logs of services to the terminal, for `--print-log`.
#[derive(Debug)]
pub(crate) struct LogPrinter {
    /// Dropped to make the thread print the rest and end.
    finish: Sender<()>,
    finished: Receiver<()>,
}

impl LogPrinter {
    pub(crate) fn start(tails: Vec<(String, LogFollower)>) -> io::Result<LogPrinter> {
        let width = tails.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        let mut printed: Vec<FollowedLog> = tails
            .into_iter()
            .map(|(name, tail)| FollowedLog {
                tail,
                lines: LinePrefixer::new(format!("{name:width$} | ")),
            })
            .collect();
        let (finish, finish_requested) = channel();
        let (done, finished) = channel();
        std::thread::Builder::new()
            .name("print-log".to_string())
            .spawn(move || {
                // An error means that the terminal is closed; then there is nothing left to print to.
                let _ = print(&mut printed, &finish_requested);
                let _ = done.send(());
            })?;
        Ok(LogPrinter { finish, finished })
    }

    /// Prints everything that is in the logs now, unless the terminal is blocked.
    pub(crate) fn finish(self) {
        drop(self.finish);
        let _ = self.finished.recv_timeout(FINISH_TIMEOUT);
    }
}

/// One service's log that boot prints to the terminal, and its incomplete last line.
struct FollowedLog {
    tail: LogFollower,
    lines: LinePrefixer,
}

fn print(printed: &mut [FollowedLog], finish_requested: &Receiver<()>) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let is_last = !matches!(
            finish_requested.recv_timeout(POLL_INTERVAL),
            Err(RecvTimeoutError::Timeout)
        );
        for FollowedLog { tail, lines } in &mut *printed {
            // A log that cannot be read is tried again in the next round.
            while let Ok(count @ 1..) = tail.read(&mut buffer) {
                write(&lines.add(&buffer[..count]))?;
            }
            if is_last {
                write(&lines.finish())?;
            }
        }
        if is_last {
            return Ok(());
        }
    }
}

fn write(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}

/// Prefixes each complete log line that boot prints to the terminal with the name of its service.
struct LinePrefixer {
    prefix: String,
    partial_line: Vec<u8>,
}

impl LinePrefixer {
    fn new(prefix: String) -> LinePrefixer {
        LinePrefixer {
            prefix,
            partial_line: Vec::new(),
        }
    }

    /// Returns the lines that are complete now.
    fn add(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.partial_line.extend_from_slice(part);
            if part.ends_with(b"\n") || self.partial_line.len() >= MAX_LINE {
                out.append(&mut self.finish());
            }
        }
        out
    }

    fn finish(&mut self) -> Vec<u8> {
        if self.partial_line.is_empty() {
            return Vec::new();
        }
        let mut out = self.prefix.clone().into_bytes();
        out.append(&mut self.partial_line);
        if out.last() != Some(&b'\n') {
            out.push(b'\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_complete_line_is_prefixed_once() {
        let mut lines = LinePrefixer::new("a | ".into());
        for (bytes, expected) in [
            ("one\ntwo", "a | one\n"),
            ("", ""),
            (" more\n\n", "a | two more\na | \n"),
            ("end", ""),
        ] {
            assert_eq!(String::from_utf8(lines.add(bytes.as_bytes())).unwrap(), expected);
        }
        assert_eq!(lines.finish(), b"a | end\n");
        assert_eq!(lines.finish(), b"");
        assert_eq!(lines.add(&[b'x'; MAX_LINE]).len(), MAX_LINE + 5);
    }
}
