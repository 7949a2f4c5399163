//! Verdicts: how a case and a judged task ended, and what decides that.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{
    CaseName, Content, GroupScoring, JudgeProtocol, Judging, Outcome, OutcomeReason, Points, TaskStatus,
};

/// How a case of a judged task, or the task as a whole, was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    Accepted,
    WrongAnswer,
    TimeLimit,
    MemoryLimit,
    OutputLimit,
    RuntimeError,
    CompileError,
    /// The program that judges failed itself. That is not held against the user.
    JudgeError,
    /// The case did not run, or does not count, because an earlier one was not accepted.
    Skipped,
}

/// The result of one case: its verdict and points, how the program ended, and what the check says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseResult {
    pub name: CaseName,
    pub verdict: Verdict,
    pub points: Points,
    /// How the execute step ended. `None` for a skipped case.
    pub execute: Option<Outcome>,
    /// `None` if nothing was checked.
    pub check: Option<CheckResult>,
}

/// What a check says about the output of a case.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CheckResult {
    /// That of the checker. A built-in check has the codes of [`JudgeProtocol::Icpc`]. `None` if the checker was killed.
    pub exit_code: Option<i32>,
    /// For the user who submitted the program.
    pub message: String,
    /// For the owner of the cases: it may name what the case is about.
    pub judge_message: String,
}

/// How a judged task ended, as part of its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// That of the first case that was not accepted.
    pub verdict: Verdict,
    pub score: Points,
    /// The score if every case were accepted.
    pub max_score: Points,
    /// The verdict of each case.
    pub marks: Vec<Verdict>,
    /// The most CPU time of any case.
    pub max_cpu: Duration,
    /// The most memory of any case.
    pub max_memory: u64,
    /// The [`CaseResult`]s, in a form that the `rpc` crate encodes and decodes. Many cases are in a blob.
    pub cases: Content,
}

/// What decides about a case: its verdict, and which part of its points it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaseDecision {
    pub verdict: Verdict,
    pub points: Points,
}

/// Which of the two programs of an interactive case ended first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstToEnd {
    Submission,
    Interactor,
}

