//! Fills the form of the page Run with an example of a language, or with a task that exists.

mod cases;

pub(super) use self::cases::set_cases;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::TryStreamExt;
use model::{
    AddTask, BlobHash, Content, Language, LanguageExample, Limits, SourceClasses, StepCommand, Task, TaskSpec,
};

use super::form::{FormContent, FormFile, ReferredContent, RunForm};
use super::step_limits::{LimitSources, StepLimits};
use super::words::{join_words, quote_word};
use crate::caller::DEFAULT_USER;
use crate::gateway::Gateway;

/// A larger content is not put into a page; the form refers to its blob.
const MAX_SHOWN_BYTES: u64 = 64 << 10;

/// All contents of a form together.
const MAX_SHOWN_TOTAL: u64 = 1 << 20;

/// A content in hexadecimal or base64 would be useless to a reader, and a browser would change the line ends of this one.
pub(super) fn is_editable(bytes: &[u8]) -> bool {
    let is_shown = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_shown))
}

/// The content of a file or an input as a form can carry it.
pub(super) fn form_content(bytes: &[u8]) -> FormContent {
    match std::str::from_utf8(bytes) {
        Ok(text) if is_editable(bytes) => FormContent::Text(text.to_string()),
        _ => FormContent::Referred(ReferredContent::Base64(STANDARD.encode(bytes))),
    }
}

/// The form with the example of the language. Its file needs no name: it has the usual one of the language that is chosen when
/// the form is sent.
pub(super) fn example(language: &Language) -> RunForm {
    let mut form = RunForm::default();
    form.set("language", language.name.as_str());
    form.set("execute.input", LanguageExample::INPUT);
    form.files.push(FormFile {
        path: String::new(),
        content: FormContent::Text(example_source(language)),
        executable: false,
    });
    form
}

pub(super) fn example_source(language: &Language) -> String {
    language.example.source.trim_start_matches('\n').to_string()
}

/// The form with the source, commands, input and limits of a task. What the task has from its language or from the
/// operator's defaults is left to them again.
pub(super) async fn from_task(gateway: &Gateway, task: Task, sources: LimitSources<'_>) -> RunForm {
    let language = sources.language;
    let mut spec = task.spec;
    let mut form = RunForm::default();
    cases::set_judging(gateway, &mut form, &mut spec).await;
    let mut budget = MAX_SHOWN_TOTAL;
    let left_out = LeftToLanguage::of(&spec, language);
    let text = |value: Option<&str>| value.unwrap_or_default().to_string();
    form.set("language", text(spec.language.as_ref().map(|name| name.as_str())));
    if !left_out.root {
        form.set("root", text(spec.root.as_ref().map(|name| name.as_str())));
    }
    form.set("group", text(spec.group.as_ref().map(|name| name.as_str())));
    if spec.user.as_str() != DEFAULT_USER {
        form.set("user", spec.user.as_str());
    }
    if spec.priority != 0 {
        form.set("priority", spec.priority.to_string());
    }
    form.set(
        "keep",
        join_words(spec.keep.iter().map(|pattern| pattern.as_str()), " "),
    );
    form.set("labels", pairs(spec.labels.iter()));
    let requested = sources.requested(&StepLimits {
        compile: spec.compile.as_ref().map(|step| step.limits),
        execute: spec.execute.limits,
    });
    if let Some(compile) = &spec.compile {
        if !left_out.compile {
            form.set("compile.command", command_line(&compile.command));
        }
        form.set("compile.env", variables(&compile.env, language));
        form.set(
            "compile.network",
            text(compile.network.as_ref().map(|name| name.as_str())),
        );
        set_limits(&mut form, "compile", &requested.compile.unwrap_or_default());
    }
    let execute = &spec.execute;
    if !left_out.execute {
        form.set("execute.command", command_line(&execute.command));
    }
    form.set(
        "execute.args",
        join_words(execute.args.iter().map(String::as_str), " "),
    );
    form.set("execute.env", variables(&execute.env, language));
    form.set(
        "execute.network",
        text(execute.network.as_ref().map(|name| name.as_str())),
    );
    set_limits(&mut form, "execute", &requested.execute);
    match shown_content(gateway, &execute.input, &mut budget).await {
        FormContent::Text(text) => form.set("execute.input", text),
        FormContent::Referred(referred) => form.input = Some(referred),
    }
    let source = spec.source.iter().map(|(path, file)| (path.to_string(), file));
    let data = spec
        .data
        .iter()
        .map(|(path, file)| (format!("data/{path}"), file));
    for (path, file) in source.chain(data) {
        form.files.push(FormFile {
            path,
            content: shown_content(gateway, &file.content, &mut budget).await,
            executable: file.executable,
        });
    }
    form
}

