//! `problem.yaml`, `domjudge-problem.ini` and `.timelimit`: what kind of problem it is, and its limits.

mod domjudge;
mod limit_keys;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::constants::Constants;
use crate::error::PackageError;
use crate::folder::{EntryKind, PackageFolder};
use crate::limits::PackageLimits;
use crate::package::PackageFormat;
use crate::yaml::{YamlFile, YamlView};

/// What the settings of a package say.
#[derive(Debug)]
pub(crate) struct PackageSettings {
    /// The file that errors about the problem as a whole name.
    pub(crate) path: PathBuf,
    pub(crate) format: PackageFormat,
    pub(crate) title: Option<String>,
    pub(crate) is_scoring: bool,
    pub(crate) validation: ValidationSettings,
    pub(crate) limits: PackageLimits,
    /// Defaults of test groups, which old packages have in `problem.yaml`.
    pub(crate) grading: BTreeMap<&'static str, String>,
    /// What stands for `{{name}}` in programs.
    pub(crate) constants: Constants,
}

/// What the settings say about output validators.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ValidationSettings {
    /// `None` if the folder of the validator decides.
    pub(crate) is_custom: Option<bool>,
    pub(crate) is_interactive: bool,
    /// The validator gives scores.
    pub(crate) gives_scores: bool,
    pub(crate) flags: Vec<String>,
}

const LEGACY_KEYS: &[&str] = &[
    "author",
    "grading",
    "keywords",
    "license",
    "libraries",
    "limits",
    "name",
    "problem_format_version",
    "rights_owner",
    "source",
    "source_url",
    "type",
    "uuid",
    "validation",
    "validator",
    "validator_flags",
];
const NEW_KEYS: &[&str] = &[
    "allow_file_writing",
    "constants",
    "credits",
    "embargo_until",
    "keywords",
    "languages",
    "license",
    "limits",
    "name",
    "problem_format_version",
    "rights_owner",
    "source",
    "type",
    "uuid",
    "validation",
    "version",
];
const GRADING_KEYS: [&str; 4] = ["accept_score", "reject_score", "range", "on_reject"];

impl PackageSettings {
    pub(crate) fn read(
        folder: &PackageFolder,
        warnings: &mut Vec<String>,
    ) -> Result<PackageSettings, PackageError> {
        let file = |name: &str| -> Result<Option<PathBuf>, PackageError> {
            let found = folder.find(name)?;
            let file = found.filter(|entry| matches!(entry.kind, EntryKind::File { .. }));
            Ok(file.map(|entry| entry.path))
        };
        let yaml = file("problem.yaml")?;
        let ini = file("domjudge-problem.ini")?;
        let Some(path) = yaml.as_ref().or(ini.as_ref()).cloned() else {
            let path = folder.root().to_path_buf();
            return Err(match folder.is_polygon()? {
                true => PackageError::Polygon { path },
                false => PackageError::NoSettings { path },
            });
        };
        let text = match &yaml {
            Some(path) => folder.text(path)?,
            None => String::new(),
        };
        let yaml = YamlFile::parse(&path, &text)?;
        let mut settings = PackageSettings::of_yaml(&yaml, warnings)?;
        domjudge::add_settings(folder, ini, &mut settings, warnings)?;
        Ok(settings)
    }

    fn of_yaml(yaml: &YamlFile, warnings: &mut Vec<String>) -> Result<PackageSettings, PackageError> {
        let view = yaml.view()?;
        let format = format(&view)?;
        let known = match format {
            PackageFormat::Legacy => LEGACY_KEYS,
            PackageFormat::Draft2023 | PackageFormat::V2025 => NEW_KEYS,
        };
        view.warn_of_unknown(known, warnings);
        let mut validation = ValidationSettings::default();
        let is_scoring = problem_type(&view, &mut validation)?;
        if format == PackageFormat::Legacy || view.get("validation").is_some() {
            legacy_validation(&view, &mut validation)?;
        }
        if let Some(flags) = view.get("validator_flags") {
            validation.flags = flags.words()?;
        }
        if let Some(languages) = view.get("languages")
            && languages.words()? != ["all"]
        {
            warnings.push(format!(
                "{}: the languages of submissions are not restricted",
                languages.place()
            ));
        }
        Ok(PackageSettings {
            path: yaml.path().to_path_buf(),
            format,
            title: title(&view)?,
            is_scoring,
            validation,
            limits: limit_keys::read(&view, format, warnings)?,
            grading: grading(&view, warnings)?,
            constants: constants(&view)?,
        })
    }
}

