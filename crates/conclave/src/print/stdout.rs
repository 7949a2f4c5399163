//! Standard output, which its reader may close at any time, and messages on stderr.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

/// Whether a command of `conclave` prints text for people or JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    Text,
    Json,
}

/// The standard output of a command of `conclave`, which returns write errors. `println!` would panic when a reader
/// such as `head` closes the pipe.
pub(crate) struct Stdout {
    stdout: io::StdoutLock<'static>,
}

impl Stdout {
    pub(crate) fn open() -> Stdout {
        Stdout {
            stdout: io::stdout().lock(),
        }
    }

    pub(crate) fn text(&mut self, text: impl std::fmt::Display) -> Result<()> {
        write!(self.stdout, "{text}")?;
        Ok(self.stdout.flush()?)
    }

    pub(crate) fn line(&mut self, line: impl std::fmt::Display) -> Result<()> {
        self.text(format_args!("{line}\n"))
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.stdout.write_all(bytes)?;
        Ok(self.stdout.flush()?)
    }

    /// Writes one object on one line, so that programs read a single object and a list in the same way.
    pub(crate) fn json(&mut self, object: &impl Serialize) -> Result<()> {
        self.line(serde_json::to_string(object)?)
    }

    /// Writes a list: each object on one line.
    pub(crate) fn json_lines<'a, T: Serialize + 'a>(
        &mut self,
        objects: impl IntoIterator<Item = &'a T>,
    ) -> Result<()> {
        objects.into_iter().try_for_each(|object| self.json(object))
    }
}

/// Whether the error means that the reader of stdout has closed the pipe.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes a message to stderr. A closed stderr is ignored. It may quote a server, which must not control the terminal.
pub(crate) fn print_message(message: impl std::fmt::Display) {
    let message = without_control_characters(&message.to_string());
    let _ = writeln!(io::stderr(), "conclave: {message}");
}

fn without_control_characters(text: &str) -> String {
    let keep = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\t');
    let replace = |letter| {
        if keep(letter) {
            letter
        } else {
            char::REPLACEMENT_CHARACTER
        }
    };
    text.chars().map(replace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_cannot_control_the_terminal() {
        let message = without_control_characters("a\u{1b}[31m\u{9b}2Jb\tc\nd\r");
        assert_eq!(message, "a\u{fffd}[31m\u{fffd}2Jb\tc\nd\u{fffd}");
    }
}
