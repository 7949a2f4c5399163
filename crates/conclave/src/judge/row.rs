//! A submission as a row: its verdict, score, time and memory, and a mark for each case.

use api::{CaseResult, Task};
use model::{TaskStatus, Verdict};
use serde::Serialize;

use super::SubmissionRun;

/// A judged submission, as `--json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SubmissionRow {
    pub(crate) submission: String,
    pub(crate) language: Option<String>,
    pub(crate) task: Option<String>,
    /// The verdict, or what kept the submission from being judged: `refused`, `cancelled`, `system_error`.
    pub(crate) verdict: String,
    #[serde(serialize_with = "optional_score")]
    pub(crate) score: Option<f64>,
    #[serde(serialize_with = "optional_score")]
    pub(crate) max_score: Option<f64>,
    /// CPU time of the slowest case.
    pub(crate) time_seconds: Option<f64>,
    /// The most memory of any case.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) cases: Vec<CaseRow>,
    /// Why it was not judged, does not compile, or could not be judged.
    pub(crate) notes: Vec<String>,
    #[serde(flatten)]
    pub(crate) expected: Option<ExpectedOutcome>,
}

/// How a submission did in a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CaseRow {
    pub(crate) name: String,
    #[serde(serialize_with = "verdict_text")]
    pub(crate) verdict: Verdict,
    #[serde(serialize_with = "score")]
    pub(crate) points: f64,
    /// CPU time.
    pub(crate) time_seconds: Option<f64>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) message: String,
    pub(crate) judge_message: String,
}

/// What was expected of a submission of a package, and whether it came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ExpectedOutcome {
    pub(crate) expected: String,
    pub(crate) as_expected: bool,
    /// What did not come out.
    pub(crate) mismatches: Vec<String>,
    pub(crate) time_limit_seconds: f64,
    /// The time of the slowest case as a part of the time limit: 0.25, or 1.5 if it was stopped there.
    pub(crate) time_of_limit: Option<f64>,
    /// Cases that were repeated because their times were near the limit or beyond.
    pub(crate) repeated: Vec<String>,
}

/// The longest note, so that a compiler that floods its output does not flood the table.
const MAX_NOTE_CHARACTERS: usize = 500;

impl SubmissionRow {
    pub(crate) fn new(submission: String, run: &SubmissionRun) -> SubmissionRow {
        match run {
            SubmissionRun::Done(task) => SubmissionRow::of_task(submission, task),
            SubmissionRun::Refused(why) => SubmissionRow {
                submission,
                language: None,
                task: None,
                verdict: "refused".into(),
                score: None,
                max_score: None,
                time_seconds: None,
                memory_bytes: None,
                cases: Vec::new(),
                notes: vec![shortened(why)],
                expected: None,
            },
        }
    }

    fn of_task(submission: String, task: &Task) -> SubmissionRow {
        let result = task.result.as_ref();
        let results = result
            .and_then(|result| result.cases.as_deref())
            .unwrap_or_default();
        let cases: Vec<CaseRow> = results.iter().map(CaseRow::of).collect();
        let verdict = result.and_then(|result| result.verdict);
        SubmissionRow {
            submission,
            language: task.language.as_ref().map(ToString::to_string),
            task: Some(task.id.to_string()),
            verdict: verdict.map_or_else(|| task.status.to_string(), |verdict| verdict.to_string()),
            score: result.and_then(|result| result.score),
            max_score: result.and_then(|result| result.max_score),
            time_seconds: cases.iter().filter_map(|case| case.time_seconds).reduce(f64::max),
            memory_bytes: cases.iter().filter_map(|case| case.memory_bytes).max(),
            notes: notes(task, results),
            cases,
            expected: None,
        }
    }

    /// `None` if the submission was not judged.
    pub(crate) fn judged(&self) -> Option<Verdict> {
        self.verdict.parse().ok()
    }

    /// Whether there is a verdict that says something about the submission.
    pub(crate) fn is_judged(&self) -> bool {
        self.judged()
            .is_some_and(|verdict| verdict != Verdict::JudgeError)
    }

    /// Why the times of its cases are not known, if not every case has run and was judged.
    pub(crate) fn why_without_times(&self) -> Option<String> {
        let has_time = |case: &CaseRow| {
            let is_judged = !matches!(case.verdict, Verdict::Skipped | Verdict::JudgeError);
            is_judged && case.time_seconds.is_some()
        };
        let compiles = self.judged() != Some(Verdict::CompileError);
        if self.is_judged() && compiles && self.cases.iter().all(has_time) {
            return None;
        }
        let note = self.notes.first().cloned();
        Some(note.unwrap_or_else(|| format!("its verdict is {}", self.verdict)))
    }
}

impl CaseRow {
    pub(super) fn of(result: &CaseResult) -> CaseRow {
        let execute = result.execute.as_ref();
        let check = result.check.as_ref();
        CaseRow {
            name: result.name.to_string(),
            verdict: result.verdict,
            points: result.points,
            time_seconds: execute.map(|outcome| outcome.cpu_seconds),
            memory_bytes: execute.map(|outcome| outcome.memory_bytes),
            message: check.map(|check| check.message.clone()).unwrap_or_default(),
            judge_message: check
                .and_then(|check| check.judge_message.clone())
                .unwrap_or_default(),
        }
    }

