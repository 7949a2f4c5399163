//! `conclave run`: adds a task, passes its output on while it is written, and exits with its exit code.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use api::{HttpClient, NewTask, Task, TaskStreamEvent};
use model::{TaskId, TaskStatus};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{FileStat, SFlag, fstat};
use nix::unistd::{Whence, lseek};

use crate::args::{ClientFlags, TaskFlags, TaskSetFlags};
use crate::exit_code::{self, OutcomeSummary};
use crate::follow::{FollowedContent, FollowedTask};
use crate::judge::print_cases;
use crate::kept_files::{self, DownloadFolder, ExistingFiles};
use crate::output_printer::OutputPrinter;
use crate::print::{OutputFormat, Stdout, is_closed_pipe, print_message};
use crate::task;
use crate::task_output::print_end_messages;

/// The arguments of `conclave run`.
#[derive(clap::Args, Debug)]
#[command(after_help = exit_code::EXIT_CODES_HELP)]
pub(crate) struct RunArgs {
    /// Pass standard input on: read it to its end, up to 1 GiB, and send it as the command's input
    #[arg(short = 'i', long, conflicts_with = "input")]
    stdin: bool,
    /// Download the files of --keep to this folder
    #[arg(long, value_name = "DIR", requires = "keep")]
    to: Option<PathBuf>,
    /// Replace existing files in the folder of --to
    #[arg(long, requires = "to")]
    force: bool,
    #[command(flatten)]
    set: TaskSetFlags,
    #[command(flatten)]
    task: TaskFlags,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

impl RunArgs {
    /// The source file of the program to run.
    pub(crate) fn program(&self) -> Option<&Path> {
        self.task.program.as_deref()
    }
}

/// How long the request that adds the task waits for its end. A short task needs no second request, and the first output of a
/// longer one is delayed by no more than this.
const ADD_WAIT: Duration = Duration::from_millis(20);

/// The exit code of a task that was cancelled because the reader of stdout has closed the pipe: 128 + SIGPIPE, as a shell has it.
const CLOSED_PIPE: u8 = 141;

pub(crate) async fn run(mut args: RunArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let format = args.client.output_format();
    // A program that is given as a file is run like a local one, so it gets what is redirected to it.
    let passes_input_on = args.stdin || (args.task.program.is_some() && is_input_redirected());
    if args.task.input.is_none() && passes_input_on {
        args.task.input = Some("-".into());
    } else if args.task.input.is_none() && is_input_waiting() {
        print_message("standard input is not passed on; use -i");
    }
    // Before the task is added, so that a wrong folder costs no run.
    let folder = match &args.to {
        Some(path) => Some(DownloadFolder::open(path, ExistingFiles::from_force(args.force))?),
        None => None,
    };
    let mut new = task::build(&args.task, &client).await?;
    args.set.apply_to(&mut new)?;
    let id = *new.id.get_or_insert_with(task::new_task_id);
    let mut printer = OutputPrinter::all();
    let followed = tokio::select! {
        followed = add_and_follow(new.clone(), &client, format, &mut printer) => followed,
        signal = tokio::signal::ctrl_c() => {
            signal.context("could not listen for Ctrl-C")?;
            cancel_and_wait(id, &new, &client).await
        }
    };
    let task = match followed {
        // A program that writes to a closed pipe ends; its task does, too.
        Err(error) if is_closed_pipe(&error) => {
            let task = cancel_and_wait(id, &new, &client).await?;
            if task.status == TaskStatus::Cancelled {
                return Ok(ExitCode::from(CLOSED_PIPE));
            }
            task
        }
        followed => followed?,
    };
    match format {
        OutputFormat::Text => {
            printer.print_rest(&task, &client).await?;
            print_cases(&task)?;
        }
        OutputFormat::Json => match Stdout::open().json(&task) {
            // A closed pipe does not change the exit code.
            Err(error) if !is_closed_pipe(&error) => return Err(error),
            _ => {}
        },
    }
    print_end_messages(&task);
    match &folder {
        Some(folder) => kept_files::download(&task, folder, &client).await?,
        None => kept_files::print_hint(&task),
    }
    kept_files::print_left_out(&task);
    Ok(ExitCode::from(exit_code::exit_code_for(OutcomeSummary::of(
        &task,
    ))))
}

async fn add_and_follow(
    mut new: NewTask,
    client: &HttpClient,
    format: OutputFormat,
    printer: &mut OutputPrinter,
) -> Result<Task> {
    let task = task::add(&mut new, Some(ADD_WAIT), client).await?;
    if task.done {
        return Ok(task);
    }
    let content = match format {
        OutputFormat::Text => FollowedContent::StatusAndOutput,
        OutputFormat::Json => FollowedContent::Status,
    };
    FollowedTask::new(task.id, content, client)
        .until_done(async |event| match event {
            // The result has the cases as well.
            TaskStreamEvent::Status(_) | TaskStreamEvent::Case(_) => Ok(()),
            TaskStreamEvent::Output(output) => printer.print_event(&output).await,
        })
        .await
}

/// Cancels the task after Ctrl-C. A second Ctrl-C ends the process at once.
async fn cancel_and_wait(id: TaskId, new: &NewTask, client: &HttpClient) -> Result<Task> {
    let cancelled = async {
        match client.cancel(id).await {
            // The first request may not have arrived yet. Adding the task again under the same id has no other effect, and
            // then it can be cancelled.
            Err(error) if error.problem().is_some_and(|problem| problem.status == 404) => {
                client.add(new, None).await?;
                client.cancel(id).await
            }
            answer => answer,
        }
    };
    let task = tokio::select! {
        task = cancelled => task,
        _ = tokio::signal::ctrl_c() => std::process::exit(130),
    };
    match task {
        // The task was done before the cancel arrived.
        Err(error) if error.problem().is_some_and(|problem| problem.status == 409) => {
            Ok(client.get(id, None).await?)
        }
        task => Ok(task.with_context(|| format!("could not cancel task {id}"))?),
    }
}

/// Whether standard input is a pipe or a file that has unread bytes, so that the user may expect them to be sent.
fn is_input_waiting() -> bool {
    let stdin = io::stdin();
    !stdin.is_terminal() && has_unread_bytes(&stdin)
}

/// Whether standard input is a file or a pipe.
fn is_input_redirected() -> bool {
    let kind = |status: FileStat| SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT;
    fstat(io::stdin()).is_ok_and(|status| matches!(kind(status), SFlag::S_IFREG | SFlag::S_IFIFO))
}

fn has_unread_bytes(input: &impl AsFd) -> bool {
    let input = input.as_fd();
    let Ok(status) = fstat(input) else {
        return false;
    };
    match SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFREG => lseek(input, 0, Whence::SeekCur).is_ok_and(|position| position < status.st_size),
        SFlag::S_IFIFO => {
            let mut descriptors = [PollFd::new(input, PollFlags::POLLIN)];
            let ready = poll(&mut descriptors, PollTimeout::ZERO);
            // A pipe that is empty and closed has POLLHUP only.
            let events = descriptors[0].revents();
            ready.is_ok() && events.is_some_and(|events| events.contains(PollFlags::POLLIN))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    #[test]
    fn only_unread_bytes_of_pipes_and_files_count_as_waiting_input() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        assert!(!has_unread_bytes(&reader), "an empty pipe");
        writer.write_all(b"x").unwrap();
        assert!(has_unread_bytes(&reader), "a pipe with a byte");
        reader.read_exact(&mut [0]).unwrap();
        drop(writer);
        assert!(!has_unread_bytes(&reader), "a closed pipe");
        let mut file = tempfile::tempfile().unwrap();
        assert!(!has_unread_bytes(&file), "an empty file");
        file.write_all(b"x").unwrap();
        assert!(!has_unread_bytes(&file), "a file at its end");
        file.rewind().unwrap();
        assert!(has_unread_bytes(&file), "a file at its beginning");
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(!has_unread_bytes(&null), "/dev/null");
    }
}
