//! Validates a task. Errors name the field, the problem and, if a limit was exceeded, the limit and the value.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::{Limits, StepCommand, TaskSpec, WorkspacePath};

/// Why a task or parameter of a user is refused: the field, the problem, and the limit if it was exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidField {
    /// The path of the field, as the caller spells it: `execute.limits.wall`.
    pub field: String,
    pub problem: String,
    pub limit: Option<String>,
    pub actual: Option<String>,
}

impl std::error::Error for InvalidField {}

/// Every file of the workspace is compared with every pattern.
const MAX_KEEP_PATTERNS: usize = 100;

/// The limits on the size of a new task: its files, inline bytes, command, arguments and variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSizeLimits {
    pub files: usize,
    /// Bytes in the spec itself: inline files, input, command, args, env. Larger content must be in blobs.
    pub inline_bytes: u64,
    pub command_bytes: usize,
    pub args: usize,
    pub env: usize,
}

impl Default for TaskSizeLimits {
    fn default() -> TaskSizeLimits {
        TaskSizeLimits {
            files: 1000,
            inline_bytes: 8 << 20,
            command_bytes: 64 << 10,
            args: 1000,
            env: 1000,
        }
    }
}

impl InvalidField {
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> InvalidField {
        InvalidField {
            field: field.into(),
            problem: problem.into(),
            limit: None,
            actual: None,
        }
    }

    pub fn over_limit(
        field: impl Into<String>,
        problem: impl Into<String>,
        limit: impl fmt::Display,
        actual: impl fmt::Display,
    ) -> InvalidField {
        InvalidField {
            field: field.into(),
            problem: problem.into(),
            limit: Some(limit.to_string()),
            actual: Some(actual.to_string()),
        }
    }

    /// The same error for a field inside `outer`.
    pub fn within(mut self, outer: &str) -> InvalidField {
        self.field = if self.field.is_empty() {
            outer.to_string()
        } else {
            format!("{outer}.{}", self.field)
        };
        self
    }
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)?;
        if let (Some(limit), Some(actual)) = (&self.limit, &self.actual) {
            write!(f, " (limit {limit}, actual {actual})")?;
        }
        Ok(())
    }
}

impl TaskSpec {
    pub fn check(&self, bounds: &TaskSizeLimits) -> Result<(), InvalidField> {
        // Commands that the request leaves to its language are filled in later.
        let is_filled_in = |command: &StepCommand| self.language.is_some() && command.is_of_language();
        if let Some(compile) = &self.compile {
            if !is_filled_in(&compile.command) {
                check_command("compile.command", &compile.command, bounds)?;
            }
            check_limits("compile.limits", &compile.limits)?;
            check_env("compile.env", &compile.env, bounds)?;
        }
        if !is_filled_in(&self.execute.command) {
            check_command("execute.command", &self.execute.command, bounds)?;
        }
        check_limits("execute.limits", &self.execute.limits)?;
        check_args("execute.args", &self.execute.args, bounds)?;
        check_env("execute.env", &self.execute.env, bounds)?;
        self.check_files(bounds)?;
        self.check_keep()?;
        self.check_judging(bounds)?;
        if self.attempts == Some(0) {
            return Err(InvalidField::new("attempts", "must be at least 1"));
        }
        let command_bytes = self.command_bytes();
        if command_bytes > bounds.inline_bytes {
            return Err(InvalidField::over_limit(
                "execute",
                "the command, its arguments and its environment are too large together",
                bounds.inline_bytes,
                command_bytes,
            ));
        }
        let files: u64 = self.contents().map(|content| content.inline_len()).sum();
        if command_bytes + files > bounds.inline_bytes {
            return Err(InvalidField::over_limit(
                "source",
                "the inline files, input and cases are too large together; upload large ones as blobs",
                bounds.inline_bytes,
                command_bytes + files,
            ));
        }
        Ok(())
    }

    /// The bytes that cannot be moved into blobs: commands, arguments and variables.
    pub fn command_bytes(&self) -> u64 {
        let compile = self.compile.iter().map(|step| step.command.bytes());
        let execute = &self.execute;
        let args = execute.args.iter().map(String::len);
        let variables = self.compile.iter().flat_map(|step| &step.env).chain(&execute.env);
        let env = variables.map(|(name, value)| name.len() + value.len());
        let cases = self.judging.iter().flat_map(|judging| &judging.cases);
        // The names travel with the results, too.
        let case_words = cases.flat_map(|case| {
            case.args
                .iter()
                .map(String::len)
                .chain([case.name.as_str().len()])
        });
        let all = compile
            .chain([execute.command.bytes()])
            .chain(args)
            .chain(env)
            .chain(case_words);
        all.sum::<usize>() as u64
    }

