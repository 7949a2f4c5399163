//! The test data of a package: a tree of groups with cases.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::{CaseName, Judging};

use crate::constants::{Constants, replace_in_text};
use crate::error::PackageError;
use crate::folder::{EntryKind, FolderEntry, MAX_DEPTH, PackageFolder};
use crate::package::{PackageFile, PackageFormat};
use crate::yaml::YamlFile;

/// A folder of the test data: its cases, and the groups in it.
#[derive(Debug)]
pub(crate) struct DataGroup {
    /// The path in `data/`; empty for `data/` itself.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) settings: Option<YamlFile>,
    pub(crate) cases: Vec<DataCase>,
    pub(crate) groups: Vec<DataGroup>,
}

/// The files of a case.
#[derive(Debug)]
pub(crate) struct DataCase {
    pub(crate) name: CaseName,
    pub(crate) input: PathBuf,
    pub(crate) answer: PathBuf,
    pub(crate) files: Vec<PackageFile>,
    pub(crate) settings: Option<YamlFile>,
}

/// What every group is read with.
struct DataReader<'a> {
    folder: &'a PackageFolder,
    format: PackageFormat,
    constants: &'a Constants,
    cases: usize,
    warnings: &'a mut Vec<String>,
}

/// Files of a folder that may belong to one case, by their extensions.
#[derive(Default)]
struct CaseEntries {
    input: Option<FolderEntry>,
    answer: Option<FolderEntry>,
    files: Option<FolderEntry>,
    settings: Option<FolderEntry>,
}

pub(crate) const SAMPLE: &str = "sample";
pub(crate) const SECRET: &str = "secret";
/// Folders with data for the tests of validators.
const DATA_OF_VALIDATORS: [&str; 8] = [
    "bad",
    "invalid_answers",
    "invalid_input",
    "invalid_inputs",
    "invalid_output",
    "invalid_outputs",
    "valid_output",
    "valid_outputs",
];

/// Reads `data/`. The group that is returned has the groups `sample` and `secret`, if they exist.
pub(crate) fn read_data(
    folder: &PackageFolder,
    format: PackageFormat,
    constants: &Constants,
    warnings: &mut Vec<String>,
) -> Result<DataGroup, PackageError> {
    let Some(data) = folder.find("data")? else {
        let path = folder.root().to_path_buf();
        return Err(match folder.is_polygon()? {
            true => PackageError::Polygon { path },
            false => PackageError::NoCases {
                path: path.join("data"),
                answers: "*.ans",
            },
        });
    };
    let mut reader = DataReader {
        folder,
        format,
        constants,
        cases: 0,
        warnings,
    };
    let mut root = DataGroup {
        name: String::new(),
        settings: None,
        cases: vec![],
        groups: vec![],
        path: data.path.clone(),
    };
    for entry in folder.entries(&data.path)? {
        match (entry.kind, entry.name.as_str()) {
            (EntryKind::Folder, SAMPLE | SECRET) => {
                root.groups.push(reader.group(entry.path, entry.name.clone(), 0)?)
            }
            (EntryKind::Folder, name) if DATA_OF_VALIDATORS.contains(&name) => {}
            (EntryKind::Folder, _) => reader.warn(&entry, "is neither data/sample nor data/secret, ignored"),
            (EntryKind::File { .. }, name) if reader.is_group_settings(name) => {
                root.settings = Some(reader.yaml(&entry.path)?);
            }
            (EntryKind::File { .. }, name) if name.ends_with(".in") || name.ends_with(".ans") => {
                reader.warn(&entry, "is in neither data/sample nor data/secret, ignored");
            }
            (EntryKind::File { .. }, _) => {}
        }
    }
    if reader.cases == 0 {
        return Err(PackageError::NoCases {
            path: data.path,
            answers: "*.ans",
        });
    }
    if !root
        .groups
        .iter()
        .any(|group| group.name == SECRET && group.has_cases())
    {
        warnings.push(format!("{}: no cases in data/secret", data.path.display()));
    }
    Ok(root)
}

impl DataGroup {
    pub(crate) fn has_cases(&self) -> bool {
        !self.cases.is_empty() || self.groups.iter().any(DataGroup::has_cases)
    }

    /// All cases in it and in its groups, in the order in which they run.
    pub(crate) fn all_cases(&self) -> Vec<&DataCase> {
        let mut found: Vec<&DataCase> = self.cases.iter().collect();
        for group in &self.groups {
            found.extend(group.all_cases());
        }
        found.sort_by(|a, b| in_order(&a.name, &b.name));
        found
    }
}

/// The order of cases and groups: name by name, so that a group stays together.
pub(crate) fn in_order(a: &CaseName, b: &CaseName) -> std::cmp::Ordering {
    a.as_str().split('/').cmp(b.as_str().split('/'))
}

