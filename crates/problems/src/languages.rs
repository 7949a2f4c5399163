//! Languages of programs in packages: by the extensions of their files, and by the codes of the format.

use std::collections::BTreeSet;

use model::{LanguageName, StepCommand, WorkspacePath};

use crate::package::{PackageContent, PackageFile};

/// Extensions and the names of their languages in the language table. Where a language has versions, the plain name.
const EXTENSIONS: &[(&str, &str)] = &[
    ("C", "cpp"),
    ("ada", "ada"),
    ("adb", "ada"),
    ("bash", "bash"),
    ("c", "c"),
    ("c++", "cpp"),
    ("cc", "cpp"),
    ("cl", "commonlisp"),
    ("clj", "clojure"),
    ("cob", "cobol"),
    ("cpp", "cpp"),
    ("cr", "crystal"),
    ("cs", "csharp"),
    ("cxx", "cpp"),
    ("d", "d"),
    ("erl", "erlang"),
    ("ex", "elixir"),
    ("exs", "elixir"),
    ("f90", "fortran"),
    ("fs", "fsharp"),
    ("fth", "forth"),
    ("go", "go"),
    ("groovy", "groovy"),
    ("hs", "haskell"),
    ("java", "java"),
    ("jl", "julia"),
    ("js", "javascript"),
    ("kt", "kotlin"),
    ("lisp", "commonlisp"),
    ("lua", "lua"),
    ("m", "objectivec"),
    ("ml", "ocaml"),
    ("nim", "nim"),
    ("pas", "pascal"),
    ("php", "php"),
    ("pl", "perl"),
    ("pm", "perl"),
    ("py", "python"),
    ("py2", "python2"),
    ("py3", "python"),
    ("r", "r"),
    ("rb", "ruby"),
    ("rkt", "racket"),
    ("rs", "rust"),
    ("scala", "scala"),
    ("scm", "scheme"),
    ("sh", "bash"),
    ("sml", "sml"),
    ("swift", "swift"),
    ("ts", "typescript"),
    ("vala", "vala"),
    ("zig", "zig"),
];

/// Codes of the format that are not the names of the language table.
const CODES: &[(&str, &str)] = &[
    ("cgmp", "c"),
    ("cppgmp", "cpp"),
    ("javaalgs4", "java"),
    ("lisp", "commonlisp"),
    ("python3", "python"),
    ("python3numpy", "python"),
];

/// The language of a program, or why there is none.
pub(crate) fn language_of(files: &[PackageFile]) -> Result<LanguageName, String> {
    let known = files.iter().filter_map(|file| {
        let (_, extension) = file.path.as_str().rsplit_once('.')?;
        let row = EXTENSIONS.iter().find(|(known, _)| *known == extension)?;
        Some(row.1)
    });
    let mut names: BTreeSet<_> = known.collect();
    if names.contains("cpp") {
        // Files of both are compiled as C++, as a compiler for C++ does it.
        names.remove("c");
    }
    let names: Vec<_> = names.into_iter().collect();
    match names.as_slice() {
        [only] => LanguageName::new(*only).map_err(|error| error.to_string()),
        [] => Err("no file has the extension of a known language".into()),
        several => Err(format!("has files of several languages: {}", several.join(", "))),
    }
}

/// The language with a code of the format.
pub(crate) fn language_of_code(code: &str) -> Option<LanguageName> {
    let row = CODES.iter().find(|(known, _)| *known == code);
    LanguageName::new(row.map_or(code, |(_, name)| name)).ok()
}

/// How a program with this file as its beginning is run, if the language does not find out by itself.
pub(crate) fn command_of_entry(language: &LanguageName, entry: &str) -> Option<StepCommand> {
    let interpreter = match language.as_str() {
        "python" => "python3",
        "pypy" => "pypy3",
        "php" => "php",
        "ruby" => "ruby",
        "javascript" => "node",
        _ => return None,
    };
    Some(StepCommand::Argv(vec![interpreter.into(), entry.into()]))
}

/// The command for a module of Python: several files of which one is `__main__.py`.
pub(crate) fn command_of_module(language: &LanguageName, files: &[PackageFile]) -> Option<StepCommand> {
    let has = |name: &str| files.iter().any(|file| file.path.as_str() == name);
    match has("__main__.py") && !has("main.py") && files.len() > 1 {
        true => command_of_entry(language, "__main__.py"),
        false => None,
    }
}

/// The files of a program in a language whose sources are all compiled together, with an empty main file if several sources
/// could be the main one: without one, the language table would not know which it is.
pub(crate) fn with_main_file(language: &LanguageName, mut files: Vec<PackageFile>) -> Vec<PackageFile> {
    let (main, extensions): (&str, &[&str]) = match language.as_str() {
        "c" => ("main.c", &["c"]),
        "cpp" => ("main.cpp", &["cpp", "cc", "cxx", "c++"]),
        _ => return files,
    };
    let is_source = |file: &&PackageFile| {
        let extension = file
            .path
            .as_str()
            .rsplit_once('.')
            .map(|(_, extension)| extension);
        extension.is_some_and(|extension| extensions.contains(&extension))
    };
    let has_main = files.iter().any(|file| file.path.as_str() == main);
    if !has_main && files.iter().filter(is_source).count() > 1 {
        files.extend(WorkspacePath::new(main).ok().map(|path| PackageFile {
            path,
            content: PackageContent::Bytes(vec![]),
            executable: false,
        }));
    }
    files
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn check(paths: &[&str], expected: Result<&str, &str>) {
        let file = |path: &&str| PackageFile {
            path: WorkspacePath::new(*path).unwrap(),
            content: PackageContent::Path(PathBuf::new()),
            executable: false,
        };
        let files: Vec<_> = paths.iter().map(file).collect();
        let found = language_of(&files);
        let found = found.as_ref().map(LanguageName::as_str).map_err(String::as_str);
        assert_eq!(found, expected, "{paths:?}");
    }

    #[test]
    fn extensions_decide_about_the_language() {
        check(&["a.py"], Ok("python"));
        check(&["a.cc", "b.c", "c.h", "README.md"], Ok("cpp"));
        check(&["a.C"], Ok("cpp"));
        check(&["Main.java", "data.txt"], Ok("java"));
        check(
            &["a.py", "b.java"],
            Err("has files of several languages: java, python"),
        );
        check(&["README"], Err("no file has the extension of a known language"));
    }

    #[test]
    fn several_sources_in_c_get_a_main_file() {
        let check = |language: &str, paths: &[&str], expected: bool| {
            let file = |path: &&str| PackageFile {
                path: WorkspacePath::new(*path).unwrap(),
                content: PackageContent::Path(PathBuf::new()),
                executable: false,
            };
            let language = LanguageName::new(language).unwrap();
            let files = with_main_file(&language, paths.iter().map(file).collect());
            assert_eq!(files.len() > paths.len(), expected, "{paths:?}");
        };
        check("cpp", &["a.cpp", "grader.cpp"], true);
        check("cpp", &["a.cpp", "grader.h"], false);
        check("cpp", &["a.cpp", "main.cpp"], false);
        check("c", &["a.c", "b.c"], true);
        check("python", &["a.py", "b.py"], false);
    }

    #[test]
    fn codes_of_the_format_have_a_row_in_the_table() {
        for (code, expected) in [("python3", "python"), ("cpp", "cpp"), ("lisp", "commonlisp")] {
            assert_eq!(language_of_code(code).unwrap().as_str(), expected);
        }
        assert!(language_of_code("no language").is_none());
    }
}
