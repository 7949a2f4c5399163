//! Follows logs to the terminal, for `--print-log`.
//!
//! From a thread of its own that reads the files: a terminal that does not take more holds up neither the services
//! nor boot.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::log::Tail;

/// Soon enough for whoever watches.
const LOOK: Duration = Duration::from_millis(100);
/// How long the last lines may take at the end: a busy machine may let us wait, too.
const PATIENCE: Duration = Duration::from_secs(5);
/// A line that is longer is printed in parts.
const LONGEST: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Printer {
    /// Dropped when all is said.
    finish: Sender<()>,
    finished: Receiver<()>,
}

impl Printer {
    pub(crate) fn start(tails: Vec<(String, Tail)>) -> io::Result<Printer> {
        let width = tails.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        let mut printed: Vec<Printed> = tails
            .into_iter()
            .map(|(name, tail)| Printed {
                tail,
                lines: Lines::new(format!("{name:width$} | ")),
            })
            .collect();
        let (finish, told) = channel();
        let (done, finished) = channel();
        std::thread::Builder::new()
            .name("print-log".to_string())
            .spawn(move || {
                // Nobody reads our output any more: then there is nothing to do.
                let _ = print(&mut printed, &told);
                let _ = done.send(());
            })?;
        Ok(Printer { finish, finished })
    }

    /// Prints what has been written until now, unless the terminal does not take it.
    pub(crate) fn finish(self) {
        drop(self.finish);
        let _ = self.finished.recv_timeout(PATIENCE);
    }
}

struct Printed {
    tail: Tail,
    lines: Lines,
}

fn print(printed: &mut [Printed], told: &Receiver<()>) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let is_last = !matches!(told.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout));
        for Printed { tail, lines } in &mut *printed {
            // A log that cannot be read now may be later; the others can be.
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

/// Puts a name before each line.
struct Lines {
    prefix: String,
    rest: Vec<u8>,
}

impl Lines {
    fn new(prefix: String) -> Lines {
        Lines {
            prefix,
            rest: Vec::new(),
        }
    }

    /// The lines that are whole now.
    fn add(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(part);
            if part.ends_with(b"\n") || self.rest.len() >= LONGEST {
                out.append(&mut self.finish());
            }
        }
        out
    }

    fn finish(&mut self) -> Vec<u8> {
        if self.rest.is_empty() {
            return Vec::new();
        }
        let mut out = self.prefix.clone().into_bytes();
        out.append(&mut self.rest);
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
    fn each_line_gets_the_name_once_it_is_whole() {
        let mut lines = Lines::new("a | ".into());
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
        assert_eq!(lines.add(&[b'x'; LONGEST]).len(), LONGEST + 5);
    }
}
