//! The output validator of a package, or the flags of the default one.

use model::{StepCommand, TokenCheck, Tolerance};

use crate::constants::{Constants, replace_in_files};
use crate::error::PackageError;
use crate::folder::{EntryKind, FolderEntry, PackageFolder};
use crate::languages::{command_of_module, language_of, with_main_file};
use crate::package::{PackageCheck, PackageFile, PackageFormat, PackageProgram};
use crate::settings::PackageSettings;

/// How the outputs of the package are judged. `args` are those of the validator.
pub(crate) fn read_check(
    folder: &PackageFolder,
    settings: &PackageSettings,
    args: Vec<String>,
    warnings: &mut Vec<String>,
) -> Result<PackageCheck, PackageError> {
    let validation = &settings.validation;
    let names: &[&str] = match settings.format {
        PackageFormat::Legacy => &["output_validators"],
        PackageFormat::Draft2023 => &["output_validator", "output_validators"],
        PackageFormat::V2025 => &["output_validator"],
    };
    let mut found = None;
    for name in names {
        found = match found {
            None => folder.find(name)?,
            some => some,
        };
    }
    let program = match found {
        Some(entry) => read_program(folder, &entry, &settings.constants, warnings)?,
        None => None,
    };
    let wants_program = validation
        .is_custom
        .unwrap_or(validation.is_interactive || program.is_some());
    match (wants_program || validation.is_interactive, program) {
        (true, Some(mut program)) => {
            program.args = args;
            Ok(match validation.is_interactive {
                true => PackageCheck::Interactive(program),
                false => PackageCheck::Program(program),
            })
        }
        (true, None) => {
            let what = match validation.is_interactive {
                true => "the problem is interactive",
                false => "validation is custom",
            };
            let problem = format!("{what}, but there is no program in {}/", names[0]);
            Err(PackageError::validator(&settings.path, problem))
        }
        (false, program) => {
            if program.is_some() {
                let place = folder.root().join(names[0]);
                let place = place.display();
                warnings.push(format!("{place}: is not used, because validation is not custom"));
            }
            let tokens = default_validator(&args);
            let tokens = tokens.map_err(|problem| PackageError::validator(&settings.path, problem))?;
            Ok(PackageCheck::Tokens(tokens))
        }
    }
}

/// The program in the folder of the validator: its files, or those of the only folder in it.
fn read_program(
    folder: &PackageFolder,
    entry: &FolderEntry,
    constants: &Constants,
    warnings: &mut Vec<String>,
) -> Result<Option<PackageProgram>, PackageError> {
    if entry.kind != EntryKind::Folder {
        return Err(PackageError::validator(&entry.path, "is no folder"));
    }
    let entries = folder.entries(&entry.path)?;
    let folders: Vec<_> = entries
        .iter()
        .filter(|entry| entry.kind == EntryKind::Folder)
        .collect();
    let files: Vec<_> = entries
        .iter()
        .filter(|entry| entry.kind != EntryKind::Folder)
        .collect();
    let has_program = files.iter().any(|file| is_program(folder, file));
    let mut found = match folders.as_slice() {
        [] if files.is_empty() => return Ok(None),
        [only] if !has_program => {
            for file in files {
                let place = file.path.display();
                warnings.push(format!("{place}: is beside the folder of the validator, ignored"));
            }
            folder.files_under(&only.path)?
        }
        [] => folder.files_under(&entry.path)?,
        _ if has_program => folder.files_under(&entry.path)?,
        _ => {
            let what = "several validators: only one judges; leave one folder";
            return Err(PackageError::not_supported(&entry.path, what));
        }
    };
    replace_in_files(&mut found, constants)?;
    program_of(found)
        .map(Some)
        .map_err(|problem| PackageError::validator(&entry.path, problem))
}

fn is_program(folder: &PackageFolder, file: &FolderEntry) -> bool {
    let found = folder.program_file(file, &file.name);
    found.is_ok_and(|found| matches!(file.name.as_str(), "build" | "run") || language_of(&[found]).is_ok())
}

fn program_of(mut files: Vec<PackageFile>) -> Result<PackageProgram, String> {
    let mut is_there = |name: &str| {
        let mut own = files.iter_mut().filter(|file| file.path.as_str() == name);
        own.next().map(|file| file.executable = true).is_some()
    };
    // The shell also runs a script that does not say by what it is run.
    let script = |name: &str| StepCommand::Shell(format!("./{name}"));
    let (has_build, has_run) = (is_there("build"), is_there("run"));
    if has_build || has_run {
        return Ok(PackageProgram {
            language: None,
            files,
            args: vec![],
            build: has_build.then(|| script("build")),
            run: script("run"),
        });
    }
    let language = language_of(&files).map_err(|problem| {
        format!("{problem}; a program in another language needs a file named run, or build")
    })?;
    let run = command_of_module(&language, &files).unwrap_or_else(StepCommand::of_language);
    Ok(PackageProgram {
        files: with_main_file(&language, files),
        language: Some(language),
        args: vec![],
        build: None,
        run,
    })
}

/// The flags of the default validator.
fn default_validator(flags: &[String]) -> Result<TokenCheck, String> {
    let mut check = TokenCheck::default();
    let mut rest = flags.iter();
    while let Some(flag) = rest.next() {
        let mut tolerance = || {
            let text = rest
                .next()
                .ok_or_else(|| format!("the flag {flag} needs a number after it"))?;
            let number = text.parse().ok().and_then(Tolerance::new);
            number.ok_or_else(|| format!("the flag {flag} needs a number that is not negative, not '{text}'"))
        };
        match flag.as_str() {
            "case_sensitive" => check.case_sensitive = true,
            "space_change_sensitive" => check.space_sensitive = true,
            "float_absolute_tolerance" => check.absolute_tolerance = Some(tolerance()?),
            "float_relative_tolerance" => check.relative_tolerance = Some(tolerance()?),
            "float_tolerance" => {
                let both = tolerance()?;
                check.absolute_tolerance = Some(both);
                check.relative_tolerance = Some(both);
            }
            other => return Err(format!("the default validator does not know the flag '{other}'")),
        }
    }
    Ok(check)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(flags: &str, expected: Result<TokenCheck, &str>) {
        let words: Vec<_> = flags.split_whitespace().map(String::from).collect();
        let found = default_validator(&words);
        assert_eq!(found, expected.map_err(String::from), "{flags}");
    }

    #[test]
    fn flags_of_the_default_validator_are_read() {
        let number = |number| Tolerance::new(number);
        let tokens = TokenCheck::default();
        check("", Ok(tokens));
        check(
            "case_sensitive space_change_sensitive",
            Ok(TokenCheck {
                case_sensitive: true,
                space_sensitive: true,
                ..tokens
            }),
        );
        check(
            "float_tolerance 1e-6",
            Ok(TokenCheck {
                absolute_tolerance: number(1e-6),
                relative_tolerance: number(1e-6),
                ..tokens
            }),
        );
        check(
            "float_relative_tolerance 0.5",
            Ok(TokenCheck {
                relative_tolerance: number(0.5),
                ..tokens
            }),
        );
        check(
            "float_tolerance",
            Err("the flag float_tolerance needs a number after it"),
        );
        let negative = "the flag float_tolerance needs a number that is not negative, not '-1'";
        check("float_tolerance -1", Err(negative));
        check("fast", Err("the default validator does not know the flag 'fast'"));
    }
}
