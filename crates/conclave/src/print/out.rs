//! Standard output that may be closed at any time.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

/// For whom a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    People,
    Json,
}

/// Writes to stdout and hands errors back. `println!` would panic once `head` has seen enough.
pub(crate) struct Out {
    stdout: io::StdoutLock<'static>,
}

impl Out {
    pub(crate) fn open() -> Out {
        Out {
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

    /// One object on a line of its own, so that a list and a single object are read in the same way.
    pub(crate) fn json(&mut self, object: &impl Serialize) -> Result<()> {
        self.line(serde_json::to_string(object)?)
    }

    /// A list: each object on a line of its own.
    pub(crate) fn json_lines<'a, T: Serialize + 'a>(
        &mut self,
        objects: impl IntoIterator<Item = &'a T>,
    ) -> Result<()> {
        objects.into_iter().try_for_each(|object| self.json(object))
    }
}

/// Whether this error only means that the reader of our output has gone.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Says what went wrong. If stderr is closed as well, nobody wants to know.
pub(crate) fn complain(complaint: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "conclave: {complaint}");
}
