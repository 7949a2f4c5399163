//! The line that is being written: its characters may be written again until the chunk ends.

use super::TextStyle;

/// The characters of the current line that belong to the current chunk.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    cells: Vec<Cell>,
    /// Where the next character goes.
    cursor: usize,
    /// A part of the line is in an earlier chunk, and cannot be written again.
    continues: bool,
}

/// One character of a line, with its style.
#[derive(Debug)]
struct Cell {
    shown: Shown,
    style: TextStyle,
}

/// How a character of a task's output is shown.
#[derive(Debug)]
enum Shown {
    Char(char),
    /// A control character, as a symbol or a number.
    Control(String),
}

impl LineBuffer {
    pub(super) fn put(&mut self, c: char, style: TextStyle) {
        self.put_cell(Cell {
            shown: Shown::Char(c),
            style,
        });
    }

    pub(super) fn put_control(&mut self, shown: String, style: TextStyle) {
        self.put_cell(Cell {
            shown: Shown::Control(shown),
            style,
        });
    }

    fn put_cell(&mut self, cell: Cell) {
        match self.cells.get_mut(self.cursor) {
            Some(written) => *written = cell,
            None => self.cells.push(cell),
        }
        self.cursor += 1;
    }

    pub(super) fn back(&mut self) {
        self.cursor = self.cursor.saturating_sub(1);
    }

    pub(super) fn erase_to_end(&mut self) {
        self.cells.truncate(self.cursor);
    }

    pub(super) fn erase(&mut self) {
        self.cells.clear();
        self.cursor = 0;
    }

    /// Goes back to the beginning of the line.
    pub(super) fn restart(&mut self, html: &mut String) {
        if self.continues {
            self.end(html);
        }
        self.cursor = 0;
    }

    pub(super) fn end(&mut self, html: &mut String) {
        self.flush(html);
        html.push('\n');
        self.continues = false;
    }

    /// Writes what there is of the line, because the chunk ends.
    pub(super) fn flush(&mut self, html: &mut String) {
        self.continues |= !self.cells.is_empty();
        let mut cells = self.cells.drain(..).peekable();
        while let Some(first) = cells.next() {
            let classes = first.style.classes();
            if !classes.is_empty() {
                html.push_str("<span class=\"");
                html.push_str(&classes);
                html.push_str("\">");
            }
            let style = first.style;
            first.shown.write(html);
            while let Some(next) = cells.next_if(|cell| cell.style == style) {
                next.shown.write(html);
            }
            if !classes.is_empty() {
                html.push_str("</span>");
            }
        }
        drop(cells);
        self.cursor = 0;
    }
}

impl Shown {
    fn write(self, html: &mut String) {
        match self {
            Shown::Char('<') => html.push_str("&lt;"),
            Shown::Char('>') => html.push_str("&gt;"),
            Shown::Char('&') => html.push_str("&amp;"),
            Shown::Char('"') => html.push_str("&quot;"),
            Shown::Char('\'') => html.push_str("&#39;"),
            Shown::Char(c) => html.push(c),
            Shown::Control(shown) => {
                html.push_str("<span class=\"control-character\">");
                html.push_str(&shown);
                html.push_str("</span>");
            }
        }
    }
}
