//! `conclave wait`: waits until all tasks of a group, or all given tasks, are done, and shows the progress.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, bail};
use api::{GroupState, HttpClient, HttpClientError, HumanDuration};
use futures::StreamExt;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use model::{GroupName, TaskId, TaskStatus, UserName};

use super::get::get_within;
use crate::args::{ClientFlags, group_name, user_name};
use crate::exit_code;
use crate::group_progress::{FinishRate, ProgressCounts, ProgressLine};
use crate::print::{OutputFormat, Stdout, print_message};

/// The arguments of `conclave wait`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit codes:
  0      all tasks succeeded
  1      all tasks are done, but not all of them succeeded
  124    not all tasks are done within the time of --wait
  125    conclave itself failed: no such group or task, or no response from the server
  2      invalid command line")]
pub(crate) struct WaitArgs {
    /// Name of a group, or whole ids of tasks
    #[arg(value_name = "GROUP|ID", required_unless_present = "group")]
    names: Vec<String>,
    /// Name of a group, also if it looks like the id of a task
    #[arg(long, value_name = "NAME", value_parser = group_name, conflicts_with = "names")]
    group: Option<GroupName>,
    /// User whose group it is; by default you
    #[arg(long, value_name = "NAME", value_parser = user_name)]
    user: Option<UserName>,
    /// Wait this long at most, like 10m
    #[arg(long, value_name = "TIME")]
    wait: Option<HumanDuration>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// What `conclave wait` waits for.
#[derive(Debug, PartialEq, Eq)]
enum WaitTarget {
    Group(GroupName),
    Tasks(Vec<TaskId>),
}

/// How `conclave wait` ended.
enum WaitEnd {
    Done(ProgressCounts),
    Timeout(ProgressCounts),
}

const RECONNECT_DELAY: Duration = Duration::from_millis(250);
/// How often a line is printed if stderr is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Without `--wait`, a single task is asked for with this wait, again and again.
const LONG_WAIT: Duration = Duration::from_secs(3600);

pub(crate) async fn run(args: WaitArgs) -> Result<ExitCode> {
    let target = target(args.group, &args.names)?;
    let client = args.client.connect()?;
    let limit = args.wait.map(|HumanDuration(wait)| wait);
    let mut out = Stdout::open();
    let format = args.client.output_format();
    let waiting = async {
        match &target {
            WaitTarget::Group(group) => {
                let state = wait_for_group(group, args.user.as_ref(), limit, &client).await?;
                let counts = ProgressCounts::of(&state);
                match format {
                    OutputFormat::Json => out.json(&state)?,
                    OutputFormat::Text => print_reasons(&state, &mut out)?,
                }
                Ok(match counts.is_done() {
                    true => WaitEnd::Done(counts),
                    false => WaitEnd::Timeout(counts),
                })
            }
            WaitTarget::Tasks(ids) => wait_for_tasks(ids, limit, &client, format, &mut out).await,
        }
    };
    let end: Result<WaitEnd> = waiting.await;
    Ok(ExitCode::from(match end? {
        WaitEnd::Done(counts) if counts.failed == 0 => 0,
        WaitEnd::Done(counts) => {
            let ProgressCounts { failed, total, .. } = counts;
            print_message(format_args!("{failed} of {total} tasks did not succeed"));
            1
        }
        WaitEnd::Timeout(counts) => {
            let ProgressCounts { done, total, .. } = counts;
            print_message(format_args!("only {done} of {total} tasks are done in time"));
            exit_code::WAIT_TIMEOUT
        }
    }))
}

/// One name is a group, unless it is a whole id of a task; several names are ids.
fn target(group: Option<GroupName>, names: &[String]) -> Result<WaitTarget> {
    if let Some(group) = group {
        return Ok(WaitTarget::Group(group));
    }
    let ids: Result<Vec<TaskId>, _> = names.iter().map(|name| name.parse()).collect();
    match (ids, names) {
        (Ok(ids), _) => Ok(WaitTarget::Tasks(ids)),
        (Err(_), [name]) => match GroupName::new(name.as_str()) {
            Ok(group) => Ok(WaitTarget::Group(group)),
            Err(error) => bail!("the group's name '{name}' {error}"),
        },
        (Err(_), _) => bail!("give the name of one group, or whole ids of tasks"),
    }
}

/// Follows the events of the group until all of its tasks are done or the time is over.
async fn wait_for_group(
    group: &GroupName,
    user: Option<&UserName>,
    limit: Option<Duration>,
    client: &HttpClient,
) -> Result<GroupState> {
    let mut latest = client.group(group, user, None).await.map_err(|error| {
        let is_unknown = error.problem().is_some_and(|problem| problem.status == 404);
        let error = Error::from(error);
        match is_unknown && user.is_none() {
            true => error.context("if the group belongs to another user, name the user with --user"),
            false => error,
        }
    })?;
    let mut progress = ProgressDisplay::new();
    let following = async {
        let mut failing_since: Option<Instant> = None;
        while !ProgressCounts::of(&latest).is_done() {
            progress.show(ProgressCounts::of(&latest));
            let failure = match client.group_events(group, user).await {
                Ok(mut events) => loop {
                    match events.next().await {
                        Some(Ok(state)) => {
                            failing_since = None;
                            progress.show(ProgressCounts::of(&state));
                            latest = state;
                        }
                        Some(Err(error)) => break Some(error),
                        None => break None,
                    }
                },
                Err(error) => Some(error),
            };
            if let Some(error) = failure {
                let since = *failing_since.get_or_insert_with(Instant::now);
                if !client.should_retry(&error, since) {
                    return Err::<(), HttpClientError>(error);
                }
            }
            if !ProgressCounts::of(&latest).is_done() {
                tokio::time::sleep(RECONNECT_DELAY).await;
            }
        }
        Ok(())
    };
    match limit {
        // The time being over is no error: the latest state is returned.
        Some(limit) => {
            if let Ok(followed) = tokio::time::timeout(limit, following).await {
                followed?;
            }
        }
        None => following.await?,
    }
    progress.finish(ProgressCounts::of(&latest));
    Ok(latest)
}

/// Waits for one task after the other; it does not matter in which order they end.
async fn wait_for_tasks(
    ids: &[TaskId],
    limit: Option<Duration>,
    client: &HttpClient,
    format: OutputFormat,
    out: &mut Stdout,
) -> Result<WaitEnd> {
    let began = Instant::now();
    let mut progress = ProgressDisplay::new();
    let mut counts = ProgressCounts {
        total: ids.len() as u64,
        ..ProgressCounts::default()
    };
    for id in ids {
        progress.show(counts);
        let task = loop {
            let wait = limit.map_or(LONG_WAIT, |limit| limit.saturating_sub(began.elapsed()));
            let task = get_within(*id, wait, client).await?;
            match (task.done, limit) {
                (true, _) => break task,
                (false, Some(_)) => return Ok(WaitEnd::Timeout(counts)),
                (false, None) => {}
            }
        };
        counts.done += 1;
        counts.failed += u64::from(task.status != TaskStatus::Success);
        match format {
            OutputFormat::Json => out.json(&task)?,
            OutputFormat::Text => out.line(format_args!("{id} {}", task.status))?,
        }
    }
    progress.finish(counts);
    Ok(WaitEnd::Done(counts))
}

/// Prints why tasks of the group failed, one reason on each line.
fn print_reasons(state: &GroupState, out: &mut Stdout) -> Result<()> {
    for status in TaskStatus::ALL.into_iter().filter(|status| status.is_done()) {
        let count = state.counts.get(status.as_str()).copied().unwrap_or(0);
        if count > 0 {
            out.line(format_args!("{count} {status}"))?;
        }
    }
    for (reason, count) in state.reasons.iter().filter(|(_, count)| **count > 0) {
        out.line(format_args!("{count} failed: {reason}"))?;
    }
    Ok(())
}

/// Shows the progress of `conclave wait`: a bar on a terminal, otherwise a line on stderr now and then.
struct ProgressDisplay {
    bar: Option<ProgressBar>,
    rate: FinishRate,
    last_line: Option<Instant>,
}

impl ProgressDisplay {
    fn new() -> ProgressDisplay {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0).with_finish(ProgressFinish::AndClear);
            if let Ok(style) = ProgressStyle::with_template("[{bar:20}] {wide_msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        ProgressDisplay {
            bar,
            rate: FinishRate::default(),
            last_line: None,
        }
    }

