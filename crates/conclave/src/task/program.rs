//! A program on this machine: a source file, or a folder with several, and the language that they are in.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use api::{HttpClient, Language};
use model::{LanguageName, TaskFile, TaskFiles, WorkspacePath};

use super::collect::{LocalFile, collect};
use super::content::{InlineBudget, content};

/// The source files of a program on this machine.
pub(crate) struct LocalProgram {
    pub(crate) language: LanguageName,
    files: BTreeMap<WorkspacePath, LocalFile>,
}

impl LocalProgram {
    /// Lists the files of a program. Its language is the only one that its files are in, if it is not given.
    pub(crate) fn find(
        path: &Path,
        language: Option<&LanguageName>,
        languages: &[Language],
    ) -> Result<LocalProgram> {
        let place = path.display();
        let files = collect(&[path.to_path_buf()])?;
        if let Some(language) = language {
            let language = language.clone();
            return Ok(LocalProgram { language, files });
        }
        let extensions = files.keys().filter_map(|path| path.as_str().rsplit_once('.'));
        let known = extensions.filter_map(|(_, extension)| language_by_extension(languages, extension));
        let mut found: Vec<LanguageName> = known.collect();
        found.sort_unstable();
        found.dedup();
        match found.as_slice() {
            [only] => Ok(LocalProgram {
                language: only.clone(),
                files,
            }),
            [] => bail!(
                "{place} has no file with the extension of a known language; name it with --language (see conclave \
                 languages)"
            ),
            [first, second, ..] => {
                bail!("{place} has files in {first} and in {second}; name its language with --language")
            }
        }
    }

    /// The files as contents of a task. Large ones are uploaded as blobs.
    pub(crate) async fn upload(self, mut budget: InlineBudget, client: &HttpClient) -> Result<TaskFiles> {
        files(self.files, &mut budget, client).await
    }
}

/// The language whose files have this extension: one that an executor has, if there is one.
pub(super) fn language_by_extension(languages: &[Language], extension: &str) -> Option<LanguageName> {
    let has = |language: &&Language| language.extensions.iter().any(|own| own == extension);
    // Another one may have the extension, too, and be there.
    let installed = languages
        .iter()
        .filter(|language| language.executors > 0)
        .find(has);
    let found = installed.or_else(|| languages.iter().find(has));
    found.map(|language| language.name.clone())
}

pub(super) async fn files(
    found: BTreeMap<WorkspacePath, LocalFile>,
    budget: &mut InlineBudget,
    client: &HttpClient,
) -> Result<TaskFiles> {
    let mut files = TaskFiles::new();
    for (path, file) in found {
        let content = content(&file.path, file.size, budget, client).await?;
        files.insert(
            path,
            TaskFile {
                content,
                executable: file.executable,
            },
        );
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn language(name: &str, extension: &str, executors: u32) -> Language {
        Language {
            name: LanguageName::new(name).unwrap(),
            title: name.into(),
            aliases: Vec::new(),
            versions: BTreeMap::new(),
            extensions: vec![extension.into()],
            source_name: format!("main.{extension}"),
            compile: None,
            execute: "x".into(),
            root: None,
            executors,
            example: String::new(),
            example_output: String::new(),
        }
    }

    #[test]
    fn the_files_decide_about_the_language() {
        let languages = [
            language("pypy", "py", 0),
            language("python", "py", 1),
            language("cpp", "cpp", 0),
        ];
        let check = |files: &[&str], expected: Result<&str, &str>| {
            let folder = tempfile::tempdir().unwrap();
            for file in files {
                std::fs::write(folder.path().join(file), "").unwrap();
            }
            let found = LocalProgram::find(folder.path(), None, &languages);
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.language.as_str(), expected),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, _) => panic!("{files:?}: {:?}", found.map(|found| found.language)),
            }
        };
        check(&["a.py", "data.txt"], Ok("python"));
        check(&["a.cpp", "a.h"], Ok("cpp"));
        check(&["a.cpp", "a.py"], Err("has files in cpp and in python"));
        check(&["README"], Err("no file with the extension of a known language"));
    }
}