impl Verdict {
    pub const ALL: [Verdict; 9] = [
        Verdict::Accepted,
        Verdict::WrongAnswer,
        Verdict::TimeLimit,
        Verdict::MemoryLimit,
        Verdict::OutputLimit,
        Verdict::RuntimeError,
        Verdict::CompileError,
        Verdict::JudgeError,
        Verdict::Skipped,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Accepted => "accepted",
            Verdict::WrongAnswer => "wrong_answer",
            Verdict::TimeLimit => "time_limit",
            Verdict::MemoryLimit => "memory_limit",
            Verdict::OutputLimit => "output_limit",
            Verdict::RuntimeError => "runtime_error",
            Verdict::CompileError => "compile_error",
            Verdict::JudgeError => "judge_error",
            Verdict::Skipped => "skipped",
        }
    }

    /// Why a task with this verdict ended, as lists show it. It stands for the verdict where steps have no such reason.
    pub fn reason(self) -> OutcomeReason {
        match self {
            Verdict::Accepted | Verdict::Skipped | Verdict::CompileError => OutcomeReason::Exited,
            Verdict::RuntimeError => OutcomeReason::Signalled,
            Verdict::WrongAnswer => OutcomeReason::WrongAnswer,
            Verdict::TimeLimit => OutcomeReason::TimeLimit,
            Verdict::MemoryLimit => OutcomeReason::MemoryLimit,
            Verdict::OutputLimit => OutcomeReason::OutputLimit,
            Verdict::JudgeError => OutcomeReason::JudgeError,
        }
    }

    /// The verdict on a program whose run has this outcome, before any check. `None` if the check decides.
    pub fn of_outcome(outcome: &Outcome) -> Option<Verdict> {
        match outcome.reason {
            OutcomeReason::Exited if outcome.exit_code == Some(0) => None,
            OutcomeReason::TimeLimit | OutcomeReason::WallLimit => Some(Verdict::TimeLimit),
            OutcomeReason::MemoryLimit => Some(Verdict::MemoryLimit),
            OutcomeReason::OutputLimit => Some(Verdict::OutputLimit),
            OutcomeReason::Exited
            | OutcomeReason::Signalled
            | OutcomeReason::ProcessLimit
            | OutcomeReason::DiskLimit
            | OutcomeReason::Cancelled
            | OutcomeReason::WrongAnswer
            | OutcomeReason::JudgeError => Some(Verdict::RuntimeError),
        }
    }

    /// The verdict on an interactive case. The interactor's own decision is `None` if it did not exit by itself with a code
    /// of its protocol.
    ///
    /// An interactor that rejects first is right, although the program then fails on a broken pipe. A program beyond its
    /// time is beyond its time, whatever the interactor says when it finds the pipe closed.
    pub fn of_interaction(submission: &Outcome, interactor: Option<Verdict>, first: FirstToEnd) -> Verdict {
        let own = Verdict::of_outcome(submission);
        match (own, interactor, first) {
            (_, Some(Verdict::WrongAnswer), FirstToEnd::Interactor) => Verdict::WrongAnswer,
            (Some(Verdict::TimeLimit), _, FirstToEnd::Submission) => Verdict::TimeLimit,
            (_, None, FirstToEnd::Interactor) => Verdict::JudgeError,
            (Some(own), ..) => own,
            (None, decision, _) => decision.unwrap_or(Verdict::JudgeError),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Verdict {
    type Err = String;
    fn from_str(text: &str) -> Result<Verdict, String> {
        Verdict::ALL
            .into_iter()
            .find(|verdict| verdict.as_str() == text)
            .ok_or_else(|| format!("'{text}' is no verdict"))
    }
}

impl CaseDecision {
    pub fn accepted(points: Points) -> CaseDecision {
        CaseDecision {
            verdict: Verdict::Accepted,
            points,
        }
    }

    pub fn without_points(verdict: Verdict) -> CaseDecision {
        CaseDecision {
            verdict,
            points: Points::ZERO,
        }
    }
}

impl JudgeProtocol {
    /// What the exit of a judge program means for a case that is worth `worth` points. `score` is what the program gives,
    /// if it gives a score. `None` if the program did not exit by itself with a code of the protocol.
    pub fn decide(self, outcome: &Outcome, score: Option<Points>, worth: Points) -> Option<CaseDecision> {
        let exit_code = outcome
            .exit_code
            .filter(|_| outcome.reason == OutcomeReason::Exited)?;
        let accepted = |points: Option<Points>| CaseDecision::accepted(points.unwrap_or(worth).min(worth));
        match (self, exit_code) {
            (JudgeProtocol::Icpc, 42) => Some(accepted(score)),
            (JudgeProtocol::Icpc, 43) => Some(CaseDecision::without_points(Verdict::WrongAnswer)),
            (JudgeProtocol::Testlib, 0) => Some(accepted(None)),
            (JudgeProtocol::Testlib, 1 | 2) => Some(CaseDecision::without_points(Verdict::WrongAnswer)),
            (JudgeProtocol::Testlib, 7) => score.map(|score| match score == Points::ZERO {
                true => CaseDecision::without_points(Verdict::WrongAnswer),
                false => accepted(Some(score)),
            }),
            (JudgeProtocol::Icpc | JudgeProtocol::Testlib, _) => None,
        }
    }
}

impl Judging {
    /// The judgement on a task with these results, in the order of its cases. `cases` are the same results, encoded.
    pub fn judgement(&self, results: &[CaseResult], cases: Content) -> Judgement {
        let outcomes = || results.iter().filter_map(|result| result.execute.as_ref());
        Judgement {
            verdict: self.verdict(results),
            score: self.score(results),
            max_score: self.max_score(),
            marks: results.iter().map(|result| result.verdict).collect(),
            max_cpu: outcomes().map(|outcome| outcome.cpu).max().unwrap_or_default(),
            max_memory: outcomes().map(|outcome| outcome.memory).max().unwrap_or_default(),
            cases,
        }
    }

    /// The verdict on a task of which these cases have run, in the order of its cases and maybe not all of them.
    pub fn verdict(&self, results: &[CaseResult]) -> Verdict {
        let failed = results.iter().find(|result| result.verdict != Verdict::Accepted);
        failed.map_or(Verdict::Accepted, |result| result.verdict)
    }

    /// The score of a task with these results, in the order of its cases. A case without a result has no points.
    pub fn score(&self, results: &[CaseResult]) -> Points {
        self.score_with(|index, _| {
            results.get(index).map_or((Points::ZERO, false), |result| {
                (result.points, result.verdict == Verdict::Accepted)
            })
        })
    }

    /// The score if every case were accepted.
    pub fn max_score(&self) -> Points {
        self.score_with(|_, worth| (worth, true))
    }

    /// `case` has the points of a case, by its index and what it is worth, and whether it was accepted.
    fn score_with(&self, case: impl Fn(usize, Points) -> (Points, bool)) -> Points {
        let mut groups: BTreeMap<Option<&CaseName>, Vec<(Points, bool)>> = BTreeMap::new();
        for (index, given) in self.cases.iter().enumerate() {
            let group = groups.entry(given.group.as_ref()).or_default();
            group.push(case(index, given.points));
        }
        let scores = groups.into_iter().map(|(name, cases)| {
            let scoring = name.and_then(|name| self.groups.get(name)).copied();
            let mut points = cases.iter().map(|(points, _)| *points);
            match scoring.unwrap_or_default() {
                GroupScoring::Min => points.min().unwrap_or_default(),
                GroupScoring::PassAll if cases.iter().any(|(_, accepted)| !accepted) => Points::ZERO,
                GroupScoring::Sum | GroupScoring::PassAll => points.by_ref().sum(),
            }
        });
        scores.sum()
    }
}

impl Judgement {
    pub fn status(&self) -> TaskStatus {
        match self.verdict {
            Verdict::Accepted => TaskStatus::Success,
            Verdict::CompileError => TaskStatus::CompileFailed,
            Verdict::JudgeError => TaskStatus::SystemError,
            // Without points to gain, every score is the full one.
            _ if self.score == self.max_score && self.score > Points::ZERO => TaskStatus::Success,
            _ => TaskStatus::RunFailed,
        }
    }

    /// Why a task that was compiled ended, as lists show it.
    pub fn reason(&self) -> OutcomeReason {
        self.verdict.reason()
    }
}

#[cfg(test)]
mod tests;
