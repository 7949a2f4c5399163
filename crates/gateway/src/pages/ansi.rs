//! Converts what a task has written for a terminal into HTML. Everything in it is text, except for colours and type styles.

mod colour;
mod escape;
mod line;

#[cfg(test)]
mod tests;

use self::escape::{EscapeParser, EscapeStep, StyleChange};
use self::line::LineBuffer;

/// Converts the output of a task, in chunks, into HTML. The HTML of each chunk is complete: it can be appended to that of
/// the chunks before. It has no tags but `span`, with classes of `ansi.css`.
///
/// The output sets colours with SGR sequences; other escape sequences are removed. A line that is written again after a
/// carriage return shows its last text. If its first text is in an earlier chunk, the new text is a line of its own. Control
/// characters are shown as symbols or numbers, also those that change the direction of the text. What is not UTF-8 is shown as U+FFFD.
#[derive(Debug, Default)]
pub(crate) struct AnsiConverter {
    /// The beginning of a character whose rest has not come yet.
    cut: Vec<u8>,
    escape: EscapeParser,
    style: TextStyle,
    line: LineBuffer,
    /// The last character was a carriage return. What it does depends on the next one.
    after_return: bool,
}

/// The style of a piece of a task's output. Colours are numbers from 0 to 15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TextStyle {
    foreground: Option<u8>,
    background: Option<u8>,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    inverse: bool,
}

impl AnsiConverter {
    /// The HTML of the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        let mut pending = std::mem::take(&mut self.cut);
        pending.extend_from_slice(bytes);
        let mut html = String::with_capacity(pending.len() + pending.len() / 8);
        let mut rest = &pending[..];
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.on_text(text, &mut html);
                    break;
                }
                Err(error) => {
                    let (text, invalid) = rest.split_at(error.valid_up_to());
                    self.on_text(&String::from_utf8_lossy(text), &mut html);
                    match error.error_len() {
                        Some(length) => {
                            self.on_char(char::REPLACEMENT_CHARACTER, &mut html);
                            rest = &invalid[length..];
                        }
                        None => {
                            self.cut = invalid.to_vec();
                            break;
                        }
                    }
                }
            }
        }
        self.line.flush(&mut html);
        html
    }

    /// The HTML of what was held back, when no more bytes come.
    pub(crate) fn finish(&mut self) -> String {
        let mut html = String::new();
        if !std::mem::take(&mut self.cut).is_empty() {
            self.on_char(char::REPLACEMENT_CHARACTER, &mut html);
        }
        if let Some(unfinished) = self.escape.take_unfinished() {
            self.show(&unfinished, &mut html);
        }
        self.line.flush(&mut html);
        html
    }

    /// The HTML of a whole output.
    pub(crate) fn convert(bytes: &[u8]) -> String {
        let mut converter = AnsiConverter::default();
        let mut html = converter.push(bytes);
        html.push_str(&converter.finish());
        html
    }

    fn on_text(&mut self, text: &str, html: &mut String) {
        text.chars().for_each(|c| self.on_char(c, html));
    }

    fn on_char(&mut self, c: char, html: &mut String) {
        match self.escape.next(c) {
            EscapeStep::Text(c) => self.on_text_char(c, html),
            EscapeStep::Within => {}
            EscapeStep::Style(changes) => changes.into_iter().for_each(|change| self.style.apply(change)),
            EscapeStep::EraseToEnd => {
                self.on_pending_return(html);
                self.line.erase_to_end();
            }
            EscapeStep::EraseLine => {
                self.on_pending_return(html);
                self.line.erase();
            }
            EscapeStep::NoSequence(shown, next) => {
                self.show(&shown, html);
                if let Some(next) = next {
                    self.on_char(next, html);
                }
            }
        }
    }

    fn on_text_char(&mut self, c: char, html: &mut String) {
        match c {
            '\r' => {
                self.on_pending_return(html);
                self.after_return = true;
            }
            '\n' => {
                self.after_return = false;
                self.line.end(html);
            }
            '\u{8}' => {
                self.on_pending_return(html);
                self.line.back();
            }
            '\t' => {
                self.on_pending_return(html);
                self.line.put(c, self.style);
            }
            c => {
                self.on_pending_return(html);
                match shown_control(c) {
                    None => self.line.put(c, self.style),
                    Some(shown) => self.line.put_control(shown, self.style),
                }
            }
        }
    }

    /// A carriage return that no line feed follows.
    fn on_pending_return(&mut self, html: &mut String) {
        if std::mem::take(&mut self.after_return) {
            self.line.restart(html);
        }
    }

    /// Shows an escape sequence that is none.
    fn show(&mut self, text: &str, html: &mut String) {
        text.chars().for_each(|c| self.on_text_char(c, html));
    }
}

/// How a character is shown that is invisible, or changes how others are shown. `None` for all others.
pub(super) fn shown_control(c: char) -> Option<String> {
    match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + c as u32).map(String::from),
        '\u{7f}' => Some("\u{2421}".into()),
        // C1 controls, line separators, and controls of the direction of text.
        '\u{80}'..='\u{9f}'
        | '\u{61c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => Some(format!("U+{:04X}", c as u32)),
        _ => None,
    }
}

impl TextStyle {
    fn apply(&mut self, change: StyleChange) {
        match change {
            StyleChange::Reset => *self = TextStyle::default(),
            StyleChange::Foreground(colour) => self.foreground = colour,
            StyleChange::Background(colour) => self.background = colour,
            StyleChange::Bold(on) => self.bold = on,
            StyleChange::Dim(on) => self.dim = on,
            StyleChange::Italic(on) => self.italic = on,
            StyleChange::Underline(on) => self.underline = on,
            StyleChange::Inverse(on) => self.inverse = on,
        }
    }

    /// The classes of the style; empty for plain text.
    fn classes(self) -> String {
        let (foreground, background) = match self.inverse {
            true => (self.background, self.foreground),
            false => (self.foreground, self.background),
        };
        let mut classes: Vec<String> = vec![];
        classes.extend(foreground.map(|colour| format!("ansi-f{colour}")));
        classes.extend(background.map(|colour| format!("ansi-b{colour}")));
        let flags = [
            (
                self.inverse && foreground.is_none() && background.is_none(),
                "ansi-inverse",
            ),
            (self.bold, "ansi-bold"),
            (self.dim && foreground.is_none() && !self.inverse, "ansi-dim"),
            (self.italic, "ansi-italic"),
            (self.underline, "ansi-underline"),
        ];
        classes.extend(
            flags
                .iter()
                .filter(|(on, _)| *on)
                .map(|(_, name)| name.to_string()),
        );
        classes.join(" ")
    }
}
