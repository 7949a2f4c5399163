//! What is in the form of the page Run, and the task that it describes.

mod cases;

use std::collections::BTreeMap;

use api::NewTask;
use bytes::Bytes;
use model::{BlobHash, Content, InvalidField, TaskFile, WorkspacePath};
use serde_json::{Map, Value, json};

pub(super) use self::cases::{CASES, FormCase, cases_of_uploads, form_case, is_zip};

use super::words::split_words;

/// The form of the page Run as the reader has filled it in. The names of its controls are the paths of the API's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RunForm {
    fields: BTreeMap<&'static str, String>,
    pub(super) files: Vec<FormFile>,
    /// The task that is to run again as it is.
    pub(super) run_again: Option<String>,
    /// An input that cannot be shown as text. A text in the form takes its place.
    pub(super) input: Option<ReferredContent>,
    /// A file that the browser has sent as the input.
    pub(super) uploaded_input: Option<Bytes>,
    /// Files that the browser has sent whole.
    pub(super) uploads: Vec<UploadedFile>,
    pub(super) cases: Vec<FormCase>,
    /// The JSON of cases that are too many to be shown, or of a zip with cases.
    pub(super) cases_kept: Option<String>,
    /// The JSON of the fields of the task about its check for which the form has no controls.
    pub(super) check_kept: Option<String>,
    /// Files with cases that the browser has sent.
    pub(super) case_uploads: Vec<UploadedFile>,
    /// Names of files with cases that the browser has and does not send.
    case_upload_names: Vec<String>,
    /// Names of files that the browser has and does not send, for the commands that send them.
    pub(super) upload_names: Vec<String>,
}

/// A file in the form of the page Run: its path in the workspace and its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FormFile {
    pub(super) path: String,
    pub(super) content: FormContent,
    pub(super) executable: bool,
}

/// The content of a file in the form of the page Run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FormContent {
    Text(String),
    Referred(ReferredContent),
}

/// A content that the form of the page Run carries without showing it, because it is binary or large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReferredContent {
    Base64(String),
    Blob(String),
}

/// A file that a browser has sent with the form of the page Run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UploadedFile {
    pub(super) path: String,
    pub(super) bytes: Bytes,
}

impl Default for FormContent {
    fn default() -> FormContent {
        FormContent::Text(String::new())
    }
}

/// The limits of a step, as the API and the form name them.
pub(super) const LIMITS: [&str; 9] = [
    "wall",
    "cpu",
    "memory",
    "output",
    "processes",
    "file_size",
    "open_files",
    "stack",
    "space",
];

/// The limits that are numbers in JSON.
const COUNTS: [&str; 2] = ["processes", "open_files"];

/// The controls with one value each.
pub(super) const FIELDS: [&str; 39] = [
    "language",
    "root",
    "wait_for_executor",
    "compile.command",
    "compile.env",
    "compile.network",
    "compile.limits.wall",
    "compile.limits.cpu",
    "compile.limits.memory",
    "compile.limits.output",
    "compile.limits.processes",
    "compile.limits.file_size",
    "compile.limits.open_files",
    "compile.limits.stack",
    "compile.limits.space",
    "execute.command",
    "execute.args",
    "execute.env",
    "execute.input",
    "execute.network",
    "execute.limits.wall",
    "execute.limits.cpu",
    "execute.limits.memory",
    "execute.limits.output",
    "execute.limits.processes",
    "execute.limits.file_size",
    "execute.limits.open_files",
    "execute.limits.stack",
    "execute.limits.space",
    "problem",
    "check.kind",
    "check.float_tolerance",
    "stop",
    "keep",
    "labels",
    "group",
    "user",
    "priority",
    "attempts",
];

/// The control that holds the files.
pub(super) const FILES: &str = "source";

impl RunForm {
    /// What a control has; empty for one that is not filled in.
    pub(super) fn get(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        if let Some(known) = known_field(name) {
            self.fields.insert(known, value.into());
        }
    }

    pub(super) fn count_controls(&self) -> usize {
        let files = self.files.len() + self.uploads.len() + self.upload_names.len();
        self.fields.len() + files + self.cases.len() + self.case_uploads.len() + self.case_upload_names.len()
    }

    pub(super) fn has_text_files(&self) -> bool {
        self.files
            .iter()
            .any(|file| matches!(file.content, FormContent::Text(_)))
    }