    fn show(&mut self, counts: ProgressCounts) {
        let now = Instant::now();
        self.rate.record(now, counts.done);
        let line = ProgressLine {
            counts,
            per_second: self.rate.per_second(now),
        };
        match &self.bar {
            Some(bar) => {
                bar.set_length(counts.total);
                bar.set_position(counts.done);
                bar.set_message(line.to_string());
            }
            None if self.last_line.is_none_or(|last| last + LINE_INTERVAL <= now) => {
                self.last_line = Some(now);
                print_message(line);
            }
            None => {}
        }
    }

    fn finish(mut self, counts: ProgressCounts) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        print_message(ProgressLine {
            counts,
            per_second: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_id_is_a_task_and_any_other_name_a_group() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        let check = |group: Option<&str>, names: &[&str], expected: Option<WaitTarget>| {
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            let group = group.map(|group| GroupName::new(group).unwrap());
            assert_eq!(target(group, &names).ok(), expected, "{names:?}");
        };
        let group = |name: &str| Some(WaitTarget::Group(GroupName::new(name).unwrap()));
        check(None, &["sweep-17"], group("sweep-17"));
        // The prefix of an id could be the name of a group.
        check(None, &["01890a5d"], group("01890a5d"));
        check(None, &[id], Some(WaitTarget::Tasks(vec![id.parse().unwrap()])));
        check(Some(id), &[], group(id));
        check(None, &[id, "sweep-17"], None);
        check(None, &["a/b"], None);
    }
}
