//! The figures of a measurement as a table for people, as JSON, and against the targets of a release.

use anyhow::Result;
use serde::Serialize;

/// The figures that one kind of benchmark measurement produces, as a table and against the targets of a release.
pub(crate) trait Figures: Serialize {
    fn table(&self) -> FigureTable;

    fn targets(&self) -> Vec<ReleaseTarget>;

    /// The main figure over its baseline, where the JSON has one.
    fn ratio(&self) -> Option<f64> {
        None
    }
}

/// The result of one run of `conclave bench`, ready to be printed as tables or JSON.
#[derive(Clone, Debug)]
pub struct BenchReport {
    /// One JSON object, with figures and targets.
    pub json: String,
    pub measured: FigureTable,
    pub targets: FigureTable,
}

/// A table of figures as text, which `conclave bench` prints.
#[derive(Clone, Debug)]
pub struct FigureTable {
    pub headings: Vec<&'static str>,
    /// Indexes of the columns that are aligned to the right.
    pub right_aligned: Vec<usize>,
    pub rows: Vec<Vec<String>>,
}

/// A benchmark figure that a release has to reach, with the measured value.
#[derive(Clone, Debug, Serialize)]
pub struct ReleaseTarget {
    pub what: &'static str,
    pub wanted: String,
    pub found: String,
    pub met: bool,
}

/// The JSON form of a benchmark report: figures, ratio to the baseline, and targets.
#[derive(Serialize)]
struct ReportJson<'a, F: Serialize> {
    #[serde(flatten)]
    figures: &'a F,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    targets: &'a [ReleaseTarget],
}

impl BenchReport {
    pub(crate) fn of(figures: &impl Figures) -> Result<BenchReport> {
        let targets = figures.targets();
        let json = serde_json::to_string(&ReportJson {
            figures,
            ratio: figures.ratio(),
            targets: &targets,
        })?;
        Ok(BenchReport {
            json,
            measured: figures.table(),
            targets: target_table(targets),
        })
    }
}

impl ReleaseTarget {
    pub(crate) fn new(what: &'static str, wanted: String, found: String, met: bool) -> ReleaseTarget {
        ReleaseTarget {
            what,
            wanted,
            found,
            met,
        }
    }
}

impl FigureTable {
    /// A table with one figure and its unit in each row.
    pub(crate) fn of_figures() -> FigureTable {
        FigureTable {
            headings: vec!["MEASURED", "FIGURE", "UNIT"],
            right_aligned: vec![1],
            rows: Vec::new(),
        }
    }

    pub(crate) fn add_figure(&mut self, what: impl Into<String>, (figure, unit): (String, &str)) {
        self.rows.push(vec![what.into(), figure, unit.to_string()]);
    }
}

fn target_table(targets: Vec<ReleaseTarget>) -> FigureTable {
    let row = |target: ReleaseTarget| {
        // In capitals, so that a missed target is easy to see.
        let met = if target.met { "yes" } else { "NO" };
        vec![
            target.what.to_string(),
            target.wanted,
            target.found,
            met.to_string(),
        ]
    };
    FigureTable {
        headings: vec!["TARGET", "WANTED", "FOUND", "MET"],
        right_aligned: Vec::new(),
        rows: targets.into_iter().map(row).collect(),
    }
}

pub(crate) fn rate(per_second: f64) -> (String, &'static str) {
    (format!("{per_second:.0}"), "/s")
}

pub(crate) fn millis(seconds: f64) -> (String, &'static str) {
    (format!("{:.2}", seconds * 1e3), "ms")
}

pub(crate) fn kibibytes(bytes: u64) -> (String, &'static str) {
    ((bytes >> 10).to_string(), "KiB")
}

pub(crate) fn mebibytes(bytes: u64) -> (String, &'static str) {
    ((bytes >> 20).to_string(), "MiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A benchmark measurement for the tests of the report, with one figure, which misses its target.
    #[derive(Serialize)]
    struct FakeFigures {
        per_second: f64,
        #[serde(skip)]
        ratio: Option<f64>,
    }

    impl Figures for FakeFigures {
        fn table(&self) -> FigureTable {
            let mut table = FigureTable::of_figures();
            table.add_figure("tasks", rate(self.per_second));
            table
        }

        fn targets(&self) -> Vec<ReleaseTarget> {
            vec![ReleaseTarget::new(
                "speed",
                ">= 9".to_string(),
                "7".to_string(),
                false,
            )]
        }

        fn ratio(&self) -> Option<f64> {
            self.ratio
        }
    }

    #[test]
    fn a_report_has_figures_then_the_ratio_if_there_is_one_then_targets() {
        let check = |ratio: Option<f64>, expected: &str| {
            let report = BenchReport::of(&FakeFigures {
                per_second: 7.0,
                ratio,
            })
            .unwrap();
            assert_eq!(report.json, expected);
            assert_eq!(report.measured.rows, [["tasks", "7", "/s"]]);
            assert_eq!(report.targets.rows, [["speed", ">= 9", "7", "NO"]]);
        };
        let targets = r#""targets":[{"what":"speed","wanted":">= 9","found":"7","met":false}]"#;
        check(None, &format!(r#"{{"per_second":7.0,{targets}}}"#));
        check(
            Some(0.5),
            &format!(r#"{{"per_second":7.0,"ratio":0.5,{targets}}}"#),
        );
    }
}
