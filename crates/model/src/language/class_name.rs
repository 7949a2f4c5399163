//! Finds the class of a Java source file that a task runs.

use std::collections::HashMap;

use crate::BlobHash;

/// What was found in the Java source files of a request that are blobs. Each blob is parsed once, however many tasks use
/// it.
#[derive(Debug, Default)]
pub struct SourceClasses(HashMap<BlobHash, MainClass>);

impl SourceClasses {
    /// Records the class in the content of the blob, if it has one.
    pub fn record(&mut self, blob: BlobHash, source: &[u8]) {
        let class = main_class(&String::from_utf8_lossy(source));
        self.0.extend(class.map(|class| (blob, class)));
    }

    pub(super) fn get(&self, blob: BlobHash) -> Option<&MainClass> {
        self.0.get(&blob)
    }
}

/// The class of a Java source file with the task's `main` method, and where the compiler expects the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MainClass {
    /// With its package: `lab.Main`.
    pub(super) name: String,
    /// The public class, without the package: the compiler expects its file under this name.
    pub(super) file_stem: String,
    pub(super) main: MainMethod,
}

/// Whether a Java class has a `main` method. The greater one is preferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MainMethod {
    #[default]
    None,
    /// Perhaps an ordinary method of that name, perhaps the beginning of a program in a newer version of Java.
    Other,
    /// `static void main(String[])`.
    Static,
}

/// A class, interface, enum or record at the top level of a Java source file.
#[derive(Debug, Default)]
struct TopLevelType {
    name: String,
    is_public: bool,
    main: MainMethod,
}

/// `None` if the text declares no type.
pub(super) fn main_class(source: &str) -> Option<MainClass> {
    let words = words(source);
    let mut package = None;
    let mut types: Vec<TopLevelType> = Vec::new();
    let mut depth = 0_usize;
    let mut is_public = false;
    for (index, word) in words.iter().enumerate() {
        let next = |offset: usize| words.get(index + offset).map_or("", |word| *word);
        match *word {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                is_public = false;
            }
            ";" if depth == 0 => is_public = false,
            "package" if depth == 0 && types.is_empty() && package.is_none() => {
                let names = words[index + 1..].iter().take_while(|word| **word != ";");
                package = Some(names.copied().collect::<String>());
            }
            "public" if depth == 0 => is_public = true,
            "class" | "interface" | "enum" | "record" if depth == 0 && is_identifier(next(1)) => {
                types.push(TopLevelType {
                    name: next(1).to_string(),
                    is_public,
                    main: MainMethod::None,
                });
            }
            "main" if depth == 1 && next(1) == "(" && index > 0 && words[index - 1] == "void" => {
                if let Some(last) = types.last_mut() {
                    last.main = last.main.max(main_method(&words, index));
                }
            }
            _ => {}
        }
    }
    let public = types.iter().find(|found| found.is_public);
    let with_main = |main| {
        let mut found = types.iter().filter(move |found| found.main == main);
        let first = found.clone().next();
        found.find(|found| found.is_public).or(first)
    };
    let main = with_main(MainMethod::Static)
        .or_else(|| with_main(MainMethod::Other))
        .or(public)
        .or(types.first())?;
    let name = match package {
        Some(package) => format!("{package}.{}", main.name),
        None => main.name.clone(),
    };
    Some(MainClass {
        name,
        file_stem: public.unwrap_or(main).name.clone(),
        main: main.main,
    })
}

/// The longest declaration of `main` that is recognised, in words before and after its name. Without a bound, a text that
/// consists of `void main(` would be read again for each of them.
const MAX_DECLARATION: usize = 50;

/// What the method `void main(`, with its name at this index, is.
fn main_method(words: &[&str], index: usize) -> MainMethod {
    let modifiers = words[..index].iter().rev().take(MAX_DECLARATION);
    let mut modifiers = modifiers.take_while(|word| !matches!(**word, ";" | "{" | "}"));
    let parameters = words[index..].iter().take(MAX_DECLARATION);
    let mut parameters = parameters.take_while(|word| **word != ")");
    match modifiers.any(|word| *word == "static") && parameters.any(|word| *word == "String") {
        true => MainMethod::Static,
        false => MainMethod::Other,
    }
}

