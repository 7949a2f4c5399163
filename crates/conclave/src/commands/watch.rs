//! `conclave watch`: passes the output of a task on while it is written, and prints each status until it is done.

use std::process::ExitCode;

use anyhow::Result;
use api::{OutputEvent, TaskEvent, TaskStreamEvent, format_time};

use crate::args::{ClientFlags, TaskRef, task_ref};
use crate::exit_code::{self, OutcomeSummary};
use crate::follow::{FollowedContent, FollowedTask};
use crate::judge::print_cases;
use crate::output_printer::OutputPrinter;
use crate::output_tracker::{PerStream, StreamPosition};
use crate::print::{OutputFormat, Stdout, is_closed_pipe, print_message};
use crate::task_output::print_end_messages;

/// The arguments of `conclave watch`.
#[derive(clap::Args, Debug)]
#[command(after_help = exit_code::EXIT_CODES_HELP)]
pub(crate) struct WatchArgs {
    /// Id of the task, or a prefix of it
    #[arg(value_parser = task_ref)]
    id: TaskRef,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: WatchArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let id = args.id.resolve(&client).await?;
    let follower = FollowedTask::without_progress(id, FollowedContent::StatusAndOutput, &client);
    let task = match args.client.output_format() {
        OutputFormat::Text => {
            let mut printer = OutputPrinter::all();
            let task = follower
                .until_done(async |event| match event {
                    TaskStreamEvent::Status(event) => {
                        print_message(line(&event));
                        Ok(())
                    }
                    TaskStreamEvent::Case(case) => {
                        print_message(format_args!("case {}: {}", case.name, case.verdict));
                        Ok(())
                    }
                    TaskStreamEvent::Output(output) => printer.print_event(&output).await,
                })
                .await?;
            printer.print_rest(&task, &client).await?;
            print_cases(&task)?;
            task
        }
        OutputFormat::Json => {
            let mut events = JsonEvents::default();
            follower.until_done(async |event| events.print(event)).await?
        }
    };
    print_end_messages(&task);
    Ok(ExitCode::from(exit_code::exit_code_for(OutcomeSummary::of(
        &task,
    ))))
}

/// Prints the events of a task as JSON Lines, each piece of output once.
#[derive(Default)]
struct JsonEvents {
    positions: PerStream<StreamPosition>,
}

impl JsonEvents {
    fn print(&mut self, event: TaskStreamEvent) -> Result<()> {
        let printed = match event {
            TaskStreamEvent::Status(event) => Stdout::open().json(&event),
            TaskStreamEvent::Case(event) => Stdout::open().json(&event),
            TaskStreamEvent::Output(event) => match self.new_part(event) {
                Some(event) => Stdout::open().json(&event),
                None => Ok(()),
            },
        };
        match printed {
            // A closed pipe, as in `watch ID --json | head -1`, does not change the exit code.
            Err(error) if !is_closed_pipe(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// The piece without the bytes that were printed before a lost connection.
    fn new_part(&mut self, event: OutputEvent) -> Option<OutputEvent> {
        let position = self.positions.get_mut(event.step, event.stream);
        let bytes = event.bytes()?;
        let length = bytes.len();
        let new = position.advance(event.attempt, event.offset, bytes);
        match new.len() {
            0 => None,
            kept if kept == length => Some(event),
            kept => {
                let offset = event.offset + (length - kept) as u64;
                Some(OutputEvent { offset, ..event }.with_bytes(new.to_vec()))
            }
        }
    }
}

fn line(event: &TaskEvent) -> String {
    let mut line = format!("{} {}", format_time(event.time), event.status);
    if let Some(executor) = &event.executor {
        line.push_str(&format!(" on {executor}"));
    }
    line
}

#[cfg(test)]
mod tests {
    use model::{StepName, StreamName};

    use super::*;

    #[test]
    fn a_piece_that_was_printed_before_is_not_printed_again() {
        let mut events = JsonEvents::default();
        let mut check = |attempt: u32, offset: u64, text: &str, expected: Option<(u64, &str)>| {
            let piece = OutputEvent {
                attempt,
                step: StepName::Execute,
                stream: StreamName::Stdout,
                offset,
                text: Some(text.to_string()),
                base64: None,
            };
            let new = events.new_part(piece);
            let new = new.as_ref().map(|new| (new.offset, new.text.as_deref().unwrap()));
            assert_eq!(new, expected);
        };
        check(1, 0, "ab", Some((0, "ab")));
        check(1, 0, "abc", Some((2, "c")));
        check(1, 0, "abc", None);
        check(2, 0, "abc", Some((0, "abc")));
    }
}
