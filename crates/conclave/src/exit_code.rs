//! The exit code of the commands that exit as a task did (`run`, `watch`, `get --wait`, `get --follow`, `sandbox`).

use api::Task;
use model::{OutcomeReason, TaskStatus, Verdict};

/// The client itself failed, so the result of the task is unknown. `env`, `timeout` and `docker run` use the same code.
pub(crate) const CLIENT_FAILURE: u8 = 125;

/// The task was not done within the time of `--wait`. `timeout` uses the same code.
pub(crate) const WAIT_TIMEOUT: u8 = 124;

/// The task succeeded, but its output was truncated.
pub(crate) const OUTPUT_TRUNCATED: u8 = 119;

/// A case of a judged task had the wrong output.
pub(crate) const WRONG_ANSWER: u8 = 120;

/// The facts about a task or command from which the exit code of `conclave run`, `watch`, `get` or `sandbox` follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutcomeSummary {
    pub(crate) status: TaskStatus,
    pub(crate) reason: Option<OutcomeReason>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Whether any step wrote more output than is kept.
    pub(crate) truncated: bool,
}

impl OutcomeSummary {
    pub(crate) fn of(task: &Task) -> OutcomeSummary {
        let result = task.result.as_ref();
        let failed = result.and_then(|result| {
            let mut cases = result.cases.iter().flatten();
            cases.find(|case| case.verdict != Verdict::Accepted)
        });
        // Of a judged task, the first case that was not accepted decides.
        let outcome = match failed {
            Some(case) => case.execute.as_ref(),
            None => result.and_then(|result| result.execute.as_ref()),
        };
        let reason = match failed.map(|case| case.verdict) {
            Some(Verdict::WrongAnswer) => Some(OutcomeReason::WrongAnswer),
            _ => outcome.map(|outcome| outcome.reason),
        };
        let mut steps = result
            .into_iter()
            .flat_map(|result| [&result.compile, &result.execute])
            .flatten();
        OutcomeSummary {
            status: task.status,
            reason,
            exit_code: outcome.and_then(|outcome| outcome.exit_code),
            signal: outcome.and_then(|outcome| outcome.signal),
            truncated: steps.any(|outcome| outcome.stdout_truncated || outcome.stderr_truncated),
        }
    }
}

/// The section of `--help` on exit codes.
pub(crate) const EXIT_CODES_HELP: &str = "\
Exit codes:
  0-255  the exit code of the command, if it exited
  128+N  the command was ended by signal N
  110    the compile step failed
  111    CPU time limit        112  wall limit
  113    memory limit          114  output limit
  115    process limit         116  cancelled
  117    system error: the platform could not run the task
  118    disk limit            119  success, but a part of the output was cut off
  120    wrong answer: a case of a judged task was not accepted
  124    not done within the time of --wait
  125    conclave itself failed: invalid input, or no response from the server
  2      invalid command line";

/// The section of `get --help` on exit codes.
pub(crate) const GET_EXIT_CODES_HELP: &str = "\
Exit codes without --wait and --follow:
  0      the task exists, however it ended
  119    the task exists, but a part of the printed output was cut off
  1      there is no such task, or no response from the server
  2      invalid command line

Exit codes with --wait or --follow are those of `conclave run`: the exit code of the task, 110 to 120 for how it ended,
124 if it is not done in time, 125 if there is no such task or no response from the server.";

/// Codes from 110 to 120 are conclave's own. A command may use them too; only `--json` shows for certain how it ended.
pub(crate) fn exit_code_for(summary: OutcomeSummary) -> u8 {
    match summary.status {
        TaskStatus::Success if summary.truncated => OUTPUT_TRUNCATED,
        TaskStatus::Success => 0,
        TaskStatus::CompileFailed => 110,
        TaskStatus::Cancelled => 116,
        TaskStatus::SystemError => 117,
        TaskStatus::RunFailed => match summary.reason {
            Some(OutcomeReason::Exited) => low_byte(summary.exit_code.unwrap_or(1)),
            Some(OutcomeReason::Signalled) => low_byte(128 + summary.signal.unwrap_or(0)),
            Some(OutcomeReason::TimeLimit) => 111,
            Some(OutcomeReason::WallLimit) => 112,
            Some(OutcomeReason::MemoryLimit) => 113,
            Some(OutcomeReason::OutputLimit) => 114,
            Some(OutcomeReason::ProcessLimit) => 115,
            Some(OutcomeReason::DiskLimit) => 118,
            Some(OutcomeReason::Cancelled) => 116,
            Some(OutcomeReason::WrongAnswer) => WRONG_ANSWER,
            Some(OutcomeReason::JudgeError) => 117,
            None => CLIENT_FAILURE,
        },
        TaskStatus::Pending | TaskStatus::Compiling | TaskStatus::Running | TaskStatus::Retrying => {
            WAIT_TIMEOUT
        }
    }
}

fn low_byte(code: i32) -> u8 {
    (code & 0xff) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_and_reason_has_its_exit_code() {
        let check = |status, reason, exit_code, signal, expected| {
            let summary = OutcomeSummary {
                status,
                reason,
                exit_code,
                signal,
                truncated: false,
            };
            assert_eq!(exit_code_for(summary), expected, "{summary:?}");
        };
        check(TaskStatus::Success, Some(OutcomeReason::Exited), Some(0), None, 0);
        check(
            TaskStatus::RunFailed,
            Some(OutcomeReason::Exited),
            Some(7),
            None,
            7,
        );
        check(
            TaskStatus::RunFailed,
            Some(OutcomeReason::Signalled),
            None,
            Some(9),
            137,
        );
        check(
            TaskStatus::RunFailed,
            Some(OutcomeReason::WrongAnswer),
            Some(0),
            None,
            120,
        );
        check(TaskStatus::CompileFailed, None, None, None, 110);
        check(TaskStatus::Cancelled, None, None, None, 116);
        check(TaskStatus::SystemError, None, None, None, 117);
        check(TaskStatus::Running, None, None, None, 124);
    }

    #[test]
    fn truncated_output_changes_only_the_exit_code_of_a_success() {
        let check = |status, exit_code, expected| {
            let summary = OutcomeSummary {
                status,
                reason: Some(OutcomeReason::Exited),
                exit_code: Some(exit_code),
                signal: None,
                truncated: true,
            };
            assert_eq!(exit_code_for(summary), expected);
        };
        check(TaskStatus::Success, 0, 119);
        check(TaskStatus::RunFailed, 3, 3);
        check(TaskStatus::Cancelled, 0, 116);
        assert!(EXIT_CODES_HELP.contains("119") && EXIT_CODES_HELP.contains("124"));
    }

    #[test]
    fn every_limit_has_its_own_exit_code_and_the_help_lists_it() {
        let mut seen = Vec::new();
        for reason in OutcomeReason::ALL
            .into_iter()
            .filter(|reason| reason.as_str().ends_with("limit"))
        {
            let code = exit_code_for(OutcomeSummary {
                status: TaskStatus::RunFailed,
                reason: Some(reason),
                exit_code: None,
                signal: Some(9),
                truncated: true,
            });
            assert!(EXIT_CODES_HELP.contains(&code.to_string()), "{reason}");
            seen.push(code);
        }
        let all = seen.len();
        seen.dedup();
        assert_eq!(seen.len(), all);
    }
}
