//! Prints the output of a task while it is written, byte for byte.

use std::io;

use anyhow::{Context, Result};
use api::{HttpClient, Outcome, OutputEvent, Task};
use bytes::Bytes;
use futures::StreamExt;
use model::{StepName, StreamName};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::output_tracker::{PerStream, PrintedStream};
use crate::print::{is_closed_pipe, print_message};

/// Passes the output of a task on to this process's stdout and stderr, for `run`, `watch` and `get --follow`.
///
/// The execute step's stdout goes to stdout. Its stderr and both outputs of the compile step go to stderr.
pub(crate) struct OutputPrinter {
    streams: PerStream<PrintedStream>,
    /// Prints only this stream, to stdout.
    only: Option<(StepName, StreamName)>,
    /// The newest attempt of which something was printed.
    attempt: u32,
}

/// The streams in the order in which the outputs of a finished task are printed.
const PRINT_ORDER: [(StepName, StreamName); 4] = [
    (StepName::Compile, StreamName::Stdout),
    (StepName::Compile, StreamName::Stderr),
    (StepName::Execute, StreamName::Stderr),
    (StepName::Execute, StreamName::Stdout),
];

impl OutputPrinter {
    pub(crate) fn all() -> OutputPrinter {
        OutputPrinter {
            streams: PerStream::default(),
            only: None,
            attempt: 0,
        }
    }

    /// Prints only this stream, to stdout.
    pub(crate) fn only(step: StepName, stream: StreamName) -> OutputPrinter {
        OutputPrinter {
            only: Some((step, stream)),
            ..OutputPrinter::all()
        }
    }

    /// Fails if the reader of stdout, such as `head`, has closed the pipe.
    pub(crate) async fn print_event(&mut self, event: &OutputEvent) -> Result<()> {
        let bytes = event.bytes().context("the server sent output without content")?;
        self.accept((event.step, event.stream), event.attempt, event.offset, bytes)
            .await
    }

    /// Prints what the result of a finished task has beyond the bytes that were printed while the task ran. The task is over,
    /// so a reader that closes the pipe does not change the exit code.
    pub(crate) async fn print_rest(&mut self, task: &Task, client: &HttpClient) -> Result<()> {
        match self.print_remaining(task, client).await {
            Err(error) if is_closed_pipe(&error) => Ok(()),
            printed => printed,
        }
    }

    async fn print_remaining(&mut self, task: &Task, client: &HttpClient) -> Result<()> {
        for (step, stream) in PRINT_ORDER {
            let Some(outcome) = outcome_of(task, step) else {
                continue;
            };
            if self.only.is_some_and(|only| only != (step, stream)) {
                continue;
            }
            let kept = KeptOutput::of(outcome, stream);
            let mut offset = self.streams.get_mut(step, stream).offset_in(task.attempt);
            match kept.exact_bytes() {
                Some(bytes) => {
                    self.accept((step, stream), task.attempt, 0, bytes).await?;
                }
                None if offset < kept.size => {
                    let mut rest = client.follow_output(task.id, step, stream, offset);
                    while let Some(bytes) = rest.next().await {
                        let bytes = bytes?;
                        let length = bytes.len() as u64;
                        self.accept((step, stream), task.attempt, offset, bytes).await?;
                        offset += length;
                    }
                }
                None => {}
            }
            let printed = self.streams.get_mut(step, stream).printed();
            if printed > kept.size {
                print_message(format_args!(
                    "the {step} step's {stream} is {} bytes long in the result, but an earlier attempt wrote {printed}",
                    kept.size
                ));
            }
        }
        Ok(())
    }

    async fn accept(
        &mut self,
        (step, stream): (StepName, StreamName),
        attempt: u32,
        offset: u64,
        bytes: Bytes,
    ) -> Result<()> {
        if self.only.is_some_and(|only| only != (step, stream)) {
            return Ok(());
        }
        if attempt > self.attempt {
            if self.attempt > 0 {
                print_message(format_args!(
                    "attempt {} ended without a result; attempt {attempt} begins again, and its output continues \
                     where that of the earlier attempt ended",
                    self.attempt
                ));
            }
            self.attempt = attempt;
        }
        let new = self.streams.get_mut(step, stream).accept(attempt, offset, bytes);
        if new.differs {
            print_message(format_args!(
                "the {step} step's {stream} of attempt {attempt} differs from what the earlier attempt wrote; \
                 `conclave get` shows the result"
            ));
        }
        let is_stdout = self.only.is_some() || (step, stream) == (StepName::Execute, StreamName::Stdout);
        match is_stdout {
            true => write(tokio::io::stdout(), &new.bytes)
                .await
                .context("could not write to stdout"),
            false => {
                // A closed stderr is ignored, as for messages.
                let _ = write(tokio::io::stderr(), &new.bytes).await;
                Ok(())
            }
        }
    }
}

/// Writes on another thread, so that Ctrl-C is handled while a slow reader blocks the pipe.
async fn write(mut to: impl AsyncWrite + Unpin, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    to.write_all(bytes).await?;
    to.flush().await
}

/// What the result of a task has of one output stream.
pub(crate) struct KeptOutput<'a> {
    /// The first bytes, as text.
    text: &'a str,
    /// How many bytes are kept.
    pub(crate) size: u64,
    pub(crate) truncated: bool,
}

impl<'a> KeptOutput<'a> {
    pub(crate) fn of(outcome: &'a Outcome, stream: StreamName) -> KeptOutput<'a> {
        match stream {
            StreamName::Stdout => KeptOutput {
                text: &outcome.stdout,
                size: outcome.stdout_bytes,
                truncated: outcome.stdout_truncated,
            },
            StreamName::Stderr => KeptOutput {
                text: &outcome.stderr,
                size: outcome.stderr_bytes,
                truncated: outcome.stderr_truncated,
            },
        }
    }

    /// All bytes, if the text has them exactly. It has a replacement character in place of bytes that are not UTF-8.
    fn exact_bytes(&self) -> Option<Bytes> {
        let is_exact =
            self.text.len() as u64 == self.size && !self.text.contains(char::REPLACEMENT_CHARACTER);
        is_exact.then(|| Bytes::copy_from_slice(self.text.as_bytes()))
    }
}

pub(crate) fn outcome_of(task: &Task, step: StepName) -> Option<&Outcome> {
    let result = task.result.as_ref()?;
    match step {
        StepName::Compile => result.compile.as_ref(),
        StepName::Execute => result.execute.as_ref(),
    }
}