fn format(view: &YamlView<'_>) -> Result<PackageFormat, PackageError> {
    let Some(version) = view.get("problem_format_version") else {
        return Ok(PackageFormat::Legacy);
    };
    match version.text()? {
        "legacy" | "legacy-icpc" => Ok(PackageFormat::Legacy),
        "2023-07" | "2023-07-draft" => Ok(PackageFormat::Draft2023),
        "2025-09" | "2025-09-draft" => Ok(PackageFormat::V2025),
        other => Err(version.error(format!(
            "'{other}' is not supported; legacy, legacy-icpc, 2023-07-draft and 2025-09 are"
        ))),
    }
}

/// The name in English, or in the first language.
fn title(view: &YamlView<'_>) -> Result<Option<String>, PackageError> {
    let Some(name) = view.get("name") else {
        return Ok(None);
    };
    let names = name.entries();
    let english = name.get("en");
    match english.as_ref().or(names.first().map(|(_, first)| first)) {
        Some(one) => Ok(Some(one.text()?.to_string())),
        None => Ok(Some(name.text()?.to_string())),
    }
}

/// Whether the problem has scores.
fn problem_type(view: &YamlView<'_>, validation: &mut ValidationSettings) -> Result<bool, PackageError> {
    let Some(kind) = view.get("type") else {
        return Ok(false);
    };
    let words = kind.words()?;
    for word in &words {
        match word.as_str() {
            "pass-fail" | "scoring" => {}
            "interactive" => validation.is_interactive = true,
            "multi-pass" | "submit-answer" => return Err(kind.error(format!("'{word}' is not supported"))),
            other => return Err(kind.error(format!("'{other}' is unknown"))),
        }
    }
    let has = |name: &str| words.iter().any(|word| word == name);
    match has("scoring") && has("pass-fail") {
        true => Err(kind.error("must not be both pass-fail and scoring")),
        false => Ok(has("scoring")),
    }
}

fn legacy_validation(view: &YamlView<'_>, validation: &mut ValidationSettings) -> Result<(), PackageError> {
    validation.is_custom = Some(false);
    let Some(value) = view.get("validation") else {
        return Ok(());
    };
    let words = value.words()?;
    let Some((first, rest)) = words.split_first() else {
        return Ok(());
    };
    match first.as_str() {
        "default" if rest.is_empty() => {}
        "default" => {
            return Err(value.error(format!(
                "'default' must stand alone, not with '{}'",
                rest.join(" ")
            )));
        }
        "custom" => validation.is_custom = Some(true),
        other => return Err(value.error(format!("begins with '{other}'; default and custom are known"))),
    }
    for word in rest {
        match word.as_str() {
            "score" => validation.gives_scores = true,
            "interactive" => validation.is_interactive = true,
            "multi-pass" | "multipass" => return Err(value.error(format!("'{word}' is not supported"))),
            other => {
                return Err(value.error(format!("'{other}' is unknown; score and interactive are known")));
            }
        }
    }
    Ok(())
}

fn grading(
    view: &YamlView<'_>,
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<&'static str, String>, PackageError> {
    let mut found = BTreeMap::new();
    let Some(grading) = view.get("grading") else {
        return Ok(found);
    };
    let grading = grading.mapping()?;
    if let Some(objective) = grading.get("objective")
        && objective.text()? != "max"
    {
        let problem = format!("'{}' is not supported: more points are better", objective.text()?);
        return Err(objective.error(problem));
    }
    for key in GRADING_KEYS {
        if let Some(value) = grading.get(key) {
            found.insert(key, value.words()?.join(" "));
        }
    }
    let mut known = vec!["objective", "show_test_data_groups", "custom_scoring"];
    known.extend(GRADING_KEYS);
    grading.warn_of_unknown(&known, warnings);
    Ok(found)
}

fn constants(view: &YamlView<'_>) -> Result<Constants, PackageError> {
    let Some(constants) = view.get("constants") else {
        return Ok(Constants::new());
    };
    let entries = constants.mapping()?.entries();
    let value = |(name, value): (&str, YamlView<'_>)| Ok((name.to_string(), value.text()?.to_string()));
    entries.into_iter().map(value).collect()
}