    /// One letter for a table of many cases.
    pub(crate) fn mark(&self) -> char {
        mark(self.verdict)
    }
}

pub(super) fn mark(verdict: Verdict) -> char {
    match verdict {
        Verdict::Accepted => 'A',
        Verdict::WrongAnswer => 'W',
        Verdict::TimeLimit => 'T',
        Verdict::MemoryLimit => 'M',
        Verdict::OutputLimit => 'O',
        Verdict::RuntimeError => 'R',
        Verdict::CompileError => 'C',
        Verdict::JudgeError => 'J',
        Verdict::Skipped => '-',
    }
}

fn notes(task: &Task, cases: &[CaseResult]) -> Vec<String> {
    let result = task.result.as_ref();
    let mut notes = Vec::new();
    if task.status == TaskStatus::CompileFailed {
        let outcome = result.and_then(|result| result.compile.as_ref());
        let text = outcome.map(|outcome| match outcome.stderr.trim().is_empty() {
            true => outcome.stdout.trim(),
            false => outcome.stderr.trim(),
        });
        notes.push(format!(
            "does not compile: {}",
            shortened(text.unwrap_or_default())
        ));
    }
    if let Some(trouble) = &task.trouble {
        notes.push(shortened(trouble));
    }
    if let Some(failed) = cases.iter().find(|case| case.verdict == Verdict::JudgeError) {
        let check = failed.check.as_ref();
        let why = check.and_then(|check| check.judge_message.as_deref());
        let why = why.filter(|why| !why.is_empty()).unwrap_or("no reason is given");
        notes.push(format!(
            "case {}: the judge failed: {}",
            failed.name,
            shortened(why)
        ));
    }
    notes
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_NOTE_CHARACTERS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Whole numbers are written as such, as in the API.
fn score<S: serde::Serializer>(score: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    const MAX_EXACT: f64 = 9e15;
    match score.fract() == 0.0 && (0.0..MAX_EXACT).contains(score) {
        true => serializer.serialize_u64(*score as u64),
        false => serializer.serialize_f64(*score),
    }
}

fn optional_score<S: serde::Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => score(number, serializer),
        None => serializer.serialize_none(),
    }
}

fn verdict_text<S: serde::Serializer>(verdict: &Verdict, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_has_a_mark_of_its_own() {
        let mut marks: Vec<_> = Verdict::ALL.into_iter().map(mark).collect();
        marks.sort_unstable();
        marks.dedup();
        assert_eq!(marks.len(), Verdict::ALL.len());
    }

    #[test]
    fn a_long_note_is_cut() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(
            shortened(&"ä".repeat(600)).chars().count(),
            MAX_NOTE_CHARACTERS + 1
        );
    }

    #[test]
    fn whole_scores_are_whole_numbers_in_json() {
        let mut row = SubmissionRow::new("a.py".into(), &SubmissionRun::Refused("x".into()));
        row.score = Some(3.0);
        row.max_score = Some(4.5);
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(
            (json["score"].to_string(), json["max_score"].to_string()),
            ("3".into(), "4.5".into())
        );
        assert!(json.get("expected").is_none() && json["task"].is_null());
    }

    #[test]
    fn a_refused_submission_is_a_row() {
        let row = SubmissionRow::new("a.py".into(), &SubmissionRun::Refused("no executor".into()));
        assert_eq!(
            (row.verdict.as_str(), row.notes.as_slice()),
            ("refused", &["no executor".to_string()][..])
        );
        assert!(!row.is_judged() && row.judged().is_none());
        assert_eq!(row.why_without_times().unwrap(), "no executor");
    }

    #[test]
    fn times_are_known_if_every_case_was_judged() {
        let check = |verdict: Verdict, cases: &[(Verdict, Option<f64>)], expected: Option<&str>| {
            let mut row = SubmissionRow::new("a.py".into(), &SubmissionRun::Refused(String::new()));
            row.notes.clear();
            row.verdict = verdict.to_string();
            let case = |(verdict, time_seconds): &(Verdict, Option<f64>)| CaseRow {
                name: "1".into(),
                verdict: *verdict,
                points: 0.0,
                time_seconds: *time_seconds,
                memory_bytes: None,
                message: String::new(),
                judge_message: String::new(),
            };
            row.cases = cases.iter().map(case).collect();
            assert_eq!(
                row.why_without_times().as_deref(),
                expected,
                "{verdict} {cases:?}"
            );
        };
        let accepted = (Verdict::Accepted, Some(0.1));
        check(Verdict::Accepted, &[accepted], None);
        check(
            Verdict::TimeLimit,
            &[accepted, (Verdict::TimeLimit, Some(1.0))],
            None,
        );
        check(
            Verdict::CompileError,
            &[(Verdict::Skipped, None)],
            Some("its verdict is compile_error"),
        );
        check(
            Verdict::JudgeError,
            &[(Verdict::JudgeError, Some(0.1)), accepted],
            Some("its verdict is judge_error"),
        );
        check(
            Verdict::WrongAnswer,
            &[
                (Verdict::WrongAnswer, Some(0.1)),
                (Verdict::JudgeError, Some(0.1)),
            ],
            Some("its verdict is wrong_answer"),
        );
    }
}
