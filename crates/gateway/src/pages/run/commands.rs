//! The task of the form as commands that add it: curl, the command line of Conclave, and the JSON of the API.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::InvalidField;
use serde::Serialize;

use super::form::{CASES, DATA, FormContent, FormFile, LIMITS, ReferredContent, RunForm, is_zip};
use super::words::{quote_word, split_words};
use crate::pages::server_address::ServerAddress;

/// The form as text to copy into a shell or a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct TaskCommands {
    pub(super) curl: String,
    pub(super) cli: String,
    pub(super) json: String,
    /// What the commands leave out.
    pub(super) note: Option<String>,
}

/// How long the curl line waits for the end of the task.
const WAIT: &str = "60s";

impl TaskCommands {
    pub(super) fn new(form: &RunForm, server: &ServerAddress) -> Result<TaskCommands, InvalidField> {
        let json = form.to_json()?;
        let json = serde_json::to_string_pretty(&json)
            .map_err(|error| InvalidField::new("form", error.to_string()))?;
        let cli = match CliLine::new(form)? {
            Some(line) => line.render(server),
            None => add_line(&json, server),
        };
        let mut attached = form.upload_names.iter().map(String::as_str).collect::<Vec<_>>();
        attached.extend(form.uploads.iter().map(|upload| upload.path.as_str()));
        let mut attached: Vec<_> = attached.into_iter().map(AttachedFile::of_task).collect();
        let mut notes = Vec::new();
        let cases = form.attached_cases();
        // The API takes cases one by one or in files, not both.
        match form.to_json()?.get(CASES) {
            None => attached.extend(cases.into_iter().map(AttachedFile::of_cases)),
            Some(_) if cases.is_empty() => {}
            Some(_) => {
                notes.push("The attached files with cases are not part of these commands.".to_string())
            }
        }
        if !attached.is_empty() {
            let names: Vec<_> = attached.iter().map(|file| file.path).collect();
            notes.push(format!(
                "curl takes the attached files from the current folder: {}. The JSON and the command line do not have them.",
                names.join(", ")
            ));
        }
        let note = (!notes.is_empty()).then(|| notes.join(" "));
        Ok(TaskCommands {
            curl: curl_line(&json, &attached, server),
            cli,
            json,
            note,
        })
    }
}

/// A file that curl sends beside the JSON of the task.
struct AttachedFile<'f> {
    /// The part of the form that it is.
    part: &'static str,
    path: &'f str,
    path_there: &'f str,
}

impl AttachedFile<'_> {
    fn of_task(path: &str) -> AttachedFile<'_> {
        let (part, path_there) = match path.strip_prefix(DATA) {
            Some(below) => ("data", below),
            None => ("source", path),
        };
        AttachedFile {
            part,
            path,
            path_there,
        }
    }

    fn of_cases(path: &str) -> AttachedFile<'_> {
        let part = if is_zip(path) { "cases_zip" } else { "cases" };
        AttachedFile {
            part,
            path,
            path_there: path,
        }
    }
}