/// The value of a limit as a person writes it; `None` if there is none.
pub(super) fn limit_text(limits: &Limits, name: &str) -> Option<String> {
    let time = |time: Option<Duration>| time.map(short_time);
    let size = |size: Option<u64>| size.map(short_size);
    let count = |count: Option<u32>| count.map(|count| count.to_string());
    match name {
        "wall" => time(limits.wall),
        "cpu" => time(limits.cpu),
        "memory" => size(limits.memory),
        "output" => size(limits.output),
        "processes" => count(limits.processes),
        "file_size" => size(limits.file_size),
        "open_files" => count(limits.open_files),
        "stack" => size(limits.stack),
        "space" => size(limits.space),
        _ => None,
    }
}

/// Which parts of a task are those that its language fills in.
#[derive(Default)]
struct LeftToLanguage {
    compile: bool,
    execute: bool,
    root: bool,
}

impl LeftToLanguage {
    /// Compares the task with what the language makes of it without them.
    fn of(spec: &TaskSpec, language: Option<&Language>) -> LeftToLanguage {
        let Some(language) = language else {
            return LeftToLanguage::default();
        };
        let mut without = spec.clone();
        without.compile = None;
        without.execute.command = StepCommand::of_language();
        let mut add = AddTask::new(model::TaskId(uuid::Uuid::nil()), without);
        // A class in a blob is not known here; then the commands are shown.
        if language.fill_in(&mut add, &SourceClasses::default()).is_err() {
            return LeftToLanguage::default();
        }
        let filled = add.spec;
        let compile = |spec: &TaskSpec| spec.compile.as_ref().map(|step| step.command.clone());
        LeftToLanguage {
            compile: compile(&filled) == compile(spec),
            execute: filled.execute.command == spec.execute.command,
            root: spec.root == language.root,
        }
    }
}

/// The command as a shell line. A program without a shell is one with `exec`.
fn command_line(command: &StepCommand) -> String {
    match command {
        StepCommand::Shell(text) => text.clone(),
        StepCommand::Argv(words) => format!("exec {}", join_words(words.iter().map(String::as_str), " ")),
    }
}

/// The variables that the language does not set, one on each line.
fn variables(env: &std::collections::BTreeMap<String, String>, language: Option<&Language>) -> String {
    let own = language.map(|language| &language.env);
    let is_own = |name: &String, value: &String| own.is_some_and(|own| own.get(name) == Some(value));
    let others = env.iter().filter(|(name, value)| !is_own(name, value));
    pairs(others.map(|(name, value)| (name.as_str(), value.as_str())))
}

fn pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let words = pairs.map(|(name, value)| format!("{name}={value}"));
    words.map(|word| quote_word(&word)).collect::<Vec<_>>().join("\n")
}

fn set_limits(form: &mut RunForm, step: &str, requested: &Limits) {
    for name in super::form::LIMITS {
        if let Some(value) = limit_text(requested, name) {
            form.set(&format!("{step}.limits.{name}"), value);
        }
    }
}

async fn shown_content(gateway: &Gateway, content: &Content, budget: &mut u64) -> FormContent {
    match content {
        // Contents inside a task are small.
        Content::Inline(bytes) => {
            *budget = budget.saturating_sub(bytes.len() as u64);
            form_content(bytes)
        }
        Content::Blob(hash) => {
            let loaded = load_text(gateway, *hash, MAX_SHOWN_BYTES.min(*budget)).await;
            let shown = loaded.filter(|bytes| is_editable(bytes));
            match shown.map(String::from_utf8) {
                Some(Ok(text)) => {
                    *budget = budget.saturating_sub(text.len() as u64);
                    FormContent::Text(text)
                }
                _ => FormContent::Referred(ReferredContent::blob(*hash)),
            }
        }
    }
}

/// The content of a blob that is no larger than this. A blob that cannot be read is referred to, and missed only when the
/// task is added.
async fn load_text(gateway: &Gateway, hash: BlobHash, limit: u64) -> Option<Vec<u8>> {
    let size = gateway.blob_size(hash).await.ok()?;
    if size > limit {
        return None;
    }
    let mut chunks = gateway.calls.get_blob(hash).await.ok()?;
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.try_next().await.ok()? {
        bytes.extend_from_slice(&chunk);
    }
    Some(bytes)
}

/// The shortest text that the API reads as the same duration.
fn short_time(time: Duration) -> String {
    match (time.as_secs(), time.subsec_nanos()) {
        (seconds, 0) if seconds >= 3600 && seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        (seconds, 0) => format!("{seconds}s"),
        (0, nanos) if nanos % 1_000_000 == 0 => format!("{}ms", nanos / 1_000_000),
        _ => format!("{}s", time.as_secs_f64()),
    }
}

