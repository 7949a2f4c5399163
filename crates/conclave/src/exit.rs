//! The exit code of a command that stands for a task (`run`, `watch`, `get --wait`): the task's own where it has one.

use api::Task;
use model::{Reason, Status};

/// The command itself failed, so nothing is known of the task. `env`, `timeout` and `docker run` use the same.
pub(crate) const OWN_FAILURE: u8 = 125;

/// The task is not done yet and the time to wait is over; `timeout` uses the same.
pub(crate) const OUT_OF_TIME: u8 = 124;

/// All went well, but a part of the output is missing.
pub(crate) const CUT_OFF: u8 = 119;

/// How the execute step ended, as far as an exit code can tell it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    pub(crate) status: Status,
    pub(crate) reason: Option<Reason>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Whether more was written than is kept, in any step.
    pub(crate) cut_off: bool,
}

impl Ending {
    pub(crate) fn of(task: &Task) -> Ending {
        let result = task.result.as_ref();
        let outcome = result.and_then(|result| result.execute.as_ref());
        let mut steps = result
            .into_iter()
            .flat_map(|result| [&result.compile, &result.execute])
            .flatten();
        Ending {
            status: task.status,
            reason: outcome.map(|outcome| outcome.reason),
            exit_code: outcome.and_then(|outcome| outcome.exit_code),
            signal: outcome.and_then(|outcome| outcome.signal),
            cut_off: steps.any(|outcome| outcome.stdout_truncated || outcome.stderr_truncated),
        }
    }
}

/// What `--help` of such a command says about its exit code.
pub(crate) const HELP: &str = "\
Exit codes:
  0-255  the command's own, when it exited
  128+N  signal N ended it
  110    the compile step failed
  111    CPU time limit        112  wall limit
  113    memory limit          114  output limit
  115    process limit         116  cancelled
  117    system error: the platform could not run it
  118    disk limit            119  it succeeded, but a part of its output was cut off
  124    not done when the time of --wait was over
  125    conclave itself failed: bad input, or no answer from the server
  2      the command line cannot be understood";

/// The same for `get`, which is as often used without a wait.
pub(crate) const GET_HELP: &str = "\
Exit codes without --wait:
  0      the task exists, however it ended
  119    the same, but a part of the output that is shown was cut off
  1      there is no such task, or no answer from the server
  2      the command line cannot be understood

With --wait they are those of `conclave run`: the task's own, 110 to 119 for how it ended,
124 if it is not done when the time is over, 125 if there is no such task or no answer.";

/// The codes from 110 are ours. A command may use them too; `--json` tells for certain.
pub(crate) fn code(ending: Ending) -> u8 {
    match ending.status {
        Status::Success if ending.cut_off => CUT_OFF,
        Status::Success => 0,
        Status::CompileFailed => 110,
        Status::Cancelled => 116,
        Status::SystemError => 117,
        Status::RunFailed => match ending.reason {
            Some(Reason::Exited) => low_byte(ending.exit_code.unwrap_or(1)),
            Some(Reason::Signalled) => low_byte(128 + ending.signal.unwrap_or(0)),
            Some(Reason::TimeLimit) => 111,
            Some(Reason::WallLimit) => 112,
            Some(Reason::MemoryLimit) => 113,
            Some(Reason::OutputLimit) => 114,
            Some(Reason::ProcessLimit) => 115,
            Some(Reason::DiskLimit) => 118,
            Some(Reason::Cancelled) => 116,
            None => OWN_FAILURE,
        },
        Status::Pending | Status::Compiling | Status::Running | Status::Retrying => OUT_OF_TIME,
    }
}

fn low_byte(code: i32) -> u8 {
    (code & 0xff) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_tell_how_it_ended() {
        let check = |status, reason, exit_code, signal, expected| {
            let ending = Ending {
                status,
                reason,
                exit_code,
                signal,
                cut_off: false,
            };
            assert_eq!(code(ending), expected, "{ending:?}");
        };
        check(Status::Success, Some(Reason::Exited), Some(0), None, 0);
        check(Status::RunFailed, Some(Reason::Exited), Some(7), None, 7);
        check(Status::RunFailed, Some(Reason::Signalled), None, Some(9), 137);
        check(Status::CompileFailed, None, None, None, 110);
        check(Status::Cancelled, None, None, None, 116);
        check(Status::SystemError, None, None, None, 117);
        check(Status::Running, None, None, None, 124);
    }

    #[test]
    fn output_that_was_cut_off_shows_only_where_the_code_would_be_zero() {
        let check = |status, exit_code, expected| {
            let ending = Ending {
                status,
                reason: Some(Reason::Exited),
                exit_code: Some(exit_code),
                signal: None,
                cut_off: true,
            };
            assert_eq!(code(ending), expected);
        };
        check(Status::Success, 0, 119);
        check(Status::RunFailed, 3, 3);
        check(Status::Cancelled, 0, 116);
        assert!(HELP.contains("119") && HELP.contains("124"));
    }

    #[test]
    fn every_limit_has_its_own_code_and_its_line_in_the_help() {
        let mut seen = Vec::new();
        for reason in Reason::ALL
            .into_iter()
            .filter(|reason| reason.as_str().ends_with("limit"))
        {
            let code = code(Ending {
                status: Status::RunFailed,
                reason: Some(reason),
                exit_code: None,
                signal: Some(9),
                cut_off: true,
            });
            assert!(HELP.contains(&code.to_string()), "{reason}");
            seen.push(code);
        }
        let all = seen.len();
        seen.dedup();
        assert_eq!(seen.len(), all);
    }
}
