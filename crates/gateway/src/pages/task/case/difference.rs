//! Where an output differs from the expected one, line by line. All work is bounded, whatever a program writes.

use maud::{Markup, html};
use model::{Check, TokenCheck, Tolerance};

use crate::pages::components::UserText;
use crate::pages::format;

/// Later lines are not compared.
const MAX_LINES: usize = 2_000;
/// The most pairs of lines that are compared to find what is equal. With more, lines are compared by their numbers.
const MAX_PAIRS: usize = 250_000;
/// The most lines that are shown, and the equal lines around a difference.
const MAX_SHOWN: usize = 200;
const CONTEXT: usize = 3;
const MAX_CHARACTERS: usize = 400;

/// The comparison of an output with the expected one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineDifference<'t> {
    lines: Vec<ComparedLine<'t>>,
    /// Whether lines after these were not compared.
    is_cut: bool,
    /// Whether the texts differ in their line ends at the very end only.
    only_line_end: bool,
}

/// A line of the comparison, with its numbers in the two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ComparedLine<'t> {
    Both {
        expected: usize,
        got: usize,
        text: &'t str,
    },
    Missing {
        expected: usize,
        text: &'t str,
    },
    Extra {
        got: usize,
        text: &'t str,
    },
}

impl<'t> LineDifference<'t> {
    /// Compares as the check does, as far as it compares lines: what it ignores is no difference.
    pub(super) fn new(expected: &'t str, got: &'t str, check: &Check) -> LineDifference<'t> {
        let (expected_lines, got_lines) = (lines_of(expected), lines_of(got));
        let is_cut = expected_lines.len() > MAX_LINES || got_lines.len() > MAX_LINES;
        let expected_lines = &expected_lines[..expected_lines.len().min(MAX_LINES)];
        let got_lines = &got_lines[..got_lines.len().min(MAX_LINES)];
        let lines = compare(expected_lines, got_lines, &|one, other| {
            is_equal(check, one, other)
        });
        let is_equal = lines.iter().all(ComparedLine::is_equal);
        LineDifference {
            lines,
            is_cut,
            only_line_end: is_equal
                && !is_cut
                && matches!(check, Check::Exact)
                && expected.ends_with('\n') != got.ends_with('\n'),
        }
    }

    pub(super) fn show(&self) -> Markup {
        let shown = self.shown();
        let last = shown.last().copied();
        let mut previous = None;
        let rows = shown.into_iter().map(|index| {
            let skipped = index - previous.map_or(0, |previous: usize| previous + 1);
            previous = Some(index);
            (skipped, &self.lines[index])
        });
        let rows: Vec<_> = rows.collect();
        let rest = last.map_or(0, |last| self.lines.len() - last - 1);
        html! {
            @if self.lines.iter().all(ComparedLine::is_equal) {
                p class="dim" {
                    @if self.only_line_end { "The texts differ in the line end after the last line only." }
                    @else if self.is_cut { "The first " (format::grouped(MAX_LINES as u64)) " lines are equal." }
                    @else { "No line differs." }
                }
            } @else {
                div class="scroll" tabindex="0" role="region" aria-label="Difference" {
                    table class="difference" {
                        thead { tr {
                            th scope="col" { "Expected" } th scope="col" { "Got" } th scope="col" { "Line" }
                        } }
                        tbody {
                            @for (skipped, line) in &rows {
                                @if *skipped > 0 { (gap(*skipped)) }
                                (line.row())
                            }
                            @if rest > 0 { (gap(rest)) }
                        }
                    }
                }
                @if self.is_cut { p class="dim" { "Only the first " (format::grouped(MAX_LINES as u64)) " lines were compared." } }
            }
        }
    }

    /// The lines that differ and some around them, by their indexes.
    fn shown(&self) -> Vec<usize> {
        let mut is_shown = vec![false; self.lines.len()];
        for (index, line) in self.lines.iter().enumerate() {
            if !line.is_equal() {
                let end = (index + CONTEXT + 1).min(self.lines.len());
                is_shown[index.saturating_sub(CONTEXT)..end].fill(true);
            }
        }
        let shown = is_shown.iter().enumerate().filter(|(_, is_shown)| **is_shown);
        shown.map(|(index, _)| index).take(MAX_SHOWN).collect()
    }
}

impl ComparedLine<'_> {
    fn is_equal(&self) -> bool {
        matches!(self, ComparedLine::Both { .. })
    }

    fn row(&self) -> Markup {
        let (class, expected, got, mark, words, text) = match *self {
            ComparedLine::Both { expected, got, text } => ("", Some(expected), Some(got), " ", None, text),
            ComparedLine::Missing { expected, text } => {
                ("missing", Some(expected), None, "−", Some("expected: "), text)
            }
            ComparedLine::Extra { got, text } => ("extra", None, Some(got), "+", Some("got: "), text),
        };
        let (text, is_cut) = match text.char_indices().nth(MAX_CHARACTERS) {
            Some((end, _)) => (&text[..end], true),
            None => (text, false),
        };
        html! {
            tr class=(class) {
                td class="number" { @if let Some(number) = expected { (number) } }
                td class="number" { @if let Some(number) = got { (number) } }
                td {
                    span class="sign" aria-hidden="true" { (mark) }
                    @if let Some(words) = words { span class="visually-hidden" { (words) } }
                    code { (UserText(text)) @if is_cut { span class="dim" { "…" } } }
                }
            }
        }
    }
}

fn gap(lines: usize) -> Markup {
    html! {
        tr class="gap" {
            td colspan="3" { (format::grouped(lines as u64)) " more " (format::plural(lines as u64, "line")) }
        }
    }
}

