//! Aligned columns with a line of headings.

use std::fmt;

/// The last column is not padded, so long commands do not fill the screen with blanks.
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
    has_headings: bool,
}

impl Table {
    pub(crate) fn new(headings: impl Into<Vec<&'static str>>) -> Table {
        Table {
            headings: headings.into(),
            rows: Vec::new(),
            right: Vec::new(),
            has_headings: true,
        }
    }

    /// For what goes on below a table with the same headings.
    pub(crate) fn without_headings(mut self) -> Table {
        self.has_headings = false;
        self
    }

    /// Numbers read better when their last digits stand below each other.
    pub(crate) fn right(mut self, columns: impl Into<Vec<usize>>) -> Table {
        self.right = columns.into();
        self
    }

    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows
            .push(cells.into().iter().map(|cell| on_one_line(cell)).collect());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(self.headings.get(column).map_or(0, |heading| heading.len()))
    }
}

impl fmt::Display for Table {
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
                if self.right.contains(&column) {
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

/// What users wrote must not break the table or steer the terminal.
pub(super) fn on_one_line(cell: &str) -> String {
    cell.chars()
        .map(|letter| match letter {
            '\n' | '\r' | '\t' => ' ',
            letter if letter.is_control() => '\u{fffd}',
            letter => letter,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["NAME", "N", "COMMAND"]).right([1]);
        table.row(["a".into(), "1".into(), "echo\nhi".into()]);
        table.row(["länger".into(), "12345".into(), "\u{1b}[31mred".into()]);
        assert_eq!(
            table.to_string(),
            "NAME        N  COMMAND\n\
             a           1  echo hi\n\
             länger  12345  \u{fffd}[31mred\n"
        );
    }

    #[test]
    fn an_empty_table_is_its_headings() {
        assert_eq!(Table::new(["A", "B"]).to_string(), "A  B\n");
    }
}
