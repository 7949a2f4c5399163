//! A folder with cases and nothing else: `*.in` with `*.ans` or `*.out`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::{CaseName, Judging, Points};

use crate::data::in_order;
use crate::error::PackageError;
use crate::folder::{EntryKind, FolderEntry, MAX_DEPTH, PackageFolder};
use crate::package::PackageCase;

/// The files of one case.
#[derive(Default)]
struct CaseFiles {
    input: Option<FolderEntry>,
    answers: Vec<FolderEntry>,
}

const ANSWERS: &str = "*.ans or *.out";

/// The cases in a folder and the folders in it, in the order of their names. Either all have an answer or none.
pub fn cases_from_folder(root: &Path) -> Result<Vec<PackageCase>, PackageError> {
    let folder = PackageFolder::open(root)?;
    let mut cases = vec![];
    for (name, files) in case_files(&folder)? {
        cases.push(case(&folder, name, files)?);
        if cases.len() > Judging::MAX_CASES {
            return Err(PackageError::TooManyCases { path: root.into() });
        }
    }
    if cases.is_empty() {
        return Err(PackageError::NoCases {
            path: root.into(),
            answers: ANSWERS,
        });
    }
    let has_answers = cases.iter().any(|case| case.answer.is_some());
    if let Some(case) = cases.iter().find(|case| has_answers && case.answer.is_none()) {
        return Err(PackageError::NoAnswer {
            path: case.input.clone(),
            expected: expected_answer(&case.input),
        });
    }
    cases.sort_by(|a, b| in_order(&a.name, &b.name));
    Ok(cases)
}

fn case_files(folder: &PackageFolder) -> Result<BTreeMap<String, CaseFiles>, PackageError> {
    let mut found: BTreeMap<String, CaseFiles> = BTreeMap::new();
    let mut open = vec![(folder.root().to_path_buf(), String::new(), 0)];
    while let Some((path, prefix, depth)) = open.pop() {
        if depth > MAX_DEPTH {
            return Err(PackageError::TooDeep {
                path,
                limit: MAX_DEPTH,
            });
        }
        for entry in folder.entries(&path)? {
            let (stem, extension) = entry.name.rsplit_once('.').unwrap_or((&entry.name, ""));
            let name = format!("{prefix}{stem}");
            match (entry.kind, extension) {
                (EntryKind::Folder, _) => {
                    let inner = format!("{prefix}{}/", entry.name);
                    open.push((entry.path, inner, depth + 1));
                }
                (EntryKind::File { .. }, "in") => found.entry(name).or_default().input = Some(entry),
                (EntryKind::File { .. }, "ans" | "out") => found.entry(name).or_default().answers.push(entry),
                (EntryKind::File { .. }, _) => {}
            }
        }
    }
    Ok(found)
}

fn case(folder: &PackageFolder, name: String, files: CaseFiles) -> Result<PackageCase, PackageError> {
    let CaseFiles { input, answers } = files;
    let Some(input) = input else {
        let path: PathBuf = answers
            .into_iter()
            .map(|entry| entry.path)
            .next()
            .unwrap_or_default();
        let expected = file_name(&path.with_extension("in"));
        return Err(PackageError::NoInput { path, expected });
    };
    if let [first, second, ..] = answers.as_slice() {
        return Err(PackageError::TwoAnswers {
            path: input.path,
            first: first.path.clone(),
            second: second.path.clone(),
        });
    }
    let name = CaseName::new(name).map_err(|problem| PackageError::CaseName {
        path: input.path.clone(),
        problem,
    })?;
    let answer = answers.first().map(|entry| folder.take_file(entry)).transpose()?;
    Ok(PackageCase {
        name,
        input: folder.take_file(&input)?,
        answer,
        is_sample: false,
        points: Points::ONE,
        group: None,
        args: vec![],
        files: vec![],
    })
}

fn expected_answer(input: &Path) -> String {
    let name = |extension| file_name(&input.with_extension(extension));
    format!("{} or {}", name("ans"), name("out"))
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn check(files: &[&str], expected: Result<&[(&str, bool)], &str>) {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        let found = cases_from_folder(folder.path());
        let found = found.as_ref().map_err(ToString::to_string).map(|cases| {
            let row = |case: &PackageCase| (case.name.to_string(), case.answer.is_some());
            cases.iter().map(row).collect::<Vec<_>>()
        });
        let expected = expected.map(|rows| {
            let row = |(name, has_answer): &(&str, bool)| (name.to_string(), *has_answer);
            rows.iter().map(row).collect::<Vec<_>>()
        });
        let place = format!("{}/", folder.path().display());
        assert_eq!(
            found.map_err(|error| error.replace(&place, "").replace(&place[..place.len() - 1], ".")),
            expected.map_err(String::from),
            "{files:?}"
        );
    }

    #[test]
    fn files_of_one_name_are_a_case() {
        check(
            &["2.in", "1.in", "1.out", "2.ans", "README"],
            Ok(&[("1", true), ("2", true)]),
        );
        check(&["b/1.in", "a.in"], Ok(&[("a", false), ("b/1", false)]));
        check(&["x.y.in", "x.y.ans"], Ok(&[("x.y", true)]));
        check(&["1.in", ".2.in"], Ok(&[("1", false)]));
    }

    #[test]
    fn errors_name_the_file() {
        check(
            &[],
            Err(".: no cases: there is no *.in file with its *.ans or *.out"),
        );
        check(
            &["1.in", "1.ans", "2.in"],
            Err("2.in: has no 2.ans or 2.out beside it"),
        );
        check(&["a/1.ans"], Err("a/1.ans: has no 1.in beside it"));
        check(
            &["1.in", "1.ans", "1.out"],
            Err("1.in: there are two answers: 1.ans and 1.out"),
        );
    }
}
