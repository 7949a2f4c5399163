//! Characters with which a text could look like another one.

/// Whether a character is invisible or changes the direction of text. Pages and tables show another sign in its place.
pub fn is_hidden_character(character: char) -> bool {
    let is_control = character.is_control() && !matches!(character, '\n' | '\t');
    let is_format = matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    is_control || is_format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_cannot_be_seen_are_hidden() {
        let check = |characters: &str, expected: bool| {
            for character in characters.chars() {
                assert_eq!(is_hidden_character(character), expected, "{character:?}");
            }
        };
        check("\0\u{1b}\r\u{7f}\u{9b}", true);
        check("\u{202e}\u{2066}\u{200f}\u{200b}\u{feff}\u{ad}\u{e0041}", true);
        check("a ü\n\tש\u{1f600}\u{301}", false);
    }
}