fn is_identifier(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '$')
}

/// The identifiers and punctuation of the source, without comments and literals.
fn words(source: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else if let Some(text) = rest.strip_prefix("\"\"\"") {
            3 + text_block_length(text)
        } else if first == '"' || first == '\'' {
            literal_length(rest, first)
        } else if is_word(first) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            words.push(&rest[..length]);
            length
        } else {
            let length = first.len_utf8();
            if !first.is_whitespace() {
                words.push(&rest[..length]);
            }
            length
        };
        rest = &rest[length..];
    }
    words
}

/// The length of the rest of a text block, with the quotes at its end. A backslash escapes the next character.
fn text_block_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (index, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' if text[index..].starts_with("\"\"\"") => return index + 3,
            _ => {}
        }
    }
    text.len()
}

/// The length of a text or character literal with its quotes. A backslash escapes the next character.
fn literal_length(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            // A literal ends with its line. The compiler will report the missing quote.
            '\n' => return index,
            c if c == quote => return index + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The class with its package, and the stem of the file.
    fn check(source: &str, expected: Option<(&str, &str)>) {
        let found = main_class(source);
        let found = found
            .as_ref()
            .map(|class| (class.name.as_str(), class.file_stem.as_str()));
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn the_class_with_main_is_found() {
        check("public class Solution { }", Some(("Solution", "Solution")));
        check(
            "package lab.one;\nimport java.util.*;\npublic final class A { public static void main(String[] a) {} }",
            Some(("lab.one.A", "A")),
        );
        check(
            "class Helper { void main2() {} }\nclass Go { public static void main(String... a) { } }",
            Some(("Go", "Go")),
        );
        check(
            "class Go { static void main(String[] a) {} } public class Shown {}",
            Some(("Go", "Shown")),
        );
        check("record Point(int x, int y) {}", Some(("Point", "Point")));
        check(
            "// public class No {}\n/* class No2 */ class Yes { String s = \"class No3 {\"; char c = '{'; \
             class Inner { void main(String[] a) {} } }",
            Some(("Yes", "Yes")),
        );
        check(
            "class A { String s = \"\"\"\n} class B {\n\"\"\"; } class C { void main(String[] a) {} }",
            Some(("C", "C")),
        );
        check("class A { String s = \"\\\"}\"; } class B {}", Some(("A", "A")));
        check("", None);
        check("print('hello')", None);
        check("class", None);
        check("\"", None);
        check("/*", None);
    }

    #[test]
    fn an_escaped_quote_does_not_end_a_text_block() {
        check(
            "class A { String s = \"\"\"\n\\\"\"\" } class B {\n\\\\\"\"\"; } class C { void main(String[] a) {} }",
            Some(("C", "C")),
        );
        check("class A { String s = \"\"\"\\", Some(("A", "A")));
    }

    /// A program may have other methods of that name.
    #[test]
    fn a_static_main_with_strings_is_preferred() {
        check(
            "class Game { void main(int level) {} } class Go { public static void main(final String[] a) {} }",
            Some(("Go", "Go")),
        );
        check(
            "public class Game { static void main(int level) {} } class Go { static void main(String[] a) {} }",
            Some(("Go", "Game")),
        );
        check(
            "class Game { static int x; void main(String a) {} } class Go { static final void main(String... a) {} }",
            Some(("Go", "Go")),
        );
        check("class A {} class B { void main() {} }", Some(("B", "B")));
    }

    /// If each declaration were read again for every other one, the test runner would end this test.
    #[test]
    fn a_text_of_many_declarations_is_read_once() {
        for repeated in ["package ", "void main(", "class A { static void main(", "{ } ; "] {
            main_class(&repeated.repeat(300_000));
        }
    }
}
