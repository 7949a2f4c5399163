//! Reads a package as a whole, and the files that it adds to submissions.

use std::collections::BTreeMap;
use std::path::Path;

use model::LanguageName;

use crate::constants::{Constants, replace_in_files};
use crate::data::read_data;
use crate::error::PackageError;
use crate::folder::{EntryKind, PackageFolder};
use crate::languages::language_of_code;
use crate::package::{PackageFile, ProblemPackage};
use crate::scoring::ScoredCases;
use crate::settings::PackageSettings;
use crate::submissions::read_submissions;
use crate::validator::read_check;

/// The files that a package adds to submissions.
struct IncludedFiles {
    by_language: BTreeMap<LanguageName, Vec<PackageFile>>,
    default: Vec<PackageFile>,
}

/// Reads the package in a folder. Errors and warnings name the file that is wrong.
pub fn read_package(root: &Path) -> Result<ProblemPackage, PackageError> {
    let folder = PackageFolder::open(root)?;
    let mut warnings = vec![];
    let settings = PackageSettings::read(&folder, &mut warnings)?;
    let data = read_data(&folder, settings.format, &settings.constants, &mut warnings)?;
    let scored = ScoredCases::read(&data, &settings, &mut warnings)?;
    let check = read_check(&folder, &settings, scored.validator_args, &mut warnings)?;
    let included = read_includes(&folder, &settings.constants, &mut warnings)?;
    let submissions = read_submissions(&folder, &settings, &mut warnings)?;
    for (name, what) in [("graders", "graders"), ("static_validator", "static validators")] {
        if let Some(entry) = folder.find(name)? {
            warnings.push(format!("{}: {what} are not run", entry.path.display()));
        }
    }
    let name = folder.name();
    Ok(ProblemPackage {
        title: settings.title.unwrap_or_else(|| name.clone()),
        name,
        format: settings.format,
        limits: settings.limits,
        cases: scored.cases,
        groups: scored.groups,
        check,
        stop: scored.stop,
        submissions,
        includes: included.by_language,
        default_include: included.default,
        warnings,
    })
}

fn read_includes(
    folder: &PackageFolder,
    constants: &Constants,
    warnings: &mut Vec<String>,
) -> Result<IncludedFiles, PackageError> {
    let mut included = IncludedFiles {
        by_language: BTreeMap::new(),
        default: vec![],
    };
    let Some(include) = folder.find("include")? else {
        return Ok(included);
    };
    for entry in folder.entries(&include.path)? {
        if entry.kind != EntryKind::Folder {
            let place = entry.path.display();
            warnings.push(format!("{place}: is not in a folder of a language, ignored"));
            continue;
        }
        let mut files = folder.files_under(&entry.path)?;
        replace_in_files(&mut files, constants)?;
        match (entry.name.as_str(), language_of_code(&entry.name)) {
            ("default", _) => included.default = files,
            (_, Some(language)) => included.by_language.entry(language).or_default().extend(files),
            (_, None) => {
                let place = entry.path.display();
                warnings.push(format!("{place}: is not the code of a language, ignored"));
            }
        }
    }
    Ok(included)
}
