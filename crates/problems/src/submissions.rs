//! The submissions of a package, with the verdicts that are expected of them.

mod directories;
mod expected_results;
mod metadata;

use model::StepCommand;

use crate::constants::replace_in_files;
use crate::error::PackageError;
use crate::expected::ExpectedVerdicts;
use crate::folder::{EntryKind, FolderEntry, PackageFolder};
use crate::languages::{command_of_entry, command_of_module, language_of, language_of_code};
use crate::package::{PackageFile, PackageSubmission};
use crate::settings::PackageSettings;
use metadata::SubmissionMetadata;

const METADATA: &str = "submissions.yaml";

/// Reads `submissions/`. A package without it has none.
pub(crate) fn read_submissions(
    folder: &PackageFolder,
    settings: &PackageSettings,
    warnings: &mut Vec<String>,
) -> Result<Vec<PackageSubmission>, PackageError> {
    let Some(submissions) = folder.find("submissions")? else {
        let place = folder.root().join("submissions");
        warnings.push(format!("{}: there are no submissions", place.display()));
        return Ok(vec![]);
    };
    let metadata = match folder.find_in(&submissions.path, METADATA)? {
        Some(entry) => SubmissionMetadata::parse(&entry.path, &folder.text(&entry.path)?, warnings)?,
        None => SubmissionMetadata::default(),
    };
    let mut reader = SubmissionReader {
        folder,
        settings,
        metadata,
        warnings,
    };
    let mut found = vec![];
    for directory in folder.entries(&submissions.path)? {
        match directory.kind {
            EntryKind::Folder => {
                for entry in folder.entries(&directory.path)? {
                    found.extend(reader.submission(&directory.name, &entry)?);
                }
            }
            EntryKind::File { .. } if directory.name == METADATA => {}
            EntryKind::File { .. } => {
                let place = directory.path.display();
                reader.warnings.push(format!(
                    "{place}: is not in a folder that says which verdict is expected, ignored"
                ));
            }
        }
    }
    let SubmissionReader {
        metadata, warnings, ..
    } = reader;
    metadata.warn_of_unused(&found, warnings);
    Ok(found)
}

/// What every submission is read with.
struct SubmissionReader<'a> {
    folder: &'a PackageFolder,
    settings: &'a PackageSettings,
    metadata: SubmissionMetadata,
    warnings: &'a mut Vec<String>,
}

impl SubmissionReader<'_> {
    /// A file or folder as a submission; `None` with a warning if it is no program.
    fn submission(
        &mut self,
        directory: &str,
        entry: &FolderEntry,
    ) -> Result<Option<PackageSubmission>, PackageError> {
        let name = format!("{directory}/{}", entry.name);
        let mut files = match entry.kind {
            EntryKind::Folder => self.folder.files_under(&entry.path)?,
            EntryKind::File { .. } => vec![self.folder.program_file(entry, &entry.name)?],
        };
        replace_in_files(&mut files, &self.settings.constants)?;
        let place = entry.path.display();
        let said = self.metadata.program_of(&name);
        let found = match &said.language {
            Some((code, place)) => language_of_code(code)
                .ok_or_else(|| format!("{place}: '{code}' is not the code of a language")),
            None => language_of(&files).map_err(|problem| format!("{place}: {problem}")),
        };
        let language = match found {
            Ok(language) => language,
            Err(problem) => {
                self.warnings
                    .push(format!("{problem}; the submission is not run"));
                return Ok(None);
            }
        };
        let run: Option<StepCommand> = match &said.entry_point {
            Some((entry_point, place)) => {
                let command = command_of_entry(&language, entry_point);
                if command.is_none() {
                    self.warnings.push(format!(
                        "{place}: entry points of {language} are not done, ignored"
                    ));
                }
                command
            }
            None => command_of_module(&language, &files),
        };
        let expected = self.expected(directory, &name, &files)?;
        Ok(Some(PackageSubmission {
            name,
            files,
            language,
            run,
            expected,
        }))
    }

    fn expected(
        &mut self,
        directory: &str,
        name: &str,
        files: &[PackageFile],
    ) -> Result<ExpectedVerdicts, PackageError> {
        // What the source says itself wins over the folder in which it is.
        if let Some(expected) = expected_results::find(files, self.warnings)? {
            return Ok(expected);
        }
        let mut rules = vec![];
        match directories::rule(directory, self.settings.format) {
            Some(rule) => rules.push(self.metadata.replace_rule(directory, rule)),
            None if self.metadata.has_rule_of(name) => {}
            None => self.warnings.push(format!(
                "{name}: {directory}/ says no verdict, and the source has no @EXPECTED_RESULTS@; every verdict is as expected"
            )),
        }
        rules.extend(self.metadata.rules_of(name));
        Ok(ExpectedVerdicts {
            results: Default::default(),
            rules,
        })
    }
}
