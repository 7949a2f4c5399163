//! Whether a task can be taken as it is: what is wrong with it, in which field, and by how much.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::{Command, FilePath, Limits, TaskSpec};

/// Bad input: what is wrong, where, and, when a limit was passed, which and by what value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Path of the field, as the caller spells it: `execute.limits.wall`.
    pub field: String,
    pub problem: String,
    pub limit: Option<String>,
    pub actual: Option<String>,
}

impl std::error::Error for Invalid {}

/// How large a task may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub files: usize,
    /// Bytes in the spec itself: inline files, input, command, args, env. More goes into blobs.
    pub inline_bytes: u64,
    pub command_bytes: usize,
    pub args: usize,
    pub env: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            files: 1000,
            inline_bytes: 8 << 20,
            command_bytes: 64 << 10,
            args: 1000,
            env: 1000,
        }
    }
}

impl Invalid {
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Invalid {
        Invalid {
            field: field.into(),
            problem: problem.into(),
            limit: None,
            actual: None,
        }
    }

    pub fn beyond(
        field: impl Into<String>,
        problem: impl Into<String>,
        limit: impl fmt::Display,
        actual: impl fmt::Display,
    ) -> Invalid {
        Invalid {
            field: field.into(),
            problem: problem.into(),
            limit: Some(limit.to_string()),
            actual: Some(actual.to_string()),
        }
    }

    /// The same complaint about something that lies inside `outer`.
    pub fn within(mut self, outer: &str) -> Invalid {
        self.field = if self.field.is_empty() {
            outer.to_string()
        } else {
            format!("{outer}.{}", self.field)
        };
        self
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)?;
        if let (Some(limit), Some(actual)) = (&self.limit, &self.actual) {
            write!(f, " (limit {limit}, actual {actual})")?;
        }
        Ok(())
    }
}

impl TaskSpec {
    pub fn check(&self, bounds: &Bounds) -> Result<(), Invalid> {
        if let Some(compile) = &self.compile {
            check_command("compile.command", &compile.command, bounds)?;
            check_limits("compile.limits", &compile.limits)?;
            check_env("compile.env", &compile.env, bounds)?;
        }
        check_command("execute.command", &self.execute.command, bounds)?;
        check_limits("execute.limits", &self.execute.limits)?;
        check_args(&self.execute.args, bounds)?;
        check_env("execute.env", &self.execute.env, bounds)?;
        self.check_files(bounds)?;
        let words = self.word_bytes();
        if words > bounds.inline_bytes {
            return Err(Invalid::beyond(
                "execute",
                "the command, its arguments and its environment are too large together",
                bounds.inline_bytes,
                words,
            ));
        }
        let files: u64 = self.contents().map(|content| content.inline_len()).sum();
        if words + files > bounds.inline_bytes {
            return Err(Invalid::beyond(
                "source",
                "the files and input inside the task are too large together; put large ones as blobs",
                bounds.inline_bytes,
                words + files,
            ));
        }
        Ok(())
    }

    /// Bytes of what can only travel inside the task.
    pub fn word_bytes(&self) -> u64 {
        let compile = self.compile.iter().map(|step| step.command.bytes());
        let execute = &self.execute;
        let args = execute.args.iter().map(String::len);
        let variables = self.compile.iter().flat_map(|step| &step.env).chain(&execute.env);
        let env = variables.map(|(name, value)| name.len() + value.len());
        let all = compile.chain([execute.command.bytes()]).chain(args).chain(env);
        all.sum::<usize>() as u64
    }