    /// Takes one control of a form that a browser has sent. The controls of a file follow its path.
    pub(super) fn take(&mut self, name: &str, value: String) -> Result<(), InvalidField> {
        let misplaced = || InvalidField::new(FILES, format!("has '{name}' before the path of its file"));
        match name {
            "path" => self.files.push(FormFile {
                path: value.trim().to_string(),
                ..FormFile::default()
            }),
            "text" | "base64" | "blob" => {
                let file = self.files.last_mut().ok_or_else(misplaced)?;
                file.content = match name {
                    "text" => FormContent::Text(with_unix_lines(&value)),
                    "base64" => FormContent::Referred(ReferredContent::Base64(value)),
                    _ => FormContent::Referred(ReferredContent::Blob(value)),
                };
            }
            "executable" => self.files.last_mut().ok_or_else(misplaced)?.executable = !value.is_empty(),
            "input_base64" => self.input = Some(ReferredContent::Base64(value)),
            "input_blob" => self.input = Some(ReferredContent::Blob(value)),
            "run_again" => self.run_again = Some(value),
            "upload_name" => self.upload_names.push(value),
            other => {
                if let Some(taken) = self.take_case_control(other, &with_unix_lines(&value)) {
                    return taken;
                }
                let Some(known) = known_field(other) else {
                    return Err(InvalidField::new(
                        other,
                        "is not a known field of this form; load the page again",
                    ));
                };
                if self.fields.insert(known, with_unix_lines(&value)).is_some() {
                    return Err(InvalidField::new(other, "is given twice"));
                }
            }
        }
        Ok(())
    }

    /// The task in the JSON of the API, without the files that the browser sends beside it.
    pub(super) fn to_json(&self) -> Result<Value, InvalidField> {
        let mut task = Map::new();
        for name in ["language", "root", "group", "user"] {
            insert_text(&mut task, name, self.trimmed(name));
        }
        if !self.get("wait_for_executor").is_empty() {
            task.insert("wait_for_executor".into(), true.into());
        }
        for name in ["priority", "attempts"] {
            insert_number(&mut task, name, self.trimmed(name));
        }
        let keep = self.words("keep")?;
        if !keep.is_empty() {
            task.insert("keep".into(), keep.into());
        }
        insert_map(&mut task, "labels", self.pairs("labels")?);
        self.insert_files(&mut task)?;
        self.insert_judging(&mut task)?;
        let compile = self.step("compile")?;
        if !compile.is_empty() {
            task.insert("compile".into(), compile.into());
        }
        let mut execute = self.step("execute")?;
        let args = self.words("execute.args")?;
        if !args.is_empty() {
            execute.insert("args".into(), args.into());
        }
        let input = self.get("execute.input");
        match (&self.input, input.is_empty()) {
            // Each case has an input of its own.
            _ if self.is_judged() => {}
            (Some(referred), true) => drop(execute.insert("input".into(), referred.to_json())),
            (_, true) => {}
            (_, false) => drop(execute.insert("input".into(), input.into())),
        }
        if !execute.is_empty() {
            task.insert("execute".into(), execute.into());
        }
        Ok(task.into())
    }

    /// The task to add. It is parsed as a request of the API is, so the same rules and messages apply.
    pub(super) fn to_task(&self) -> Result<NewTask, InvalidField> {
        let json = self.to_json()?.to_string();
        let mut task: NewTask = api::parse_json(json.as_bytes()).map_err(|error| match error {
            api::ParseError::Invalid(invalid) => invalid,
            other => InvalidField::new("body", other.to_string()),
        })?;
        self.add_case_uploads(&mut task)?;
        if let Some(bytes) = self.uploaded_input.as_ref().filter(|_| !self.is_judged()) {
            if self.input.is_some() || !self.get("execute.input").is_empty() {
                let problem = "is given as a text and as a file; choose one";
                return Err(InvalidField::new("execute.input", problem));
            }
            task.execute.input = Content::Inline(bytes.clone());
        }
        for UploadedFile { path, bytes } in &self.uploads {
            let (field, files, path) = match path.strip_prefix(DATA) {
                Some(path) => ("data", &mut task.data, path),
                None => ("source", &mut task.source, path.as_str()),
            };
            let at = format!("{field}.{path}");
            let api::FilesOrZip::ByPath(files) = files else {
                return Err(InvalidField::new(field, "is a zip; add its files one by one"));
            };
            let path = WorkspacePath::new(path).map_err(|error| InvalidField::new(&at, error.to_string()))?;
            let content = Content::Inline(bytes.clone());
            let executable = false;
            if files.insert(path, TaskFile { content, executable }).is_some() {
                return Err(InvalidField::new(at, "is given twice; rename one of the files"));
            }
        }
        Ok(task)
    }

    fn trimmed(&self, name: &str) -> &str {
        self.get(name).trim()
    }

    fn words(&self, name: &str) -> Result<Vec<String>, InvalidField> {
        split_words(self.get(name)).map_err(|error| InvalidField::new(name, error.to_string()))
    }

    /// The words of a control, each of the form NAME=VALUE.
    fn pairs(&self, name: &str) -> Result<Map<String, Value>, InvalidField> {
        let mut pairs = Map::new();
        for word in self.words(name)? {
            let Some((key, value)) = word.split_once('=').filter(|(key, _)| !key.is_empty()) else {
                let problem = format!("has '{word}', which is not of the form NAME=VALUE");
                return Err(InvalidField::new(name, problem));
            };
            if pairs.insert(key.to_string(), value.into()).is_some() {
                return Err(InvalidField::new(name, format!("gives '{key}' twice")));
            }
        }
        Ok(pairs)
    }

