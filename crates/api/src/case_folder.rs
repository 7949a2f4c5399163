//! Makes cases of a folder of files: each `NAME.in`, with the answer in `NAME.ans` or `NAME.out`.

use std::collections::BTreeMap;

use model::{CaseName, Content, InvalidField, Limits, Points, TaskFiles, WorkspacePath};

/// The part of a case that a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CasePart {
    Input,
    Answer,
}

/// The files of one case.
#[derive(Default)]
struct FolderCase {
    input: Option<Content>,
    answer: Option<(WorkspacePath, Content)>,
}

/// The cases in a folder, in the order of their names, which are the paths without the endings. Other files are left out,
/// because folders of cases contain descriptions and settings as well. Errors name files below `cases`.
pub fn cases_of_files(files: TaskFiles) -> Result<Vec<model::Case>, InvalidField> {
    let mut found: BTreeMap<CaseName, FolderCase> = BTreeMap::new();
    for (path, file) in files {
        let Some((name, part)) = split_path(path.as_str()) else {
            continue;
        };
        let at_path = |problem: String| InvalidField::new(format!("cases.{path}"), problem);
        let name = CaseName::new(name).map_err(|error| at_path(format!("the name of the case {error}")))?;
        let case = found.entry(name).or_default();
        match part {
            CasePart::Input => case.input = Some(file.content),
            CasePart::Answer => {
                if let Some((other, _)) = &case.answer {
                    return Err(at_path(format!(
                        "is a second answer beside {other}; keep one of them"
                    )));
                }
                case.answer = Some((path, file.content));
            }
        }
    }
    if found.is_empty() {
        let problem = "has no file NAME.in; give NAME.in and NAME.ans for each case";
        return Err(InvalidField::new("cases", problem));
    }
    found.into_iter().map(|(name, files)| case(name, files)).collect()
}

fn case(name: CaseName, files: FolderCase) -> Result<model::Case, InvalidField> {
    let (input, answer) = match (files.input, files.answer) {
        (Some(input), answer) => (input, answer.map(|(_, content)| content)),
        (None, Some((path, _))) => {
            let problem = format!("has no input beside it; add {name}.in");
            return Err(InvalidField::new(format!("cases.{path}"), problem));
        }
        // An entry is made for a file, so it has one.
        (None, None) => (Content::empty(), None),
    };
    Ok(model::Case {
        name,
        input,
        answer,
        args: Vec::new(),
        files: TaskFiles::new(),
        points: Points::ONE,
        group: None,
        limits: Limits::default(),
        is_sample: false,
    })
}

/// The name of the case to which a file belongs, and its part. `None` for a file of another kind, and for the hidden files
/// that some systems add to folders and zips.
fn split_path(path: &str) -> Option<(&str, CasePart)> {
    let is_hidden = |part: &str| part.starts_with('.') || part == "__MACOSX";
    if path.split('/').any(is_hidden) {
        return None;
    }
    let (name, ending) = path.rsplit_once('.')?;
    match ending {
        "in" => Some((name, CasePart::Input)),
        "ans" | "out" => Some((name, CasePart::Answer)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use model::TaskFile;

    use super::*;

    /// A folder of files that contain their own paths.
    fn folder(paths: &[&str]) -> TaskFiles {
        let file = |path: &&str| {
            let content = Content::Inline((*path).to_string().into());
            let executable = false;
            (
                WorkspacePath::new(*path).unwrap(),
                TaskFile { content, executable },
            )
        };
        paths.iter().map(file).collect()
    }

    fn text(content: &Content) -> String {
        match content {
            Content::Inline(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            Content::Blob(hash) => hash.to_string(),
        }
    }

    #[test]
    fn inputs_and_answers_of_one_name_are_a_case() {
        let check = |paths: &[&str], expected: &[(&str, &str, Option<&str>)]| {
            let cases = cases_of_files(folder(paths)).unwrap_or_else(|error| panic!("{paths:?}: {error}"));
            let found: Vec<_> = cases
                .iter()
                .map(|case| {
                    (
                        case.name.to_string(),
                        text(&case.input),
                        case.answer.as_ref().map(text),
                    )
                })
                .collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|(name, input, answer)| {
                    (name.to_string(), input.to_string(), answer.map(str::to_string))
                })
                .collect();
            assert_eq!(found, expected, "{paths:?}");
        };
        check(&["1.in", "1.ans"], &[("1", "1.in", Some("1.ans"))]);
        check(
            &["b.in", "b.out", "a.in"],
            &[("a", "a.in", None), ("b", "b.in", Some("b.out"))],
        );
        // In the order of the names, not of the paths.
        check(
            &["1.in", "1-a.in"],
            &[("1", "1.in", None), ("1-a", "1-a.in", None)],
        );
        check(
            &["secret/1.in", "secret/1.ans", "sample/1.in", "sample/1.ans"],
            &[
                ("sample/1", "sample/1.in", Some("sample/1.ans")),
                ("secret/1", "secret/1.in", Some("secret/1.ans")),
            ],
        );
        check(
            &[
                "1.in",
                "README",
                "testdata.yaml",
                "1.desc",
                "__MACOSX/1.in",
                ".DS_Store",
                "a/._2.in",
            ],
            &[("1", "1.in", None)],
        );
    }

    #[test]
    fn errors_name_the_file() {
        let check = |paths: &[&str], field: &str, problem: &str| {
            let invalid = cases_of_files(folder(paths)).unwrap_err();
            assert_eq!(invalid.field, field, "{paths:?}: {invalid}");
            assert!(invalid.problem.contains(problem), "{paths:?}: {invalid}");
        };
        check(&[], "cases", "has no file NAME.in");
        check(&["README"], "cases", "has no file NAME.in");
        check(&["1.in", "2.ans"], "cases.2.ans", "add 2.in");
        check(
            &["1.in", "1.ans", "1.out"],
            "cases.1.out",
            "a second answer beside 1.ans",
        );
        let long = format!("{}.in", "x".repeat(200));
        check(&[&long], &format!("cases.{long}"), "the name of the case");
    }
}
