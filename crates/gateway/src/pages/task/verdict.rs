//! How a step of a task ended, in words, and how much it used of each limit.

use maud::{Markup, html};
use model::{Limits, NetworkName, Outcome, OutcomeReason};

use crate::pages::{components, format};

/// How the step ended, in one sentence.
pub(super) fn verdict(outcome: &Outcome, limits: &Limits) -> String {
    let limit_of = |limit: Option<String>| limit.map_or(String::new(), |limit| format!(", limit {limit}"));
    let time = |limit| limit_of(limit_time(limit));
    let size = |limit: Option<u64>| limit_of(limit.map(format::bytes));
    match outcome.reason {
        OutcomeReason::Exited => match outcome.exit_code.unwrap_or(0) {
            0 => "Succeeded: it exited with 0".to_string(),
            126 => "Exited with 126: the command could not be executed".to_string(),
            127 => "Exited with 127: the command was not found".to_string(),
            code => format!("Exited with {code}"),
        },
        OutcomeReason::Signalled => match outcome.signal {
            Some(signal) => format!("Ended by signal {signal}{}", signal_name(signal)),
            None => "Ended by a signal".to_string(),
        },
        OutcomeReason::TimeLimit => {
            let used = format::duration(outcome.cpu);
            format!("Ran out of time: {used} of CPU{}", time(limits.cpu))
        }
        OutcomeReason::WallLimit => {
            let used = format::duration(outcome.wall);
            format!("Ran out of time: {used} of wall time{}", time(limits.wall))
        }
        OutcomeReason::MemoryLimit => {
            let used = format::bytes(outcome.memory);
            format!("Ran out of memory: {used} used{}", size(limits.memory))
        }
        // A file may also have been too large.
        OutcomeReason::OutputLimit => match limits.output {
            Some(limit) if written(outcome) >= limit => {
                format!(
                    "Wrote too much: more than {} on stdout or stderr",
                    format::bytes(limit)
                )
            }
            _ => format!("Wrote a file that is too large{}", size(limits.file_size)),
        },
        OutcomeReason::ProcessLimit => {
            let limit = limits.processes.map(|limit| limit.to_string());
            format!("Started too many processes or threads{}", limit_of(limit))
        }
        OutcomeReason::DiskLimit => {
            format!("Ran out of space for its files{}", size(limits.space))
        }
        OutcomeReason::Cancelled => "Cancelled".to_string(),
        // Reasons of judged tasks, which no step has.
        OutcomeReason::WrongAnswer => "Judged as a wrong answer".to_string(),
        OutcomeReason::JudgeError => "The program that judges failed".to_string(),
    }
}

fn limit_time(limit: Option<std::time::Duration>) -> Option<String> {
    limit.map(format::duration)
}

/// The name of a signal that often ends programs.
fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL, an invalid instruction)",
        6 => " (SIGABRT, the program aborted itself)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE, an arithmetic error)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV, an invalid memory access)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        25 => " (SIGXFSZ, a file became too large)",
        31 => " (SIGSYS, a forbidden system call)",
        _ => "",
    }
}

/// The most bytes that the step wrote to one of its output streams, as far as they are kept.
fn written(outcome: &Outcome) -> u64 {
    outcome.stdout.size.max(outcome.stderr.size)
}

/// The verdict about a step that has ended, with a colour.
pub(super) fn verdict_line(outcome: &Outcome, limits: &Limits) -> Markup {
    let class = if outcome.succeeded() {
        "verdict good"
    } else {
        "verdict bad"
    };
    html! { p class=(class) { strong { (verdict(outcome, limits)) } } }
}

/// What a step used of the limits that apply to it. Before it has ended, only the limits.
pub(super) fn resources(limits: &Limits, network: Option<&NetworkName>, outcome: Option<&Outcome>) -> Markup {
    let Limits {
        wall,
        cpu,
        memory,
        output,
        processes,
        file_size,
        open_files,
        stack,
        space,
    } = *limits;
    let seconds = |time: std::time::Duration| time.as_secs_f64();
    let bars = [
        Usage {
            name: "Wall time",
            used: outcome.map(|outcome| (seconds(outcome.wall), format::duration(outcome.wall))),
            limit: wall.map(|limit| (seconds(limit), format::duration(limit))),
        },
        Usage {
            name: "CPU time",
            used: outcome.map(|outcome| (seconds(outcome.cpu), format::duration(outcome.cpu))),
            limit: cpu.map(|limit| (seconds(limit), format::duration(limit))),
        },
        Usage {
            name: "Memory",
            used: outcome.map(|outcome| (outcome.memory as f64, format::bytes(outcome.memory))),
            limit: memory.map(|limit| (limit as f64, format::bytes(limit))),
        },
        Usage {
            name: "Output",
            used: outcome.map(|outcome| (written(outcome) as f64, format::bytes(written(outcome)))),
            limit: output.map(|limit| (limit as f64, format::bytes(limit))),
        },
    ];
    let others = [
        ("Processes and threads", processes.map(|limit| limit.to_string())),
        ("Largest file", file_size.map(format::bytes)),
        (
            "Open files of each process",
            open_files.map(|limit| limit.to_string()),
        ),
        ("Stack of each process", stack.map(format::bytes)),
        ("All files together", space.map(format::bytes)),
        ("Network", network.map(|network| network.to_string())),
    ];
    html! {
        div class="used" { @for usage in bars.iter().filter(|usage| usage.says_something()) { (usage.row()) } }
        details {
            summary { "Other limits" }
            dl {
                @for (name, limit) in &others {
                    dt { (name) }
                    dd { @match limit { Some(limit) => (limit), None if *name == "Network" => "none", None => "no limit" } }
                }
            }
        }
    }
}

