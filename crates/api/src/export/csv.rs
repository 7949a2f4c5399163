//! CSV as RFC 4180 describes it, safe to open in a spreadsheet.

/// A cell of a CSV file with tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvCell(String);

/// A cell with text that Conclave itself made, such as a number or a status.
pub fn exact(value: impl ToString) -> CsvCell {
    CsvCell(value.to_string())
}

/// An empty cell for a missing value.
pub fn optional(value: Option<impl ToString>) -> CsvCell {
    CsvCell(value.map(|value| value.to_string()).unwrap_or_default())
}

/// A cell with text that a user wrote. A spreadsheet would run text that begins like a formula, and the user who wrote it is
/// not the one who opens the file, so such text begins with an apostrophe.
pub fn user_text(text: &str) -> CsvCell {
    CsvCell(match text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) {
        true => format!("'{text}"),
        false => text.to_string(),
    })
}

/// One row with its line end.
pub fn row(cells: impl IntoIterator<Item = CsvCell>) -> String {
    let mut row = String::new();
    for (index, CsvCell(text)) in cells.into_iter().enumerate() {
        if index > 0 {
            row.push(',');
        }
        match text.contains([',', '"', '\r', '\n']) {
            true => row.extend(["\"", &text.replace('"', "\"\""), "\""]),
            false => row.push_str(&text),
        }
    }
    row.push_str("\r\n");
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_needed() {
        assert_eq!(row([exact("a"), exact(-7), optional(None::<u8>)]), "a,-7,\r\n");
        assert_eq!(
            row([user_text("a,b"), user_text("say \"hi\""), user_text("1\n2")]),
            "\"a,b\",\"say \"\"hi\"\"\",\"1\n2\"\r\n"
        );
    }

    #[test]
    fn text_of_users_is_never_a_formula() {
        for (text, expected) in [
            (
                "=HYPERLINK(\"http://x\")",
                "\"'=HYPERLINK(\"\"http://x\"\")\"\r\n",
            ),
            ("+1", "'+1\r\n"),
            ("-1", "'-1\r\n"),
            ("@SUM(A1)", "'@SUM(A1)\r\n"),
            ("\t=1", "'\t=1\r\n"),
            ("./main -x", "./main -x\r\n"),
        ] {
            assert_eq!(row([user_text(text)]), expected);
        }
    }
}