fn curl_line(json: &str, attached: &[AttachedFile<'_>], server: &ServerAddress) -> String {
    let mut line = format!(
        "curl --no-progress-meter --fail-with-body {}",
        quote_word(&format!("{}/api/v1/tasks?wait={WAIT}", server.url))
    );
    line.push_str(server.curl_token());
    if attached.is_empty() {
        line.push_str(" \\\n  -H 'Content-Type: application/json' --data-binary @- ");
    } else {
        line.push_str(" \\\n  -F 'task=<-' ");
        for AttachedFile {
            part,
            path,
            path_there,
        } in attached
        {
            let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
            let part = format!("{part}=@\"{}\";filename=\"{}\"", quoted(path), quoted(path_there));
            let _ = write!(line, "\\\n  -F {} ", quote_word(&part));
        }
    }
    line.push_str(&here_document(json));
    line
}

/// Adds the task from its JSON, for tasks that the flags of the command line cannot describe.
fn add_line(json: &str, server: &ServerAddress) -> String {
    format!("conclave add{} --file - {}", server.flags(), here_document(json))
}

/// The text as the input of a command, as it is: a quoted word ends it, so a shell expands nothing in it.
fn here_document(text: &str) -> String {
    let mut end = "EOF".to_string();
    while text.lines().any(|line| line == end) {
        end.push('_');
    }
    let line_end = if text.ends_with('\n') { "" } else { "\n" };
    format!("<<'{end}'\n{text}{line_end}{end}\n")
}

/// `conclave run` with its flags, and the commands that make its files.
struct CliLine {
    /// Commands before it.
    files: String,
    flags: String,
    /// The words after `--`.
    words: String,
    input: String,
}

impl CliLine {
    /// `None` if the flags cannot describe the task.
    fn new(form: &RunForm) -> Result<Option<CliLine>, InvalidField> {
        let words = |name: &str| {
            split_words(form.get(name)).map_err(|error| InvalidField::new(name, error.to_string()))
        };
        let args = words("execute.args")?;
        let files: Vec<&FormFile> = form.files.iter().filter(|file| !file.is_left_out()).collect();
        let language_command = form.get("execute.command").trim().is_empty();
        let Some(program) = program_of(&files, language_command) else {
            return Ok(None);
        };
        let needs_program = language_command && !args.is_empty();
        if form.needs_json() || (needs_program && program.is_none()) {
            return Ok(None);
        }
        let mut flags = String::new();
        let mut flag = |name: &str, value: &str| {
            if !value.is_empty() {
                let separator = if value.starts_with('-') { "=" } else { " " };
                let _ = write!(flags, " \\\n  --{name}{separator}{}", quote_word(value));
            }
        };
        flag("language", form.get("language").trim());
        flag("root", form.get("root").trim());
        flag("compile", form.get("compile.command"));
        flag("compile-network", form.get("compile.network").trim());
        flag("shell", form.get("execute.command"));
        flag("network", form.get("execute.network").trim());
        for (step, prefix) in [("compile", "compile-"), ("execute", "")] {
            for variable in words(&format!("{step}.env"))? {
                flag(&format!("{prefix}env"), &variable);
            }
            for limit in LIMITS {
                let value = form.get(&format!("{step}.limits.{limit}")).trim();
                // The word for no limit of one's own.
                if value != "none" {
                    flag(&format!("{prefix}{}", limit.replace('_', "-")), value);
                }
            }
        }
        for pattern in words("keep")? {
            flag("keep", &pattern);
        }
        for label in words("labels")? {
            flag("label", &label);
        }
        for name in ["group", "user", "priority", "attempts"] {
            flag(name, form.get(name).trim());
        }
        if !form.get("wait_for_executor").is_empty() {
            flags.push_str(" \\\n  --wait-for-executor");
        }
        let place = files_commands(&files);
        match program {
            Some(name) => {
                let _ = write!(flags, " \\\n  \"$source\"/{}", quote_word(name));
            }
            None => {
                for (folder, used) in [("source", place.source), ("data", place.data)] {
                    if used {
                        let _ = write!(flags, " \\\n  --{folder} \"${folder}\"");
                    }
                }
            }
        }
        let words = args.iter().map(|word| format!(" {}", quote_word(word))).collect();
        Ok(Some(CliLine {
            files: place.commands,
            flags,
            words,
            input: form.get("execute.input").to_string(),
        }))
    }

    fn render(&self, server: &ServerAddress) -> String {
        let CliLine {
            files,
            flags,
            words,
            input,
        } = self;
        let passes_input = if input.is_empty() { "" } else { " --stdin" };
        let words = match words.is_empty() {
            true => String::new(),
            false => format!(" \\\n  --{words}"),
        };
        let run = format!("conclave run{}{passes_input}{flags}{words}", server.flags());
        match input.as_str() {
            "" => format!("{files}{run}\n"),
            whole if whole.ends_with('\n') => format!("{files}{run} {}", here_document(whole)),
            // A here-document would end with a line end.
            part => format!("{files}printf '%s' {} | {run}\n", quote_word(part)),
        }
    }
}

impl RunForm {
    /// Whether only JSON can describe the task: contents of blobs, and what is set for a compile step whose command the
    /// language gives.
    fn needs_json(&self) -> bool {
        let is_blob = |referred: &ReferredContent| matches!(referred, ReferredContent::Blob(_));
        let has_blob = self.files.iter().any(|file| match &file.content {
            FormContent::Referred(referred) => is_blob(referred),
            FormContent::Text(_) => false,
        });
        let names: Vec<String> = LIMITS
            .iter()
            .map(|name| format!("compile.limits.{name}"))
            .collect();
        let names = names
            .iter()
            .map(String::as_str)
            .chain(["compile.env", "compile.network"]);
        let sets_compile = names.into_iter().any(|name| !self.get(name).trim().is_empty());
        let only_input = self.input.is_some() && self.get("execute.input").is_empty();
        has_blob
            || only_input
            || self.is_judged()
            || (sets_compile && self.get("compile.command").trim().is_empty())
    }
}

/// The file that is named as the program on the command line, so that words may follow it. The outer option is `None` if a
/// file has no name, or one that leaves the folder.
fn program_of<'a>(files: &[&'a FormFile], language_command: bool) -> Option<Option<&'a str>> {
    let is_safe = |file: &&FormFile| model::WorkspacePath::new(file.path.as_str()).is_ok();
    if !files.iter().all(is_safe) {
        return None;
    }
    match files {
        [only] if language_command && !only.path.contains('/') => Some(Some(&only.path)),
        _ => Some(None),
    }
}

/// The commands that make files in new folders, and which of the folders they use.
struct FilesCommands {
    commands: String,
    source: bool,
    data: bool,
}

fn files_commands(files: &[&FormFile]) -> FilesCommands {
    let mut made = FilesCommands {
        commands: String::new(),
        source: false,
        data: false,
    };
    let mut folders = Vec::new();
    for file in files {
        let (folder, path) = match file.path.strip_prefix(DATA) {
            Some(below) => ("data", below),
            None => ("source", file.path.as_str()),
        };
        let used = if folder == "data" {
            &mut made.data
        } else {
            &mut made.source
        };
        if !std::mem::replace(used, true) {
            let _ = writeln!(made.commands, "{folder}=$(mktemp -d)");
        }
        let target = format!("\"${folder}\"/{}", quote_word(path));
        if let Some((below, _)) = path.rsplit_once('/') {
            let below = format!("\"${folder}\"/{}", quote_word(below));
            if !folders.contains(&below) {
                let _ = writeln!(made.commands, "mkdir -p {below}");
                folders.push(below);
            }
        }
        made.commands.push_str(&file_command(&file.content, &target));
        if file.executable {
            let _ = writeln!(made.commands, "chmod +x {target}");
        }
    }
    made
}

fn file_command(content: &FormContent, target: &str) -> String {
    match content {
        FormContent::Text(text) if text.ends_with('\n') => format!("cat > {target} {}", here_document(text)),
        FormContent::Text(text) => format!("printf '%s' {} > {target}\n", quote_word(text)),
        FormContent::Referred(ReferredContent::Base64(text)) => {
            // Only what is base64 may stand in the command.
            let bytes = STANDARD.decode(text).unwrap_or_default();
            format!("base64 -d > {target} {}", here_document(&STANDARD.encode(bytes)))
        }
        FormContent::Referred(ReferredContent::Blob(_)) => String::new(),
    }
}