    fn check_files(&self, bounds: &Bounds) -> Result<(), Invalid> {
        let count = self.source.len() + self.data.len();
        if count > bounds.files {
            return Err(Invalid::beyond(
                "source",
                "has too many files (with data)",
                bounds.files,
                count,
            ));
        }
        let mut files = BTreeSet::new();
        for path in self.source.keys() {
            files.insert(path.clone());
        }
        for path in self.data.keys() {
            let field = || format!("data.{path}");
            let placed = path
                .beneath("data")
                .map_err(|wrong| Invalid::new(field(), wrong.to_string()))?;
            if !files.insert(placed) {
                return Err(Invalid::new(
                    field(),
                    "is given twice: as this data file and as a source file below data/",
                ));
            }
        }
        for file in &files {
            for folder in file.folders() {
                let as_file = FilePath::new(folder).is_ok_and(|folder| files.contains(&folder));
                if as_file {
                    return Err(Invalid::new(
                        "source",
                        format!("'{folder}' is a file and also the folder of '{file}'; rename one"),
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Command {
    fn bytes(&self) -> usize {
        match self {
            Command::Shell(text) => text.len(),
            Command::Argv(words) => words.iter().map(String::len).sum(),
        }
    }
}

fn check_command(field: &str, command: &Command, bounds: &Bounds) -> Result<(), Invalid> {
    match command {
        Command::Shell(text) if text.trim().is_empty() => {
            Err(Invalid::new(field, "is empty; give the command to run"))
        }
        Command::Shell(text) => check_word(field, text, bounds),
        Command::Argv(words) => {
            if words.first().is_none_or(String::is_empty) {
                return Err(Invalid::new(field, "is an empty list; name the program first"));
            }
            if words.len() > bounds.args {
                return Err(Invalid::beyond(
                    field,
                    "has too many words",
                    bounds.args,
                    words.len(),
                ));
            }
            let total: usize = words.iter().map(String::len).sum();
            if total > bounds.command_bytes {
                return Err(Invalid::beyond(field, "is too long", bounds.command_bytes, total));
            }
            words.iter().try_for_each(|word| check_word(field, word, bounds))
        }
    }
}

/// Those under which nothing could even start. What a program needs beyond that, its user knows best.
fn check_limits(field: &str, limits: &Limits) -> Result<(), Invalid> {
    match *limits {
        Limits {
            open_files: Some(count),
            ..
        } if count < Limits::LEAST_OPEN_FILES => Err(Invalid::beyond(
            format!("{field}.open_files"),
            "is too few for any program to start; ask for at least the limit",
            Limits::LEAST_OPEN_FILES,
            count,
        )),
        Limits {
            stack: Some(bytes), ..
        } if bytes < Limits::LEAST_STACK => Err(Invalid::beyond(
            format!("{field}.stack"),
            "is too small for any program to start; ask for at least the limit",
            format!("{} bytes", Limits::LEAST_STACK),
            format!("{bytes} bytes"),
        )),
        _ => Ok(()),
    }
}

fn check_env(field: &str, env: &BTreeMap<String, String>, bounds: &Bounds) -> Result<(), Invalid> {
    if env.len() > bounds.env {
        return Err(Invalid::beyond(
            field,
            "has too many variables",
            bounds.env,
            env.len(),
        ));
    }
    for (name, value) in env {
        let variable = || format!("{field}.{name}");
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Invalid::new(
                field,
                "a variable's name must not be empty or hold '=' or NUL",
            ));
        }
        if value.contains('\0') {
            return Err(Invalid::new(variable(), "must not contain NUL"));
        }
        let size = name.len() + value.len();
        if size > bounds.command_bytes {
            return Err(Invalid::beyond(
                variable(),
                "is too long",
                bounds.command_bytes,
                size,
            ));
        }
    }
    Ok(())
}

fn check_args(args: &[String], bounds: &Bounds) -> Result<(), Invalid> {
    if args.len() > bounds.args {
        return Err(Invalid::beyond(
            "execute.args",
            "has too many words",
            bounds.args,
            args.len(),
        ));
    }
    args.iter()
        .enumerate()
        .try_for_each(|(index, word)| check_word(&format!("execute.args[{index}]"), word, bounds))
}

fn check_word(field: &str, word: &str, bounds: &Bounds) -> Result<(), Invalid> {
    if word.contains('\0') {
        return Err(Invalid::new(field, "must not contain NUL"));
    }
    if word.len() > bounds.command_bytes {
        return Err(Invalid::beyond(
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
    use crate::{CompileStep, Content, ExecuteStep, File, UserName};

    fn spec() -> TaskSpec {
        TaskSpec {
            user: UserName::new("ada").unwrap(),
            priority: 0,
            compile: None,
            execute: ExecuteStep {
                command: Command::Shell("true".into()),
                args: vec![],
                env: BTreeMap::new(),
                input: Content::empty(),
                network: None,
                limits: Limits::default(),
            },
            source: BTreeMap::new(),
            data: BTreeMap::new(),
        }
    }

    fn file(path: &str) -> (FilePath, File) {
        let content = Content::Inline(Bytes::from_static(b"12345"));
        (
            FilePath::new(path).unwrap(),
            File {
                content,
                executable: false,
            },
        )
    }

    fn check(change: impl FnOnce(&mut TaskSpec), expected_field: Option<&str>) {
        let mut spec = spec();
        change(&mut spec);
        let found = spec.check(&Bounds {
            files: 3,
            // The command of `spec` and two files.
            inline_bytes: 14,
            ..Bounds::default()
        });
        assert_eq!(
            found.as_ref().err().map(|invalid| invalid.field.as_str()),
            expected_field,
            "{found:?}"
        );
    }

    #[test]
    fn complaints_name_the_field() {
        check(|_| {}, None);
        check(
            |spec| spec.execute.command = Command::Shell("  ".into()),
            Some("execute.command"),
        );
        check(
            |spec| spec.execute.command = Command::Argv(vec![]),
            Some("execute.command"),
        );
        check(
            |spec| spec.execute.command = Command::Shell("a\0b".into()),
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
                command: Command::Shell("cc".into()),
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
    fn limits_let_a_program_start() {
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
            command: Command::Shell("cc".into()),
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
    fn data_and_source_must_not_meet() {
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