/// The shortest text that the API reads as the same size.
fn short_size(size: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let whole = units
        .into_iter()
        .find(|(_, shift)| size >= 1 << shift && size.is_multiple_of(1 << shift));
    match whole {
        Some((unit, shift)) => format!("{}{unit}", size >> shift),
        None => size.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use api::{ByteSize, HumanDuration};
    use bytes::Bytes;
    use model::{TaskFile, UserName, WorkspacePath};

    use super::*;

    #[test]
    fn limits_are_written_as_the_api_reads_them() {
        let check_time = |milliseconds: u64, expected: &str| {
            let time = Duration::from_millis(milliseconds);
            assert_eq!(short_time(time), expected);
            assert_eq!(expected.parse(), Ok(HumanDuration(time)));
        };
        check_time(250, "250ms");
        check_time(60_000, "60s");
        check_time(7_200_000, "2h");
        check_time(1_500, "1.5s");
        let check_size = |bytes: u64, expected: &str| {
            assert_eq!(short_size(bytes), expected);
            assert_eq!(expected.parse(), Ok(ByteSize(bytes)));
        };
        check_size(1 << 30, "1GiB");
        check_size(3 << 19, "1536KiB");
        check_size(1000, "1000");
    }

    #[test]
    fn text_is_edited_and_other_content_is_referred_to() {
        let check = |bytes: &[u8], expected: bool| assert_eq!(is_editable(bytes), expected, "{bytes:?}");
        check(b"", true);
        check("héllo\n\tx".as_bytes(), true);
        check(b"a\r\nb", false);
        check(b"a\0b", false);
        check(b"\x1b[31m", false);
        check(b"\xff", false);
        let referred = ReferredContent::Base64("/w==".into());
        assert_eq!(form_content(b"\xff"), FormContent::Referred(referred));
    }

    fn python() -> Language {
        Language {
            name: model::LanguageName::new("python").unwrap(),
            title: "Python 3".into(),
            compiler: "CPython".into(),
            aliases: vec![],
            extensions: vec!["py".into()],
            source_name: WorkspacePath::new("main.py").unwrap(),
            compile: None,
            execute: "python3 {source}".into(),
            programs: vec!["python3".into()],
            version: None,
            root: None,
            env: [("LANG".to_string(), "C".to_string())].into(),
            has_class_name: false,
            limits: model::LanguageLimits {
                time_factor: 2.0,
                ..model::LanguageLimits::default()
            },
            example: LanguageExample::default(),
        }
    }

    #[tokio::test]
    async fn a_form_filled_from_a_task_describes_the_same_task() {
        let (gateway, _) = crate::fake_calls::gateway(std::sync::Arc::default());
        let file = TaskFile {
            content: Content::Inline(Bytes::from_static(b"print(1)\n")),
            executable: false,
        };
        let path = |text: &str| WorkspacePath::new(text).unwrap();
        let mut spec = TaskSpec::new(UserName::new("ada").unwrap(), StepCommand::of_language());
        spec.language = Some(python().name);
        spec.source.insert(path("main.py"), file.clone());
        spec.data.insert(path("t/in.txt"), file);
        spec.execute.args = vec!["a b".into(), String::new(), "it's".into()];
        spec.execute.env = [("X".to_string(), "1\n2".to_string())].into();
        spec.execute.limits.memory = Some(64 << 20);
        spec.labels = model::Labels::new([("k".to_string(), "v w".to_string())].into()).unwrap();
        let requested = spec.clone();
        // As a judicator stores it.
        let mut add = AddTask::new(model::TaskId(uuid::Uuid::nil()), spec);
        python().fill_in(&mut add, &SourceClasses::default()).unwrap();
        let limits = &mut add.spec.execute.limits;
        *limits = gateway.options.limits.resolve(*limits).unwrap();
        limits.wall = Some(Duration::from_secs(120));
        let task = Task {
            spec: add.spec,
            ..crate::fake_calls::task()
        };
        let language = python();
        let sources = LimitSources {
            policy: &gateway.options.limits,
            language: Some(&language),
            capacity: model::Capacity::UNKNOWN,
        };
        let form = from_task(&gateway, task, sources).await;
        assert_eq!(form.get("execute.command"), "");
        assert_eq!(form.get("execute.limits.wall"), "");
        assert_eq!(form.get("execute.limits.memory"), "64MiB");
        let again = form.to_task().unwrap();
        assert_eq!(again.source, requested.source.into());
        assert_eq!(again.data, requested.data.into());
        assert_eq!(model::ExecuteStep::from(again.execute), requested.execute);
        assert_eq!(
            (again.labels, again.user),
            (requested.labels, Some(requested.user))
        );
        assert_eq!((again.language, again.compile), (requested.language, None));
    }
}