impl DataReader<'_> {
    fn warn(&mut self, entry: &FolderEntry, problem: &str) {
        self.warnings.push(format!("{}: {problem}", entry.path.display()));
    }

    fn is_group_settings(&self, name: &str) -> bool {
        match self.format {
            PackageFormat::Legacy => name == "testdata.yaml",
            // Drafts had both names.
            PackageFormat::Draft2023 => name == "test_group.yaml" || name == "testdata.yaml",
            PackageFormat::V2025 => name == "test_group.yaml",
        }
    }

    fn yaml(&self, path: &Path) -> Result<YamlFile, PackageError> {
        let text = self.folder.text(path)?;
        YamlFile::parse(path, &replace_in_text(&text, self.constants))
    }

    fn group(&mut self, path: PathBuf, name: String, depth: usize) -> Result<DataGroup, PackageError> {
        if depth > MAX_DEPTH {
            return Err(PackageError::TooDeep {
                path,
                limit: MAX_DEPTH,
            });
        }
        let mut cases: BTreeMap<String, CaseEntries> = BTreeMap::new();
        let mut group = DataGroup {
            path: path.clone(),
            settings: None,
            cases: vec![],
            groups: vec![],
            name,
        };
        let entries = self.folder.entries(&path)?;
        let has_case = |stem: &str| {
            entries
                .iter()
                .any(|entry| entry.name.strip_suffix(".in") == Some(stem))
        };
        let mut folders = vec![];
        for entry in entries.clone() {
            let (stem, extension) = match entry.name.rsplit_once('.') {
                Some((stem, extension)) => (stem.to_string(), extension.to_string()),
                None => (entry.name.clone(), String::new()),
            };
            let is_new = self.format != PackageFormat::Legacy;
            match (entry.kind, extension.as_str()) {
                (EntryKind::Folder, "files") if is_new || has_case(&stem) => {
                    cases.entry(stem).or_default().files = Some(entry);
                }
                // An input that is a folder is no group: reading it says so.
                (_, "in") => cases.entry(stem).or_default().input = Some(entry),
                (_, "ans") => cases.entry(stem).or_default().answer = Some(entry),
                (EntryKind::Folder, _) => folders.push(entry),
                (EntryKind::File { .. }, "yaml") if self.is_group_settings(&entry.name) => {
                    if let Some(other) = &group.settings {
                        let text = format!("is not read: {} is", other.path().display());
                        self.warn(&entry, &text);
                        continue;
                    }
                    group.settings = Some(self.yaml(&entry.path)?);
                }
                (EntryKind::File { .. }, "yaml") if matches!(stem.as_str(), "testdata" | "test_group") => {
                    let text = format!("belongs to another format than {}, ignored", self.format);
                    self.warn(&entry, &text);
                }
                (EntryKind::File { .. }, "yaml") if is_new => {
                    cases.entry(stem).or_default().settings = Some(entry);
                }
                (EntryKind::File { .. }, "args") => {
                    self.warn(&entry, "is not read: arguments belong in a .yaml file")
                }
                (EntryKind::File { .. }, _) => {}
            }
        }
        for (stem, entries) in cases {
            group.cases.push(self.case(&group, &stem, entries)?);
        }
        for entry in folders {
            let name = format!("{}/{}", group.name, entry.name);
            let inner = self.group(entry.path, name, depth + 1)?;
            group.groups.push(inner);
        }
        Ok(group)
    }

    fn case(
        &mut self,
        group: &DataGroup,
        stem: &str,
        entries: CaseEntries,
    ) -> Result<DataCase, PackageError> {
        let others = [&entries.answer, &entries.files, &entries.settings];
        let Some(input) = entries.input else {
            let path = others
                .into_iter()
                .flatten()
                .next()
                .map(|entry| entry.path.clone());
            return Err(PackageError::NoInput {
                path: path.unwrap_or_else(|| group.path.clone()),
                expected: format!("{stem}.in"),
            });
        };
        let Some(answer) = entries.answer else {
            return Err(PackageError::NoAnswer {
                path: input.path,
                expected: format!("{stem}.ans"),
            });
        };
        self.cases += 1;
        if self.cases > Judging::MAX_CASES {
            return Err(PackageError::TooManyCases {
                path: self.folder.root().to_path_buf(),
            });
        }
        let name =
            CaseName::new(format!("{}/{stem}", group.name)).map_err(|problem| PackageError::CaseName {
                path: input.path.clone(),
                problem,
            })?;
        Ok(DataCase {
            name,
            input: self.folder.take_file(&input)?,
            answer: self.folder.take_file(&answer)?,
            files: match entries.files {
                Some(entry) => self.folder.files_under(&entry.path)?,
                None => vec![],
            },
            settings: match entries.settings {
                Some(entry) => Some(self.yaml(&entry.path)?),
                None => None,
            },
        })
    }
}
