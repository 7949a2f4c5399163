//! Shows the beginning of a file: as an image, a table, text, or bytes.

use maud::{Markup, html};

use crate::pages::components::attribute_text;
use crate::pages::format;
use crate::pages::output_view::text_view;

/// The id of the element with the text of a file.
pub(super) const TEXT_ID: &str = "file-text";

/// How many rows and columns of a table are shown, and how much of a cell.
const MAX_ROWS: usize = 200;
const MAX_COLUMNS: usize = 30;
const MAX_CELL_CHARACTERS: usize = 200;
/// How many bytes of a binary file are shown.
const MAX_HEX_BYTES: usize = 512;

/// The beginning of a file, and what is known about the whole.
pub(super) struct FileHead<'f> {
    pub(super) name: &'f str,
    pub(super) bytes: &'f [u8],
    /// `None` if it is not known. Then the file may be longer than `bytes`.
    pub(super) size: Option<u64>,
    /// Where a browser gets the whole file as an image.
    pub(super) image_url: Option<String>,
}

/// How a file is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Image(ImageType),
    Table(char),
    Text,
    Binary,
}

/// An image format that every browser shows and that cannot contain scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageType {
    Png,
    Jpeg,
    Gif,
    Webp,
}

impl ImageType {
    /// By the ending of the file's name.
    pub(super) fn of_name(name: &str) -> Option<ImageType> {
        let (_, ending) = name.rsplit_once('.')?;
        match ending.to_ascii_lowercase().as_str() {
            "png" => Some(ImageType::Png),
            "jpg" | "jpeg" => Some(ImageType::Jpeg),
            "gif" => Some(ImageType::Gif),
            "webp" => Some(ImageType::Webp),
            _ => None,
        }
    }

    /// By the first bytes of the file.
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<ImageType> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(ImageType::Png),
            [0xff, 0xd8, 0xff, ..] => Some(ImageType::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(ImageType::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(ImageType::Webp),
            _ => None,
        }
    }

    pub(super) fn media_type(self) -> &'static str {
        match self {
            ImageType::Png => "image/png",
            ImageType::Jpeg => "image/jpeg",
            ImageType::Gif => "image/gif",
            ImageType::Webp => "image/webp",
        }
    }
}

impl FileKind {
    pub(super) fn of(name: &str, bytes: &[u8]) -> FileKind {
        if let Some(image) = ImageType::of_bytes(bytes) {
            return FileKind::Image(image);
        }
        // A character may be cut where the head ends.
        let whole = &bytes[..bytes.len() - api::cut_character(bytes)];
        if std::str::from_utf8(whole).is_err() || whole.contains(&0) {
            return FileKind::Binary;
        }
        let ending = name
            .rsplit_once('.')
            .map(|(_, ending)| ending.to_ascii_lowercase());
        match ending.as_deref() {
            Some("csv") => FileKind::Table(','),
            Some("tsv") => FileKind::Table('\t'),
            _ => FileKind::Text,
        }
    }
}

/// The file as `kind`.
pub(super) fn preview(file: &FileHead<'_>, kind: FileKind) -> Markup {
    let shown = file.bytes.len() as u64;
    let is_whole = file.size == Some(shown);
    html! {
        @match kind {
            FileKind::Image(_) => @match &file.image_url {
                Some(url) => p { img class="preview" src=(url) alt=(attribute_text(file.name)); },
                None => (hex(file.bytes)),
            },
            FileKind::Table(separator) => (table(file, separator, is_whole)),
            FileKind::Text => (text_view(TEXT_ID, "Text of the file", file.bytes)),
            FileKind::Binary => (hex(file.bytes)),
        }
    }
}

fn table(file: &FileHead<'_>, separator: char, is_whole: bool) -> Markup {
    let text = String::from_utf8_lossy(&file.bytes[..file.bytes.len() - api::cut_character(file.bytes)]);
    let mut rows = read_rows(&text, separator, MAX_ROWS + 2);
    let is_long = rows.len() > MAX_ROWS + 1 || !is_whole;
    // The last row of a file that is read in part may be cut.
    if !is_whole && rows.len() > 1 {
        rows.pop();
    }
    rows.truncate(MAX_ROWS + 1);
    let is_wide = rows.iter().any(|row| row.len() > MAX_COLUMNS);
    let (header, body) = match rows.split_first() {
        Some((header, body)) => (header.as_slice(), body),
        None => (&[][..], &[][..]),
    };
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Table of the file" {
            table {
                thead { tr { @for cell in header.iter().take(MAX_COLUMNS) { th scope="col" { (cell_text(cell)) } } } }
                tbody {
                    @for row in body {
                        tr { @for cell in row.iter().take(MAX_COLUMNS) { td { (cell_text(cell)) } } }
                    }
                }
            }
        }
        p class="dim" {
            (body.len()) " " (format::plural(body.len() as u64, "row"))
            @if is_long { ", there are more" }
            @if is_wide { "; only the first " (MAX_COLUMNS) " columns are shown" }
            "."
        }
    }
}

fn cell_text(cell: &str) -> Markup {
    let shown = match cell.char_indices().nth(MAX_CELL_CHARACTERS) {
        Some((end, _)) => format!("{}…", &cell[..end]),
        None => cell.to_string(),
    };
    html! { (crate::pages::components::UserText(&shown)) }
}

