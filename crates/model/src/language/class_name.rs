//! Finds the class of a Java source file that a task runs.

/// The class of a Java source file with the task's `main` method, and where the compiler expects the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MainClass {
    /// With its package: `lab.Main`.
    pub(super) name: String,
    /// The public class, without the package: the compiler expects its file under this name.
    pub(super) file_stem: String,
    pub(super) has_main: bool,
}

/// A class, interface, enum or record at the top level of a Java source file.
#[derive(Debug, Default)]
struct TopLevelType {
    name: String,
    is_public: bool,
    has_main: bool,
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
            "package" if depth == 0 && types.is_empty() => {
                let names = words[index + 1..].iter().take_while(|word| **word != ";");
                package = Some(names.copied().collect::<String>());
            }
            "public" if depth == 0 => is_public = true,
            "class" | "interface" | "enum" | "record" if depth == 0 && is_identifier(next(1)) => {
                types.push(TopLevelType {
                    name: next(1).to_string(),
                    is_public,
                    has_main: false,
                });
            }
            "main" if depth == 1 && next(1) == "(" && index > 0 && words[index - 1] == "void" => {
                if let Some(last) = types.last_mut() {
                    last.has_main = true;
                }
            }
            _ => {}
        }
    }
    let public = types.iter().find(|found| found.is_public);
    let with_main = types
        .iter()
        .find(|found| found.has_main && found.is_public)
        .or_else(|| types.iter().find(|found| found.has_main));
    let main = with_main.or(public).or(types.first())?;
    let name = match package {
        Some(package) => format!("{package}.{}", main.name),
        None => main.name.clone(),
    };
    Some(MainClass {
        name,
        file_stem: public.unwrap_or(main).name.clone(),
        has_main: main.has_main,
    })
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
            text.find("\"\"\"").map_or(rest.len(), |end| end + 6)
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

    #[test]
    fn the_class_with_main_is_found() {
        fn check(source: &str, expected: Option<(&str, &str)>) {
            let found = main_class(source);
            let found = found
                .as_ref()
                .map(|class| (class.name.as_str(), class.file_stem.as_str()));
            assert_eq!(found, expected, "{source}");
        }
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
}
