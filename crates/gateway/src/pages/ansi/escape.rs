//! Recognises escape sequences (ECMA-48), character by character.

use super::colour::{nearest, nearest_to_indexed};

/// A longer sequence is none: its characters are shown.
const MAX_CONTROL_SEQUENCE: usize = 256;
/// The same for the title of a window, a link and the like.
const MAX_CONTROL_STRING: usize = 4096;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';

/// Where in an escape sequence a character is.
#[derive(Debug, Default)]
pub(super) struct EscapeParser {
    place: Place,
    /// The characters after the escape character.
    sequence: String,
}

/// The part of an escape sequence to which the next character belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Text,
    /// After the escape character.
    Escape,
    /// After `ESC` and an intermediate character, like `(` in the choice of a character set.
    Intermediate,
    /// After `ESC [`.
    ControlSequence,
    /// In a text for the terminal, which BEL or `ESC \` ends.
    ControlString,
    /// After an escape character in such a text.
    ControlStringEscape,
}

/// What a character of a task's output does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EscapeStep {
    Text(char),
    /// It belongs to a sequence that does nothing here, or has not ended.
    Within,
    Style(Vec<StyleChange>),
    EraseToEnd,
    EraseLine,
    /// What came before was no sequence and is text. The character after it has not been handled yet.
    NoSequence(String, Option<char>),
}

/// A change of the style of a task's output. Colours are numbers from 0 to 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StyleChange {
    Reset,
    Foreground(Option<u8>),
    Background(Option<u8>),
    Bold(bool),
    Dim(bool),
    Italic(bool),
    Underline(bool),
    Inverse(bool),
}

impl EscapeParser {
    pub(super) fn next(&mut self, c: char) -> EscapeStep {
        match (self.place, c) {
            (Place::Text, ESCAPE) => self.enter(Place::Escape),
            (Place::Text, c) => EscapeStep::Text(c),
            (Place::Escape, '[') => self.keep(Place::ControlSequence, c),
            (Place::Escape, ']' | 'P' | 'X' | '^' | '_') => self.keep(Place::ControlString, c),
            (Place::Escape | Place::Intermediate, ' '..='/') if self.has_room() => {
                self.keep(Place::Intermediate, c)
            }
            (Place::Escape | Place::Intermediate, '0'..='~') => self.enter(Place::Text),
            (Place::ControlSequence, ' '..='?') if self.has_room() => self.keep(Place::ControlSequence, c),
            (Place::ControlSequence, '@'..='~') => self.end_control_sequence(c),
            (Place::ControlString, ESCAPE) => self.keep(Place::ControlStringEscape, c),
            (Place::ControlStringEscape, '\\') | (Place::ControlString, BELL) => self.enter(Place::Text),
            // A program may write any bytes. Without an end the rest of its output would not be shown.
            (Place::ControlString, c) if c != '\n' && self.has_room() => self.keep(Place::ControlString, c),
            _ => EscapeStep::NoSequence(self.take_unfinished().unwrap_or_default(), Some(c)),
        }
    }

    /// The text of a sequence that has not ended.
    pub(super) fn take_unfinished(&mut self) -> Option<String> {
        if self.place == Place::Text {
            return None;
        }
        self.place = Place::Text;
        Some(format!("{ESCAPE}{}", std::mem::take(&mut self.sequence)))
    }

    fn has_room(&self) -> bool {
        let most = match self.place {
            Place::ControlString => MAX_CONTROL_STRING,
            _ => MAX_CONTROL_SEQUENCE,
        };
        self.sequence.len() < most
    }

    fn enter(&mut self, place: Place) -> EscapeStep {
        self.place = place;
        self.sequence.clear();
        EscapeStep::Within
    }

    fn keep(&mut self, place: Place, c: char) -> EscapeStep {
        self.place = place;
        self.sequence.push(c);
        EscapeStep::Within
    }

    fn end_control_sequence(&mut self, last: char) -> EscapeStep {
        let sequence = std::mem::take(&mut self.sequence);
        self.place = Place::Text;
        let parameters = sequence.strip_prefix('[').unwrap_or(&sequence);
        match (last, parameters) {
            ('m', parameters)
                if parameters
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':')) =>
            {
                EscapeStep::Style(style_changes(parameters))
            }
            ('K', "" | "0") => EscapeStep::EraseToEnd,
            ('K', "2") => EscapeStep::EraseLine,
            _ => EscapeStep::Within,
        }
    }
}

/// The changes of a sequence that selects a style (SGR).
fn style_changes(parameters: &str) -> Vec<StyleChange> {
    let mut changes = vec![];
    let mut parameters = parameters.split(';');
    while let Some(parameter) = parameters.next() {
        // A parameter may have parts of its own, like 38:5:196.
        let (code, parts) = match parameter.split_once(':') {
            Some((code, parts)) => (code, Some(parts)),
            None => (parameter, None),
        };
        let code = if code.is_empty() {
            0
        } else {
            code.parse().unwrap_or(u32::MAX)
        };
        let change = match code {
            0 => StyleChange::Reset,
            1 => StyleChange::Bold(true),
            2 => StyleChange::Dim(true),
            3 => StyleChange::Italic(true),
            4 => StyleChange::Underline(parts != Some("0")),
            7 => StyleChange::Inverse(true),
            21 => StyleChange::Underline(true),
            22 => {
                changes.push(StyleChange::Bold(false));
                StyleChange::Dim(false)
            }
            23 => StyleChange::Italic(false),
            24 => StyleChange::Underline(false),
            27 => StyleChange::Inverse(false),
            30..=37 => StyleChange::Foreground(basic(code - 30)),
            39 => StyleChange::Foreground(None),
            40..=47 => StyleChange::Background(basic(code - 40)),
            49 => StyleChange::Background(None),
            90..=97 => StyleChange::Foreground(basic(code - 90 + 8)),
            100..=107 => StyleChange::Background(basic(code - 100 + 8)),
            38 | 48 => {
                let colour = match parts {
                    Some(parts) => colour_of_parts(parts),
                    None => colour_of_parameters(&mut parameters),
                };
                match (colour, code) {
                    (None, _) => continue,
                    (colour, 38) => StyleChange::Foreground(colour),
                    (colour, _) => StyleChange::Background(colour),
                }
            }
            _ => continue,
        };
        changes.push(change);
    }
    changes
}

fn basic(number: u32) -> Option<u8> {
    u8::try_from(number).ok()
}

fn component(text: Option<&str>) -> Option<u8> {
    match text? {
        "" => Some(0),
        text => text.parse().ok(),
    }
}

/// The colour after `38;` or `48;`: `5;N` or `2;R;G;B`.
fn colour_of_parameters<'p>(parameters: &mut impl Iterator<Item = &'p str>) -> Option<u8> {
    match parameters.next()? {
        "5" => component(parameters.next()).map(nearest_to_indexed),
        "2" => {
            let [red, green, blue] = [(); 3].map(|()| component(parameters.next()));
            Some(nearest(red?, green?, blue?))
        }
        _ => None,
    }
}

/// The colour after `38:` or `48:`: `5:N`, `2:R:G:B`, or `2:SPACE:R:G:B`.
fn colour_of_parts(parts: &str) -> Option<u8> {
    let parts: Vec<_> = parts.split(':').collect();
    match parts[..] {
        ["5", index, ..] => component(Some(index)).map(nearest_to_indexed),
        ["2", red, green, blue] | ["2", _, red, green, blue, ..] => Some(nearest(
            component(Some(red))?,
            component(Some(green))?,
            component(Some(blue))?,
        )),
        _ => None,
    }
}
