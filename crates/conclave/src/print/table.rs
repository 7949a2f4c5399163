//! A table with aligned columns.

use std::fmt;

use api::is_hidden_character;

/// A table of text with headings and aligned columns, which commands of `conclave` print to the terminal.
///
/// Trailing spaces are removed, so that a long last column does not pad every line.
pub(crate) struct TextTable {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    right_aligned: Vec<usize>,
    has_headings: bool,
}

impl TextTable {
    pub(crate) fn new(headings: impl Into<Vec<&'static str>>) -> TextTable {
        TextTable {
            headings: headings.into(),
            rows: Vec::new(),
            right_aligned: Vec::new(),
            has_headings: true,
        }
    }

    /// For the next page of a table whose headings are already printed.
    pub(crate) fn without_headings(mut self) -> TextTable {
        self.has_headings = false;
        self
    }

    /// Aligns these columns to the right, as is usual for numbers.
    pub(crate) fn right_align(mut self, columns: impl Into<Vec<usize>>) -> TextTable {
        self.right_aligned = columns.into();
        self
    }

    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows
            .push(cells.into().iter().map(|cell| sanitize_cell(cell)).collect());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(self.headings.get(column).map_or(0, |heading| heading.len()))
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<_> = (0..self.headings.len())
            .map(|column| self.width(column))
            .collect();
        let headings: Vec<_> = self.headings.iter().map(ToString::to_string).collect();
        let headings = self.has_headings.then_some(&headings);
        for row in headings.into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                if column > 0 {
                    line.push_str("  ");
                }
                let width = widths.get(column).copied().unwrap_or(0);
                if self.right_aligned.contains(&column) {
                    line.push_str(&format!("{cell:>width$}"));
                } else {
                    line.push_str(&format!("{cell:<width$}"));
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Replaces control characters and those that are invisible or change the direction of text, so that text of users can neither
/// break the table nor look like another text, nor send escape sequences to the terminal.
pub(super) fn sanitize_cell(cell: &str) -> String {
    cell.chars()
        .map(|letter| match letter {
            '\n' | '\r' | '\t' => ' ',
            letter if is_hidden_character(letter) => '\u{fffd}',
            letter => letter,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = TextTable::new(["NAME", "N", "COMMAND"]).right_align([1]);
        table.row(["a".into(), "1".into(), "echo\nhi".into()]);
        table.row(["länger".into(), "12345".into(), "\u{1b}[31mred\u{202e}".into()]);
        assert_eq!(
            table.to_string(),
            "NAME        N  COMMAND\n\
             a           1  echo hi\n\
             länger  12345  \u{fffd}[31mred\u{fffd}\n"
        );
    }

    #[test]
    fn an_empty_table_prints_its_headings() {
        assert_eq!(TextTable::new(["A", "B"]).to_string(), "A  B\n");
    }
}
