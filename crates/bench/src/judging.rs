//! What judging costs: compiling and running directly, bare spawns, and runs of the sandbox without a server.

mod checker;
mod many_cases;
mod submissions;

use std::path::Path;

use anyhow::Result;
use sandbox::SandboxOptions;
use serde::Serialize;

use crate::baseline;
use crate::report::{FigureTable, Figures, ReleaseTarget, millis};
use crate::{BenchSizes, progress};

use checker::CheckerReuse;
use many_cases::CaseTimes;
use submissions::SubmissionTimes;

/// What `conclave bench --judge` measures.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct JudgeFigures {
    /// Whether bare spawns were equally fast before and after. If not, the machine had other load and the figures mean little.
    pub(crate) steady: bool,
    pub(crate) submissions: SubmissionTimes,
    pub(crate) cases: CaseTimes,
    pub(crate) spawn_p50_seconds: f64,
    pub(crate) checker: CheckerReuse,
}

const MAX_SUBMISSIONS_RATIO: f64 = 1.3;
const MAX_CASE_SECONDS_OVER_SPAWN: f64 = 0.000_6;
const MAX_RATIO_TO_SANDBOX: f64 = 1.5;
const MAX_CHECKER_COMPILES: u64 = 1;

pub(crate) async fn measure(
    sizes: &BenchSizes,
    sandbox: &SandboxOptions,
    folder: &Path,
) -> Result<JudgeFigures> {
    progress("measuring bare spawns");
    let before = baseline::measure(sizes.spawn_time)?;
    let cases = many_cases::measure(sizes, sandbox, &folder.join("cases")).await?;
    let checker = checker::measure(sizes.checked_tasks, &folder.join("checker")).await?;
    let submissions = submissions::measure(sizes, &folder.join("submissions")).await?;
    progress("measuring bare spawns again");
    let after = baseline::measure(sizes.spawn_time)?;
    let steady = before.agrees_with(&after);
    if !steady {
        progress("bare spawns were not equally fast before and after: the machine has other load");
    }
    Ok(JudgeFigures {
        steady,
        submissions,
        cases,
        spawn_p50_seconds: before.faster_of(after).p50_seconds,
        checker,
    })
}

impl JudgeFigures {
    fn case_over_spawn(&self) -> f64 {
        self.cases.one_case_seconds() - self.spawn_p50_seconds
    }
}

impl Figures for JudgeFigures {
    fn ratio(&self) -> Option<f64> {
        Some(self.submissions.cpu_ratio())
    }

    fn table(&self) -> FigureTable {
        let mut table = FigureTable::of_figures();
        let steady = if self.steady { "yes" } else { "NO" };
        let seconds = |seconds: f64| (format!("{seconds:.2}"), "s");
        table.add_figure("machine left alone", (steady.to_string(), ""));
        let SubmissionTimes {
            submissions,
            cases,
            direct,
            judged,
            ..
        } = self.submissions;
        let runs = submissions * cases;
        table.add_figure(
            format!("{submissions} compiled, {runs} runs, directly, CPU time"),
            seconds(direct.cpu_seconds),
        );
        table.add_figure("  the same judged", seconds(judged.cpu_seconds));
        table.add_figure("  directly by 2 threads, wall time", seconds(direct.wall_seconds));
        table.add_figure("  judged in 2 slots", seconds(judged.wall_seconds));
        table.add_figure("bare spawn, p50", millis(self.spawn_p50_seconds));
        table.add_figure("one trivial case", millis(self.cases.one_case_seconds()));
        let cases = self.cases.cases;
        table.add_figure(
            format!("{cases} trivial cases of a task"),
            seconds(self.cases.all_seconds),
        );
        table.add_figure(
            format!("{cases} runs in the sandbox alone"),
            seconds(self.cases.sandbox_seconds),
        );
        table.add_figure(
            format!("compile steps of the checker of {} tasks", self.checker.tasks),
            (self.checker.compiles.to_string(), ""),
        );
        table
    }

    fn targets(&self) -> Vec<ReleaseTarget> {
        let at_most = |what, bound: f64, found: f64| {
            ReleaseTarget::new(what, format!("<= {bound}"), format!("{found:.2}"), found <= bound)
        };
        vec![
            at_most(
                "CPU time of judging over compiling and running directly",
                MAX_SUBMISSIONS_RATIO,
                self.submissions.cpu_ratio(),
            ),
            at_most(
                "wall time of judging over compiling and running directly",
                MAX_SUBMISSIONS_RATIO,
                self.submissions.wall_ratio(),
            ),
            ReleaseTarget::new(
                "a trivial case over a bare spawn",
                format!("<= {:.1} ms", MAX_CASE_SECONDS_OVER_SPAWN * 1e3),
                format!("{:.2} ms", self.case_over_spawn() * 1e3),
                self.case_over_spawn() <= MAX_CASE_SECONDS_OVER_SPAWN,
            ),
            at_most(
                "many cases of a task over runs in the sandbox alone",
                MAX_RATIO_TO_SANDBOX,
                self.cases.all_seconds / self.cases.sandbox_seconds,
            ),
            ReleaseTarget::new(
                "compile steps of one checker",
                MAX_CHECKER_COMPILES.to_string(),
                self.checker.compiles.to_string(),
                self.checker.compiles == MAX_CHECKER_COMPILES,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::submissions::WorkTimes;
    use super::*;

    fn figures() -> JudgeFigures {
        let work = |seconds| WorkTimes {
            cpu_seconds: seconds,
            wall_seconds: seconds,
        };
        JudgeFigures {
            steady: true,
            submissions: SubmissionTimes {
                submissions: 30,
                cases: 8,
                rounds: 1,
                direct: work(10.0),
                judged: work(13.0),
            },
            cases: CaseTimes {
                cases: 1001,
                first_seconds: 0.5,
                all_seconds: 1.5,
                sandbox_seconds: 1.0,
            },
            spawn_p50_seconds: 0.000_5,
            checker: CheckerReuse {
                tasks: 100,
                compiles: 1,
            },
        }
    }

    #[test]
    fn targets_are_met_at_their_bound_and_missed_beyond_it() {
        assert!(figures().targets().iter().all(|target| target.met));
        let check = |spoil: fn(&mut JudgeFigures)| {
            let mut figures = figures();
            spoil(&mut figures);
            let missed = figures.targets().iter().filter(|target| !target.met).count();
            assert_eq!(missed, 1, "{figures:?}");
        };
        check(|figures| figures.submissions.judged.cpu_seconds = 13.1);
        check(|figures| figures.submissions.judged.wall_seconds = 13.1);
        check(|figures| figures.spawn_p50_seconds = 0.000_39);
        check(|figures| figures.cases.sandbox_seconds = 0.99);
        check(|figures| figures.checker.compiles = 2);
        check(|figures| figures.checker.compiles = 0);
    }
}