/// The rows of a table in CSV (RFC 4180), at most this many. Anything is a table: a quote that does not end runs to the end.
fn read_rows(text: &str, separator: char, most: usize) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (vec![], vec![], String::new());
    let (mut in_quotes, mut characters) = (false, text.chars().peekable());
    while let Some(c) = characters.next() {
        match c {
            '"' if in_quotes && characters.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' if in_quotes => in_quotes = false,
            '"' if cell.is_empty() => in_quotes = true,
            c if in_quotes => cell.push(c),
            c if c == separator => row.push(std::mem::take(&mut cell)),
            '\r' if characters.peek() == Some(&'\n') => {}
            '\n' => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
                if rows.len() == most {
                    return rows;
                }
            }
            c => cell.push(c),
        }
    }
    if !cell.is_empty() || !row.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    rows
}

/// The first bytes as numbers and as text.
fn hex(bytes: &[u8]) -> Markup {
    let lines: Vec<_> = bytes[..bytes.len().min(MAX_HEX_BYTES)]
        .chunks(16)
        .enumerate()
        .map(|(number, line)| {
            let numbers: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            let plain = |byte: &u8| match byte {
                b' '..=b'~' => char::from(*byte),
                _ => '.',
            };
            let text: String = line.iter().map(plain).collect();
            format!("{:08x}  {:<47}  {text}", number * 16, numbers.join(" "))
        })
        .collect();
    html! {
        p { "The file is binary. Its beginning:" }
        pre class="hex" tabindex="0" role="region" aria-label="The first bytes of the file" { (lines.join("\n")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_file_follows_from_its_bytes_and_its_name() {
        let check = |name: &str, bytes: &[u8], expected: FileKind| {
            assert_eq!(FileKind::of(name, bytes), expected, "{name}");
        };
        check("a.txt", b"\x89PNG\r\n\x1a\n..", FileKind::Image(ImageType::Png));
        check("a", b"\xff\xd8\xff\xe0", FileKind::Image(ImageType::Jpeg));
        check("a", b"GIF89a..", FileKind::Image(ImageType::Gif));
        check("a", b"RIFF1234WEBPVP8 ", FileKind::Image(ImageType::Webp));
        // The browser would not show it, or would run it.
        check(
            "a.png",
            b"<svg xmlns='http://www.w3.org/2000/svg'>",
            FileKind::Text,
        );
        check("a.svg", b"<svg>", FileKind::Text);
        check("a.CSV", b"a,b", FileKind::Table(','));
        check("a.tsv", b"a\tb", FileKind::Table('\t'));
        check("a.csv", b"a\0b", FileKind::Binary);
        check("a.txt", b"caf\xc3", FileKind::Text);
        check("a.txt", b"\xff\xfe", FileKind::Binary);
        check("empty", b"", FileKind::Text);
    }

    #[test]
    fn rows_are_read_with_quotes() {
        let check =
            |text: &str, expected: &[&[&str]]| assert_eq!(read_rows(text, ',', 100), expected, "{text}");
        check("", &[]);
        check("a,b\r\n1,2\n", &[&["a", "b"], &["1", "2"]]);
        check("\"a,\"\"b\"\"\",\"c\nd\"", &[&["a,\"b\"", "c\nd"]]);
        check("a,\n\n,b", &[&["a", ""], &[""], &["", "b"]]);
        check("\"no end,\n1", &[&["no end,\n1"]]);
        assert_eq!(read_rows(&"x\n".repeat(9), ',', 3).len(), 3);
    }

    fn head<'f>(name: &'f str, bytes: &'f [u8], size: u64) -> FileHead<'f> {
        FileHead {
            name,
            bytes,
            size: Some(size),
            image_url: Some("/image".into()),
        }
    }

    #[test]
    fn tables_are_bounded() {
        let shown = |text: &str, size: u64| {
            preview(&head("a.csv", text.as_bytes(), size), FileKind::Table(',')).into_string()
        };
        let short = shown("name,value\n<b>,2\n", 17);
        assert!(
            short.contains("<th scope=\"col\"><bdi>name</bdi></th>"),
            "{short}"
        );
        assert!(
            short.contains("<td><bdi>&lt;b&gt;</bdi></td>") && short.contains("1 row."),
            "{short}"
        );
        let long = format!("a\n{}", "1\n".repeat(500));
        let long = shown(&long, long.len() as u64);
        assert_eq!(long.matches("<td>").count(), MAX_ROWS);
        assert!(long.contains("200 rows, there are more"), "{long}");
        let wide = vec!["x"; 100].join(",");
        let wide = shown(&wide, wide.len() as u64);
        assert_eq!(wide.matches("<th ").count(), MAX_COLUMNS);
        let cell = "y".repeat(10_000);
        assert!(shown(&cell, 10_000).len() < 2000);
        // The last row of a part is cut.
        let part = shown("a\n1\n2", 100);
        assert!(
            part.contains("<bdi>1</bdi>") && !part.contains("<bdi>2</bdi>"),
            "{part}"
        );
    }

    #[test]
    fn binary_files_are_shown_as_bytes() {
        let shown = preview(&head("a", b"\x7fELF\0<b>", 8), FileKind::Binary).into_string();
        assert!(shown.contains("00000000  7f 45 4c 46 00 3c 62 3e"), "{shown}");
        assert!(shown.contains(".ELF.&lt;b&gt;"), "{shown}");
        let image = preview(&head("a \"b", b"GIF89a", 6), FileKind::Image(ImageType::Gif)).into_string();
        assert!(
            image.contains("<img class=\"preview\" src=\"/image\" alt=\"a &quot;b\">"),
            "{image}"
        );
    }
}
