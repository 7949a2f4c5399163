//! The language table: the built-in rows, and the operator's `languages.toml` that extends and overrides them.
//!
//! This crate reads TOML and nothing else. What a row means for a task is decided in `model`.

mod row;

use std::io;
use std::path::{Path, PathBuf};

use model::{Language, LanguageTable, LanguageTableError};
use thiserror::Error;
use toml::Table;

use self::row::LanguageRow;

const BUILT_IN: &str = include_str!("builtin.toml");

/// Why the language table could not be read.
#[derive(Debug, Error)]
pub enum LanguagesError {
    #[error("could not read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is not valid TOML: {source}")]
    Parse {
        path: String,
        #[source]
        source: Box<toml::de::Error>,
    },
    #[error("{path}: '{name}' is not a table; write [{name}] and the keys of the language below it")]
    NotATable { path: String, name: String },
    #[error("{path}: language '{name}': {problem}")]
    Row {
        path: String,
        name: String,
        problem: String,
    },
    #[error("{path}: {source}")]
    Table {
        path: String,
        source: LanguageTableError,
    },
}

/// The built-in table, extended and overridden by the file if there is one.
pub fn read(file: Option<&Path>) -> Result<LanguageTable, LanguagesError> {
    let Some(path) = file else {
        return table(BUILT_IN_PATH, &[]);
    };
    let text = std::fs::read_to_string(path).map_err(|source| LanguagesError::Read {
        path: path.into(),
        source,
    })?;
    table(&path.display().to_string(), &[&text])
}

