//! The order of the results of a group, which the links in the headings of the table choose.

use std::borrow::Borrow;
use std::cmp::Ordering;

use maud::{Markup, html};
use model::{GroupKey, InvalidField, Verdict};

use super::submission::Submission;
use crate::pages::format;
use crate::pages::groups::link_beneath;

/// A column of the table of results, besides the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultColumn {
    Task,
    Labels,
    Language,
    Verdict,
    Score,
    Cpu,
    Memory,
    Added,
}

/// By which column the results are sorted, and in which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sorting {
    column: ResultColumn,
    is_descending: bool,
}

impl ResultColumn {
    /// Those on the left of the cases.
    pub(super) const BEFORE_CASES: [ResultColumn; 5] = [
        ResultColumn::Task,
        ResultColumn::Labels,
        ResultColumn::Language,
        ResultColumn::Verdict,
        ResultColumn::Score,
    ];
    pub(super) const AFTER_CASES: [ResultColumn; 3] =
        [ResultColumn::Cpu, ResultColumn::Memory, ResultColumn::Added];

    fn all() -> impl Iterator<Item = ResultColumn> {
        ResultColumn::BEFORE_CASES
            .into_iter()
            .chain(ResultColumn::AFTER_CASES)
    }

    fn as_str(self) -> &'static str {
        match self {
            ResultColumn::Task => "task",
            ResultColumn::Labels => "labels",
            ResultColumn::Language => "language",
            ResultColumn::Verdict => "verdict",
            ResultColumn::Score => "score",
            ResultColumn::Cpu => "cpu",
            ResultColumn::Memory => "memory",
            ResultColumn::Added => "added",
        }
    }

    fn title(self) -> &'static str {
        match self {
            ResultColumn::Task => "Task",
            ResultColumn::Labels => "Labels",
            ResultColumn::Language => "Language",
            ResultColumn::Verdict => "Verdict",
            ResultColumn::Score => "Score",
            ResultColumn::Cpu => "CPU time",
            ResultColumn::Memory => "Memory",
            ResultColumn::Added => "Added",
        }
    }

    fn is_number(self) -> bool {
        matches!(
            self,
            ResultColumn::Score | ResultColumn::Cpu | ResultColumn::Memory
        )
    }

    /// The order in which a reader wants the column first.
    fn begins_descending(self) -> bool {
        self == ResultColumn::Score
    }

    fn compare(self, one: &Submission, other: &Submission) -> Ordering {
        let labels = |submission: &Submission| -> Vec<(String, String)> {
            let labels = submission.summary.labels.iter();
            labels
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect()
        };
        let language =
            |submission: &Submission| submission.summary.language.as_ref().map(ToString::to_string);
        let verdict = |submission: &Submission| {
            let judgement = submission.judgement.as_ref();
            judgement.map_or(usize::MAX, |judged| rank(judged.verdict))
        };
        let score = |submission: &Submission| submission.judgement.as_ref().map(|judged| judged.score);
        let cpu = |submission: &Submission| submission.judgement.as_ref().map(|judged| judged.max_cpu);
        let memory = |submission: &Submission| submission.judgement.as_ref().map(|judged| judged.max_memory);
        match self {
            ResultColumn::Task => one.summary.id.cmp(&other.summary.id),
            ResultColumn::Labels => labels(one).cmp(&labels(other)),
            ResultColumn::Language => language(one).cmp(&language(other)),
            ResultColumn::Verdict => verdict(one).cmp(&verdict(other)),
            ResultColumn::Score => score(one).cmp(&score(other)),
            ResultColumn::Cpu => cpu(one).cmp(&cpu(other)),
            ResultColumn::Memory => memory(one).cmp(&memory(other)),
            ResultColumn::Added => one.summary.add_time.cmp(&other.summary.add_time),
        }
    }
}

/// Accepted first.
fn rank(verdict: Verdict) -> usize {
    let place = Verdict::ALL.iter().position(|known| *known == verdict);
    place.unwrap_or(Verdict::ALL.len())
}

impl Sorting {
    pub(super) fn read(parameters: &[(String, String)]) -> Result<Sorting, InvalidField> {
        let last = |name: &str| {
            let mut values = parameters.iter().rev();
            let found = values.find(|(known, _)| known == name);
            found
                .map(|(_, value)| value.as_str())
                .filter(|value| !value.is_empty())
        };
        let column = match last("sort") {
            None => ResultColumn::Added,
            Some(name) => {
                let found = ResultColumn::all().find(|column| column.as_str() == name);
                found.ok_or_else(|| {
                    let known: Vec<_> = ResultColumn::all().map(ResultColumn::as_str).collect();
                    InvalidField::new("sort", format!("'{name}' is none of {}", known.join(", ")))
                })?
            }
        };
        let is_descending = match last("order") {
            None => column.begins_descending(),
            Some("asc") => false,
            Some("desc") => true,
            Some(other) => {
                return Err(InvalidField::new(
                    "order",
                    format!("'{other}' is neither asc nor desc"),
                ));
            }
        };
        Ok(Sorting {
            column,
            is_descending,
        })
    }

    /// Equal submissions stay in the order in which they are.
    pub(super) fn sort<S: Borrow<Submission>>(self, submissions: &mut [S]) {
        submissions.sort_by(|one, other| {
            let order = self.column.compare(one.borrow(), other.borrow());
            if self.is_descending {
                order.reverse()
            } else {
                order
            }
        });
    }

    /// The address below this folder with the same order.
    pub(super) fn link(self, folder: &str, key: &GroupKey) -> String {
        let order = if self.is_descending { "desc" } else { "asc" };
        let page = link_beneath(folder, key, "/results");
        format!(
            "{page}&sort={}&order={order}",
            format::encode(self.column.as_str())
        )
    }

    /// The heading of a column: a link that sorts by it, in the other direction if it is sorted by already.
    pub(super) fn heading(self, column: ResultColumn, key: &GroupKey) -> Markup {
        let is_current = self.column == column;
        let next = Sorting {
            column,
            is_descending: if is_current {
                !self.is_descending
            } else {
                column.begins_descending()
            },
        };
        let (state, arrow) = match (is_current, self.is_descending) {
            (false, _) => (None, ""),
            (true, false) => (Some("ascending"), " ↑"),
            (true, true) => (Some("descending"), " ↓"),
        };
        html! {
            th scope="col" class=[column.is_number().then_some("number")] aria-sort=[state] {
                a href=(next.link("/groups", key)) { (column.title()) span aria-hidden="true" { (arrow) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Sorting, String> {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        Sorting::read(&pairs).map_err(|invalid| invalid.field)
    }

    #[test]
    fn the_order_is_read_from_the_address() {
        let check = |pairs: &[(&str, &str)], expected: Result<(ResultColumn, bool), &str>| {
            let expected = expected.map(|(column, is_descending)| Sorting {
                column,
                is_descending,
            });
            assert_eq!(read(pairs), expected.map_err(String::from), "{pairs:?}");
        };
        check(&[], Ok((ResultColumn::Added, false)));
        check(&[("sort", "score")], Ok((ResultColumn::Score, true)));
        check(
            &[("sort", "score"), ("order", "asc")],
            Ok((ResultColumn::Score, false)),
        );
        check(
            &[("sort", "cpu"), ("order", "desc")],
            Ok((ResultColumn::Cpu, true)),
        );
        check(&[("sort", "colour")], Err("sort"));
        check(&[("order", "up")], Err("order"));
    }
}