/// What a step used of one resource, and the limit: each as a number and as text.
struct Usage {
    name: &'static str,
    used: Option<(f64, String)>,
    limit: Option<(f64, String)>,
}

impl Usage {
    fn says_something(&self) -> bool {
        self.used.is_some() || self.limit.is_some()
    }

    fn row(&self) -> Markup {
        let text = match (&self.used, &self.limit) {
            (Some((_, used)), Some((_, limit))) => format!("{used} of {limit}"),
            (Some((_, used)), None) => format!("{used}, no limit"),
            (None, Some((_, limit))) => format!("at most {limit}"),
            (None, None) => "no limit".to_string(),
        };
        let amount = |value: &Option<(f64, String)>| value.as_ref().map_or(0.0, |(amount, _)| *amount);
        html! {
            div class="used-row" {
                span class="dim" { (self.name) }
                @if self.limit.is_some() { (components::bar(amount(&self.used), amount(&self.limit))) } @else { span class="bar-place" {} }
                span class="used-text" { (text) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::CapturedOutput;

    use super::*;

    fn outcome(reason: OutcomeReason) -> Outcome {
        Outcome {
            reason,
            exit_code: None,
            signal: None,
            wall: Duration::from_millis(1500),
            cpu: Duration::from_millis(2000),
            memory: 12 << 20,
            stdout: CapturedOutput::small("12345"),
            stderr: CapturedOutput::default(),
        }
    }

    fn limits() -> Limits {
        Limits {
            wall: Some(Duration::from_secs(10)),
            cpu: Some(Duration::from_secs(2)),
            memory: Some(1 << 30),
            output: Some(5),
            processes: Some(5),
            space: Some(1 << 20),
            ..Limits::default()
        }
    }

    #[test]
    fn a_verdict_says_what_limited_the_step() {
        let check = |reason, expected: &str| assert_eq!(verdict(&outcome(reason), &limits()), expected);
        check(OutcomeReason::TimeLimit, "Ran out of time: 2 s of CPU, limit 2 s");
        check(
            OutcomeReason::WallLimit,
            "Ran out of time: 1.50 s of wall time, limit 10 s",
        );
        check(
            OutcomeReason::MemoryLimit,
            "Ran out of memory: 12 MiB used, limit 1 GiB",
        );
        check(
            OutcomeReason::OutputLimit,
            "Wrote too much: more than 5 bytes on stdout or stderr",
        );
        check(
            OutcomeReason::ProcessLimit,
            "Started too many processes or threads, limit 5",
        );
        check(
            OutcomeReason::DiskLimit,
            "Ran out of space for its files, limit 1 MiB",
        );
        check(OutcomeReason::Cancelled, "Cancelled");
        let file = Limits {
            output: Some(100),
            file_size: Some(7),
            ..limits()
        };
        assert_eq!(
            verdict(&outcome(OutcomeReason::OutputLimit), &file),
            "Wrote a file that is too large, limit 7 bytes"
        );
    }

    #[test]
    fn a_verdict_explains_exit_codes_and_signals() {
        let exited = |code| Outcome {
            exit_code: Some(code),
            ..outcome(OutcomeReason::Exited)
        };
        let check = |outcome: Outcome, expected: &str| assert_eq!(verdict(&outcome, &limits()), expected);
        check(exited(0), "Succeeded: it exited with 0");
        check(exited(3), "Exited with 3");
        check(exited(127), "Exited with 127: the command was not found");
        let signalled = |signal| Outcome {
            signal: Some(signal),
            ..outcome(OutcomeReason::Signalled)
        };
        check(
            signalled(11),
            "Ended by signal 11 (SIGSEGV, an invalid memory access)",
        );
        check(signalled(40), "Ended by signal 40");
        let line = verdict_line(&exited(0), &limits()).into_string();
        assert!(line.contains("verdict good"), "{line}");
    }

    #[test]
    fn limits_and_usage_are_labelled() {
        let shown = |outcome: Option<&Outcome>| resources(&limits(), None, outcome).into_string();
        let after = shown(Some(&outcome(OutcomeReason::Exited)));
        for text in [
            "1.50 s of 10 s",
            "12 MiB of 1 GiB",
            "5 bytes of 5 bytes",
            "<dd>5</dd>",
            "no limit",
        ] {
            assert!(after.contains(text), "{text}: {after}");
        }
        assert!(after.contains("class=\"bar bad\""), "{after}");
        let before = shown(None);
        assert!(before.contains("at most 1 GiB"), "{before}");
        let unlimited = resources(&Limits::default(), None, None).into_string();
        assert!(
            !unlimited.contains("Memory") && !unlimited.contains("<svg"),
            "{unlimited}"
        );
    }
}