    /// What the two steps have in common.
    fn step(&self, step: &str) -> Result<Map<String, Value>, InvalidField> {
        let mut fields = Map::new();
        let command = self.get(&format!("{step}.command"));
        if !command.trim().is_empty() {
            fields.insert("command".into(), command.into());
        }
        insert_map(&mut fields, "env", self.pairs(&format!("{step}.env"))?);
        insert_text(&mut fields, "network", self.trimmed(&format!("{step}.network")));
        let mut limits = Map::new();
        for name in LIMITS {
            let value = self.trimmed(&format!("{step}.limits.{name}"));
            match COUNTS.contains(&name) {
                true => insert_number(&mut limits, name, value),
                false => insert_text(&mut limits, name, value),
            }
        }
        insert_map(&mut fields, "limits", limits);
        Ok(fields)
    }

    fn insert_files(&self, task: &mut Map<String, Value>) -> Result<(), InvalidField> {
        let (mut source, mut data) = (Map::new(), Map::new());
        for file in self.files.iter().filter(|file| !file.is_left_out()) {
            let FormFile { path, .. } = file;
            // A lone program needs no name: its language gives it one.
            if path.is_empty() && !self.trimmed("language").is_empty() && !task.contains_key("source_code") {
                task.insert("source_code".into(), file.content_json());
                continue;
            }
            if path.is_empty() {
                return Err(InvalidField::new(FILES, "has a file without a name; name it"));
            }
            let replaced = match path.strip_prefix(DATA) {
                Some(below) => data.insert(below.to_string(), file.to_json()),
                None => source.insert(path.clone(), file.to_json()),
            };
            if replaced.is_some() {
                let problem = "is given twice; rename one of the files";
                return Err(InvalidField::new(format!("{FILES}.{path}"), problem));
            }
        }
        insert_map(task, "source", source);
        insert_map(task, "data", data);
        Ok(())
    }
}

/// Files below this folder are the task's data.
pub(super) const DATA: &str = "data/";

impl FormFile {
    /// An empty row of the form. Emptying the name of a file that is not shown leaves it out.
    pub(super) fn is_left_out(&self) -> bool {
        self.path.is_empty()
            && match &self.content {
                FormContent::Text(text) => text.is_empty(),
                FormContent::Referred(_) => true,
            }
    }

    fn content_json(&self) -> Value {
        match &self.content {
            FormContent::Text(text) => text.as_str().into(),
            FormContent::Referred(referred) => referred.to_json(),
        }
    }

    fn to_json(&self) -> Value {
        match &self.content {
            FormContent::Text(text) if !self.executable => text.as_str().into(),
            FormContent::Text(text) => json!({"text": text, "executable": true}),
            FormContent::Referred(referred) => {
                let mut file = referred.to_json();
                // Given even if it is false: a file named `zip` would otherwise be unpacked.
                file["executable"] = self.executable.into();
                file
            }
        }
    }
}

impl ReferredContent {
    pub(super) fn blob(hash: BlobHash) -> ReferredContent {
        ReferredContent::Blob(hash.to_string())
    }

    fn to_json(&self) -> Value {
        match self {
            ReferredContent::Base64(text) => json!({"base64": text}),
            ReferredContent::Blob(hash) => json!({"blob": hash}),
        }
    }
}

fn known_field(name: &str) -> Option<&'static str> {
    FIELDS.iter().find(|known| **known == name).copied()
}

/// Browsers send every line end of a text as CR LF.
fn with_unix_lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

fn insert_text(map: &mut Map<String, Value>, name: &str, value: &str) {
    if !value.is_empty() {
        map.insert(name.to_string(), value.into());
    }
}

/// A number, or the text as it is, which the parser of the API refuses.
fn insert_number(map: &mut Map<String, Value>, name: &str, value: &str) {
    match value.parse::<i64>() {
        Ok(number) => drop(map.insert(name.to_string(), number.into())),
        Err(_) => insert_text(map, name, value),
    }
}

fn insert_map(map: &mut Map<String, Value>, name: &str, value: Map<String, Value>) {
    if !value.is_empty() {
        map.insert(name.to_string(), value.into());
    }
}

/// The control of the form that shows an error about this field of the API.
pub(super) fn control_of(field: &str) -> Option<&'static str> {
    let is_within = |control: &str| {
        let rest = field.strip_prefix(control);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let files = ["source", "source_code", "data", "path", "text"];
    if files.into_iter().any(is_within) {
        return Some(FILES);
    }
    if [CASES, "groups", "case"].into_iter().any(is_within) {
        return Some(CASES);
    }
    let known = FIELDS.iter().find(|known| is_within(known)).copied();
    known.or_else(|| match field.split('.').next() {
        Some("compile") => Some("compile.command"),
        Some("execute") => Some("execute.command"),
        Some("check" | "interact") => Some("check.kind"),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