/// The lines without their ends. What follows the last line end is a line only if it is not empty.
fn lines_of(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.split('\n').take(MAX_LINES + 2).collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    lines
}

fn compare<'t>(
    expected: &[&'t str],
    got: &[&'t str],
    is_equal: &dyn Fn(&str, &str) -> bool,
) -> Vec<ComparedLine<'t>> {
    let shorter = expected.len().min(got.len());
    let same = |(one, other): &(&&str, &&str)| is_equal(one, other);
    let before = expected.iter().zip(got).take_while(same).count();
    let backwards = expected.iter().rev().zip(got.iter().rev());
    let after = backwards.take(shorter - before).take_while(same).count();
    let middle = (before..expected.len() - after, before..got.len() - after);
    let both = |(offset, text): (usize, &&'t str), expected: usize, got: usize| ComparedLine::Both {
        expected: expected + offset + 1,
        got: got + offset + 1,
        text,
    };
    let mut lines: Vec<_> = got[..before]
        .iter()
        .enumerate()
        .map(|line| both(line, 0, 0))
        .collect();
    let pairs = common_lines(&expected[middle.0.clone()], &got[middle.1.clone()], is_equal);
    let (mut at_expected, mut at_got) = (before, before);
    let ends = [(middle.0.len(), middle.1.len())];
    for (next_expected, next_got) in pairs.iter().copied().chain(ends) {
        let missing = at_expected..before + next_expected;
        let extra = at_got..before + next_got;
        // Line by line, so that the beginning of a long difference shows both texts.
        for offset in 0..missing.len().max(extra.len()) {
            if let Some(index) = missing.clone().nth(offset) {
                lines.push(ComparedLine::Missing {
                    expected: index + 1,
                    text: expected[index],
                });
            }
            if let Some(index) = extra.clone().nth(offset) {
                lines.push(ComparedLine::Extra {
                    got: index + 1,
                    text: got[index],
                });
            }
        }
        (at_expected, at_got) = (before + next_expected + 1, before + next_got + 1);
        if let Some(text) = got.get(before + next_got).filter(|_| next_got < middle.1.len()) {
            lines.push(ComparedLine::Both {
                expected: at_expected,
                got: at_got,
                text,
            });
        }
    }
    let tail = got[middle.1.end..].iter().enumerate();
    lines.extend(tail.map(|line| both(line, middle.0.end, middle.1.end)));
    lines
}

/// The indexes of lines that are equal and in the same order in both: a longest common subsequence. In texts with too many
/// lines for that, those that are equal at the same place.
fn common_lines(
    expected: &[&str],
    got: &[&str],
    is_equal: &dyn Fn(&str, &str) -> bool,
) -> Vec<(usize, usize)> {
    let (rows, columns) = (expected.len(), got.len());
    if rows.saturating_mul(columns) > MAX_PAIRS {
        let pairs = expected.iter().zip(got).enumerate();
        let equal = pairs.filter(|(_, (one, other))| is_equal(one, other));
        return equal.map(|(index, _)| (index, index)).collect();
    }
    let width = columns + 1;
    // The length for the rest of the lines from each pair on.
    let mut lengths = vec![0u16; (rows + 1) * width];
    let mut equal = vec![false; rows * columns];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            let is_equal = is_equal(expected[row], got[column]);
            equal[row * columns + column] = is_equal;
            lengths[row * width + column] = match is_equal {
                true => lengths[(row + 1) * width + column + 1] + 1,
                false => lengths[(row + 1) * width + column].max(lengths[row * width + column + 1]),
            };
        }
    }
    let (mut row, mut column, mut pairs) = (0, 0, vec![]);
    while row < rows && column < columns {
        if equal[row * columns + column] {
            pairs.push((row, column));
            (row, column) = (row + 1, column + 1);
        } else if lengths[(row + 1) * width + column] >= lengths[row * width + column + 1] {
            row += 1;
        } else {
            column += 1;
        }
    }
    pairs
}

fn is_equal(check: &Check, one: &str, other: &str) -> bool {
    match check {
        Check::Exact => one == other,
        Check::Tokens(tokens) => has_equal_words(tokens, one, other),
        Check::Lines | Check::None | Check::Program(_) | Check::Interactive(_) => {
            one.trim_end() == other.trim_end()
        }
    }
}

fn has_equal_words(check: &TokenCheck, one: &str, other: &str) -> bool {
    if check.space_sensitive && blanks_of(one).ne(blanks_of(other)) {
        return false;
    }
    let (mut words, mut others) = (one.split_whitespace(), other.split_whitespace());
    loop {
        match (words.next(), others.next()) {
            (None, None) => return true,
            (Some(one), Some(other)) if is_equal_word(check, one, other) => {}
            _ => return false,
        }
    }
}

fn blanks_of(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_whitespace())
        .filter(|blank| !blank.is_empty())
}

fn is_equal_word(check: &TokenCheck, expected: &str, got: &str) -> bool {
    let is_same = match check.case_sensitive {
        true => expected == got,
        false => expected.eq_ignore_ascii_case(got),
    };
    if is_same || (check.absolute_tolerance.is_none() && check.relative_tolerance.is_none()) {
        return is_same;
    }
    let (Ok(expected), Ok(got)) = (expected.parse::<f64>(), got.parse::<f64>()) else {
        return false;
    };
    let error = (expected - got).abs();
    let is_within = |tolerance: Option<Tolerance>, scale: f64| {
        tolerance.is_some_and(|tolerance| error <= tolerance.as_f64() * scale)
    };
    is_within(check.absolute_tolerance, 1.0) || is_within(check.relative_tolerance, expected.abs())
}

#[cfg(test)]
mod tests;