    fn check_keep(&self) -> Result<(), InvalidField> {
        match self.keep.len() {
            count if count > MAX_KEEP_PATTERNS => Err(InvalidField::over_limit(
                "keep",
                "has too many patterns",
                MAX_KEEP_PATTERNS,
                count,
            )),
            _ => Ok(()),
        }
    }

    fn check_files(&self, bounds: &TaskSizeLimits) -> Result<(), InvalidField> {
        let count = self.source.len() + self.data.len();
        if count > bounds.files {
            return Err(InvalidField::over_limit(
                "source",
                "has too many files, together with data",
                bounds.files,
                count,
            ));
        }
        let mut files: BTreeSet<_> = self.source.keys().cloned().collect();
        for path in self.data.keys() {
            let field = || format!("data.{path}");
            let in_workspace = path
                .beneath("data")
                .map_err(|error| InvalidField::new(field(), error.to_string()))?;
            if !files.insert(in_workspace) {
                return Err(InvalidField::new(
                    field(),
                    "is given twice: as this data file and as a source file below data/",
                ));
            }
        }
        check_collisions("source", &files)
    }
}

/// Refuses a file that is also the folder of another file.
pub(crate) fn check_collisions(field: &str, files: &BTreeSet<WorkspacePath>) -> Result<(), InvalidField> {
    for file in files {
        for folder in file.folders() {
            let is_also_file = WorkspacePath::new(folder).is_ok_and(|folder| files.contains(&folder));
            if is_also_file {
                let problem = format!("'{folder}' is a file and also the folder of '{file}'; rename one");
                return Err(InvalidField::new(field, problem));
            }
        }
    }
    Ok(())
}

impl StepCommand {
    fn bytes(&self) -> usize {
        match self {
            StepCommand::Shell(text) => text.len(),
            StepCommand::Argv(words) => words.iter().map(String::len).sum(),
        }
    }
}

fn check_command(field: &str, command: &StepCommand, bounds: &TaskSizeLimits) -> Result<(), InvalidField> {
    match command {
        StepCommand::Shell(text) if text.trim().is_empty() => Err(InvalidField::new(
            field,
            "is missing or empty; give the command to run, or a language",
        )),
        StepCommand::Shell(text) => check_word(field, text, bounds),
        StepCommand::Argv(words) => {
            if words.first().is_none_or(String::is_empty) {
                return Err(InvalidField::new(
                    field,
                    "is an empty list; name the program first",
                ));
            }
            if words.len() > bounds.args {
                return Err(InvalidField::over_limit(
                    field,
                    "has too many words",
                    bounds.args,
                    words.len(),
                ));
            }
            let total: usize = words.iter().map(String::len).sum();
            if total > bounds.command_bytes {
                return Err(InvalidField::over_limit(
                    field,
                    "is too long",
                    bounds.command_bytes,
                    total,
                ));
            }
            words.iter().try_for_each(|word| check_word(field, word, bounds))
        }
    }
}

/// Refuses limits under which no program can start. What a program needs beyond that is up to its user.
pub(crate) fn check_limits(field: &str, limits: &Limits) -> Result<(), InvalidField> {
    match *limits {
        Limits {
            open_files: Some(count),
            ..
        } if count < Limits::MIN_OPEN_FILES => Err(InvalidField::over_limit(
            format!("{field}.open_files"),
            "is too few for any program to start; request at least the limit",
            Limits::MIN_OPEN_FILES,
            count,
        )),
        Limits {
            stack: Some(bytes), ..
        } if bytes < Limits::MIN_STACK => Err(InvalidField::over_limit(
            format!("{field}.stack"),
            "is too small for any program to start; request at least the limit",
            format!("{} bytes", Limits::MIN_STACK),
            format!("{bytes} bytes"),
        )),
        _ => Ok(()),
    }
}

fn check_env(
    field: &str,
    env: &BTreeMap<String, String>,
    bounds: &TaskSizeLimits,
) -> Result<(), InvalidField> {
    if env.len() > bounds.env {
        return Err(InvalidField::over_limit(
            field,
            "has too many variables",
            bounds.env,
            env.len(),
        ));
    }
    for (name, value) in env {
        let variable = || format!("{field}.{name}");
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(InvalidField::new(
                field,
                "the name of a variable must not be empty or contain '=' or NUL",
            ));
        }
        if value.contains('\0') {
            return Err(InvalidField::new(variable(), "must not contain NUL"));
        }
        let size = name.len() + value.len();
        if size > bounds.command_bytes {
            return Err(InvalidField::over_limit(
                variable(),
                "is too long",
                bounds.command_bytes,
                size,
            ));
        }
    }
    Ok(())
}

pub(crate) fn check_args(field: &str, args: &[String], bounds: &TaskSizeLimits) -> Result<(), InvalidField> {
    if args.len() > bounds.args {
        return Err(InvalidField::over_limit(
            field,
            "has too many words",
            bounds.args,
            args.len(),
        ));
    }
    args.iter()
        .enumerate()
        .try_for_each(|(index, word)| check_word(&format!("{field}[{index}]"), word, bounds))
}