/// The Debian packages of all languages of the built-in table, each once.
pub fn all_packages() -> Vec<String> {
    let mut packages: Vec<_> = built_in_rows().flat_map(|(_, packages)| packages).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// The Debian packages that provide the language of the built-in table with this name or alias.
pub fn packages(name: &model::LanguageName) -> Option<Vec<String>> {
    built_in_rows()
        .find(|(language, _)| language.name == *name || language.aliases.contains(name))
        .map(|(_, packages)| packages)
}

/// The rows of the built-in table with their packages. A test proves that all of them are valid.
fn built_in_rows() -> impl Iterator<Item = (Language, Vec<String>)> {
    let rows = parse(BUILT_IN_PATH, BUILT_IN).unwrap_or_default();
    rows.into_iter()
        .filter_map(|(name, row)| row_of(BUILT_IN_PATH, &name, row).ok())
        .flatten()
}

const BUILT_IN_PATH: &str = "the built-in language table";

/// The built-in table with these texts over it.
fn table(path: &str, texts: &[&str]) -> Result<LanguageTable, LanguagesError> {
    let mut rows = parse(BUILT_IN_PATH, BUILT_IN)?;
    for text in texts {
        for (name, over) in parse(path, text)? {
            match rows.get_mut(&name).and_then(toml::Value::as_table_mut) {
                Some(row) => row.extend(into_table(path, &name, over)?),
                None => {
                    rows.insert(name, over);
                }
            }
        }
    }
    let languages = rows.into_iter().map(|(name, row)| row_of(path, &name, row));
    let languages = languages.collect::<Result<Vec<_>, _>>()?;
    let languages: Vec<Language> = languages
        .into_iter()
        .flatten()
        .map(|(language, _)| language)
        .collect();
    let path = path.to_string();
    LanguageTable::new(languages).map_err(|source| LanguagesError::Table { path, source })
}

fn parse(path: &str, text: &str) -> Result<Table, LanguagesError> {
    text.parse().map_err(|source| LanguagesError::Parse {
        path: path.to_string(),
        source: Box::new(source),
    })
}

fn into_table(path: &str, name: &str, row: toml::Value) -> Result<Table, LanguagesError> {
    match row {
        toml::Value::Table(table) => Ok(table),
        _ => Err(LanguagesError::NotATable {
            path: path.to_string(),
            name: name.to_string(),
        }),
    }
}

/// `None` for a row that the operator has disabled.
fn row_of(
    path: &str,
    name: &str,
    row: toml::Value,
) -> Result<Option<(Language, Vec<String>)>, LanguagesError> {
    let problem = |problem: String| LanguagesError::Row {
        path: path.to_string(),
        name: name.to_string(),
        problem,
    };
    let row: LanguageRow = into_table(path, name, row)?
        .try_into()
        .map_err(|error: toml::de::Error| problem(error.message().to_string()))?;
    row.into_language(name).map_err(problem)
}

#[cfg(test)]
mod tests {
    use model::LanguageName;

    use super::*;

    fn with(text: &str) -> Result<LanguageTable, String> {
        table("languages.toml", &[text]).map_err(|error| error.to_string())
    }

    fn name(text: &str) -> LanguageName {
        LanguageName::new(text).unwrap()
    }

    #[test]
    fn the_built_in_table_has_the_usual_languages() {
        let table = read(None).unwrap();
        assert!(table.rows().len() >= 30, "{}", table.rows().len());
        for (alias, expected) in [
            ("C++", "cpp"),
            ("python3", "python"),
            ("js", "javascript"),
            ("golang", "go"),
            ("text", "text"),
        ] {
            assert_eq!(table.get(&name(alias)).unwrap().name, name(expected), "{alias}");
        }
        for (extension, expected) in [("py", "python"), ("cpp", "cpp"), ("java", "java")] {
            let has = |row: &&Language| row.extensions.iter().any(|own| own == extension);
            assert_eq!(table.rows().iter().find(has).unwrap().name, name(expected));
        }
        assert!(packages(&name("c++")).unwrap().contains(&"g++".to_string()));
        assert_eq!(packages(&name("nothing")), None);
    }

    #[test]
    fn the_documentation_has_every_row() {
        let docs = include_str!("../../../docs/languages.md");
        let code = |text: &str| format!("`{}`", text.replace('|', "\\|"));
        let list = |items: Vec<&str>| match items.is_empty() {
            true => "–".to_string(),
            false => items.into_iter().map(code).collect::<Vec<_>>().join(", "),
        };
        for (row, packages) in built_in_rows() {
            let aliases = row.aliases.iter().map(LanguageName::as_str).collect();
            let compile = row.compile.as_deref().map_or("–".to_string(), code);
            let line = format!(
                "| {} | {} | {} | {} | {compile} | {} |",
                code(row.name.as_str()),
                row.title,
                list(aliases),
                list(packages.iter().map(String::as_str).collect()),
                code(&row.execute)
            );
            assert!(
                docs.lines().any(|known| known == line),
                "docs/languages.md lacks:\n{line}"
            );
        }
    }

    #[test]
    fn the_editor_has_colours_for_every_language() {
        let script = include_str!("../../../web/editor_languages.js");
        let shared = script.split("const sameMode").nth(1).unwrap();
        let shared = shared.split('}').next().unwrap();
        for (row, _) in built_in_rows().filter(|(row, _)| row.name != name("text")) {
            let has_own = script.contains(&format!("\n  {}: ", row.name));
            let has_shared = shared.contains(&format!(" {}: \"", row.name));
            assert!(
                has_own || has_shared,
                "web/editor_languages.js lacks {}",
                row.name
            );
        }
    }

    #[test]
    fn a_file_overrides_the_keys_that_it_gives() {
        let plain = read(None).unwrap();
        let table = with(
            "[cpp]\nexecute = './main --fast'\n[cpp.execute_limits]\nmemory = '64MiB'\n[perl]\nenabled = false\n\
             [mine]\ntitle = 'Mine'\nsource = 'main.mine'\nexecute = 'mine {source}'\nprograms = ['mine']\ncompile = ''\n",
        )
        .unwrap();
        let (old, new) = (plain.get(&name("cpp")).unwrap(), table.get(&name("cpp")).unwrap());
        assert_eq!(new.execute, "./main --fast");
        assert_eq!(new.limits.execute.memory, Some(64 << 20));
        assert_eq!(new.compile, old.compile);
        assert!(plain.get(&name("perl")).is_some());
        assert!(table.get(&name("perl")).is_none());
        let mine = table.get(&name("mine")).unwrap();
        assert_eq!(
            (mine.extensions.as_slice(), &mine.compile),
            (&["mine".to_string()][..], &None)
        );
    }

    #[test]
    fn errors_name_the_language_and_the_problem() {
        let row = "[x]\ntitle = 'X'\nsource = 'main.x'\nexecute = 'x {source}'\nprograms = ['x']\n";
        let check = |text: &str, part: &str| {
            let error = with(text).unwrap_err();
            assert!(error.contains(part), "{error}");
            assert!(error.contains("languages.toml"), "{error}");
        };
        check("[x", "is not valid TOML");
        check("x = 1", "'x' is not a table; write [x]");
        check("cpp = 1", "'cpp' is not a table");
        check("[x]\ntitle = 'X'", "language 'x': missing field `source`");
        check(
            &format!("{row}compil = 'x'"),
            "language 'x': unknown field `compil`",
        );
        check(&format!("{row}aliases = ['python']"), "'python'");
        check(&format!("{row}aliases = ['a b']"), "aliases: may contain only");
        check(&format!("{row}time_factor = 0"), "time_factor: must be");
        check(
            &format!("{row}compile = '{{class}}'"),
            "{class} in compile needs class_name = \"java\"",
        );
        check(&row.replace("main.x", "../x"), "source:");
        check(&row.replace("['x']", "['x; reboot']"), "programs: 'x; reboot'");
        check(&row.replace("[x]", "['X Y']"), "language 'X Y': may contain only");
        check(&format!("{row}class_name = 'pascal'"), "class_name:");
        check(
            &format!("{row}execute_limits = {{ memory = 'much' }}"),
            "language 'x'",
        );
    }
}