fn check_word(field: &str, word: &str, bounds: &TaskSizeLimits) -> Result<(), InvalidField> {
    if word.contains('\0') {
        return Err(InvalidField::new(field, "must not contain NUL"));
    }
    if word.len() > bounds.command_bytes {
        return Err(InvalidField::over_limit(
            field,
            "is too long",
            bounds.command_bytes,
            word.len(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{CompileStep, Content, TaskFile, UserName};

    fn spec() -> TaskSpec {
        TaskSpec::new(UserName::new("ada").unwrap(), StepCommand::Shell("true".into()))
    }

    fn file(path: &str) -> (WorkspacePath, TaskFile) {
        let content = Content::Inline(Bytes::from_static(b"12345"));
        (
            WorkspacePath::new(path).unwrap(),
            TaskFile {
                content,
                executable: false,
            },
        )
    }

    fn check(change: impl FnOnce(&mut TaskSpec), expected_field: Option<&str>) {
        let mut spec = spec();
        change(&mut spec);
        let found = spec.check(&TaskSizeLimits {
            files: 3,
            // Enough for the command of `spec` and two files.
            inline_bytes: 14,
            ..TaskSizeLimits::default()
        });
        assert_eq!(
            found.as_ref().err().map(|invalid| invalid.field.as_str()),
            expected_field,
            "{found:?}"
        );
    }

    #[test]
    fn errors_name_the_field() {
        check(|_| {}, None);
        check(
            |spec| spec.execute.command = StepCommand::Shell("  ".into()),
            Some("execute.command"),
        );
        check(
            |spec| spec.execute.command = StepCommand::Argv(vec![]),
            Some("execute.command"),
        );
        check(
            |spec| spec.execute.command = StepCommand::Shell("a\0b".into()),
            Some("execute.command"),
        );
        check(
            |spec| spec.execute.args = vec!["ok".into(), "\0".into()],
            Some("execute.args[1]"),
        );
        check(
            |spec| drop(spec.execute.env.insert("A=B".into(), String::new())),
            Some("execute.env"),
        );
        check(
            |spec| drop(spec.execute.env.insert("A".into(), "\0".into())),
            Some("execute.env.A"),
        );
        let compile_env = |spec: &mut TaskSpec, name: &str, value: &str| {
            spec.compile = Some(CompileStep {
                command: StepCommand::Shell("cc".into()),
                env: [(name.to_string(), value.to_string())].into(),
                network: None,
                limits: Limits::default(),
            });
        };
        check(|spec| compile_env(spec, "", "x"), Some("compile.env"));
        check(|spec| compile_env(spec, "A", "\0"), Some("compile.env.A"));
        check(|spec| compile_env(spec, "A", "1234567890"), Some("execute"));
        check(
            |spec| spec.execute.args = vec!["1234567".into(), "1234".into()],
            Some("execute"),
        );
        check(
            |spec| drop(spec.execute.env.insert("A".into(), "1234567890".into())),
            Some("execute"),
        );
        check(
            |spec| spec.source.extend(["a", "b", "c", "d"].map(file)),
            Some("source"),
        );
        check(
            |spec| spec.source.extend(["a", "b", "c"].map(file)),
            Some("source"),
        );
        check(|spec| spec.source.extend(["a", "a/b"].map(file)), Some("source"));
        check(|spec| spec.source.extend(["a/c", "a/b"].map(file)), None);
    }

    #[test]
    fn limits_under_which_no_program_starts_are_refused() {
        let open_files = |count| Limits {
            open_files: Some(count),
            ..Limits::default()
        };
        let stack = |bytes| Limits {
            stack: Some(bytes),
            ..Limits::default()
        };
        check(|spec| spec.execute.limits = open_files(4), None);
        check(
            |spec| spec.execute.limits = open_files(3),
            Some("execute.limits.open_files"),
        );
        check(|spec| spec.execute.limits = stack(64 << 10), None);
        check(
            |spec| spec.execute.limits = stack((64 << 10) - 1),
            Some("execute.limits.stack"),
        );
        let compile = |limits| CompileStep {
            command: StepCommand::Shell("cc".into()),
            env: BTreeMap::new(),
            network: None,
            limits,
        };
        check(
            |spec| spec.compile = Some(compile(open_files(0))),
            Some("compile.limits.open_files"),
        );
    }

    #[test]
    fn data_and_source_files_must_not_collide() {
        check(
            |spec| {
                spec.source.extend([file("data/x")]);
                spec.data.extend([file("x")]);
            },
            Some("data.x"),
        );
        check(
            |spec| {
                spec.source.extend([file("data")]);
                spec.data.extend([file("x")]);
            },
            Some("source"),
        );
    }
}
