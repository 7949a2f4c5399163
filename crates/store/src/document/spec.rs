//! What a user asked for, as it is written down.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use model::{
    BlobHash, Command, CompileStep, Content, ExecuteStep, File, FilePath, Files, Limits, NetworkName,
    TaskSpec, UserName,
};
use serde::{Deserialize, Serialize};

use super::bytes::Raw;

/// The third form: the second, and the compile step's own environment.
#[derive(Serialize, Deserialize)]
pub(super) struct SpecDocument<'a> {
    #[serde(borrow)]
    second: SecondSpec<'a>,
    compile_env: Vec<(&'a str, &'a str)>,
}

/// The second form: the first, and after it what steps have gained since.
#[derive(Serialize, Deserialize)]
pub(super) struct SecondSpec<'a> {
    #[serde(borrow)]
    first: FirstSpec<'a>,
    compile: Gained<'a>,
    execute: Gained<'a>,
}

/// Without a compile step there is nothing in its.
#[derive(Default, Serialize, Deserialize)]
struct Gained<'a> {
    network: Option<&'a str>,
    file_size: Option<u64>,
    open_files: Option<u32>,
    stack: Option<u64>,
    space: Option<u64>,
}

/// The first form.
#[derive(Serialize, Deserialize)]
pub(super) struct FirstSpec<'a> {
    user: &'a str,
    priority: i32,
    #[serde(borrow)]
    compile: Option<CompileDocument<'a>>,
    execute: ExecuteDocument<'a>,
    source: Vec<FileDocument<'a>>,
    data: Vec<FileDocument<'a>>,
}

#[derive(Serialize, Deserialize)]
struct CompileDocument<'a> {
    #[serde(borrow)]
    command: CommandDocument<'a>,
    limits: LimitsDocument,
}

#[derive(Serialize, Deserialize)]
struct ExecuteDocument<'a> {
    #[serde(borrow)]
    command: CommandDocument<'a>,
    args: Vec<&'a str>,
    env: Vec<(&'a str, &'a str)>,
    input: ContentDocument<'a>,
    limits: LimitsDocument,
}

#[derive(Serialize, Deserialize)]
enum CommandDocument<'a> {
    Shell(&'a str),
    Argv(#[serde(borrow)] Vec<&'a str>),
}

#[derive(Serialize, Deserialize)]
struct FileDocument<'a> {
    path: &'a str,
    executable: bool,
    #[serde(borrow)]
    content: ContentDocument<'a>,
}

#[derive(Serialize, Deserialize)]
enum ContentDocument<'a> {
    Inline(#[serde(borrow)] Raw<'a>),
    Blob([u8; 32]),
}

#[derive(Serialize, Deserialize)]
struct LimitsDocument {
    wall: Option<Duration>,
    cpu: Option<Duration>,
    memory: Option<u64>,
    output: Option<u64>,
    processes: Option<u32>,
}

impl<'a> From<&'a TaskSpec> for SpecDocument<'a> {
    fn from(spec: &'a TaskSpec) -> SpecDocument<'a> {
        let compile_env = spec.compile.iter().flat_map(|step| variables(&step.env));
        SpecDocument {
            second: spec.into(),
            compile_env: compile_env.collect(),
        }
    }
}

impl<'a> From<&'a TaskSpec> for SecondSpec<'a> {
    fn from(spec: &'a TaskSpec) -> SecondSpec<'a> {
        let compile = spec.compile.as_ref();
        SecondSpec {
            first: spec.into(),
            compile: compile.map_or_else(Gained::default, |step| {
                gained(step.network.as_ref(), &step.limits)
            }),
            execute: gained(spec.execute.network.as_ref(), &spec.execute.limits),
        }
    }
}

fn gained<'a>(network: Option<&'a NetworkName>, limits: &Limits) -> Gained<'a> {
    Gained {
        network: network.map(NetworkName::as_str),
        file_size: limits.file_size,
        open_files: limits.open_files,
        stack: limits.stack,
        space: limits.space,
    }
}

/// In these forms the compile step had the environment of the other, and such a task may count on it.
impl<'a> From<SecondSpec<'a>> for SpecDocument<'a> {
    fn from(second: SecondSpec<'a>) -> SpecDocument<'a> {
        let FirstSpec { compile, execute, .. } = &second.first;
        let compile_env = compile.as_ref().map(|_| execute.env.clone());
        SpecDocument {
            compile_env: compile_env.unwrap_or_default(),
            second,
        }
    }
}

impl<'a> From<FirstSpec<'a>> for SecondSpec<'a> {
    fn from(first: FirstSpec<'a>) -> SecondSpec<'a> {
        SecondSpec {
            first,
            compile: Gained::default(),
            execute: Gained::default(),
        }
    }
}

impl<'a> From<&'a TaskSpec> for FirstSpec<'a> {
    fn from(spec: &'a TaskSpec) -> FirstSpec<'a> {
        let TaskSpec {
            user,
            priority,
            compile,
            execute,
            source,
            data,
        } = spec;
        FirstSpec {
            user: user.as_str(),
            priority: *priority,
            compile: compile.as_ref().map(|step| CompileDocument {
                command: (&step.command).into(),
                limits: (&step.limits).into(),
            }),
            execute: ExecuteDocument {
                command: (&execute.command).into(),
                args: execute.args.iter().map(String::as_str).collect(),
                env: variables(&execute.env).collect(),
                input: (&execute.input).into(),
                limits: (&execute.limits).into(),
            },
            source: files(source),
            data: files(data),
        }
    }
}

fn variables(env: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    env.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

fn into_variables(env: Vec<(&str, &str)>) -> BTreeMap<String, String> {
    env.into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn files(files: &Files) -> Vec<FileDocument<'_>> {
    files
        .iter()
        .map(|(path, file)| FileDocument {
            path: path.as_str(),
            executable: file.executable,
            content: (&file.content).into(),
        })
        .collect()
}

impl<'a> From<&'a Command> for CommandDocument<'a> {
    fn from(command: &'a Command) -> CommandDocument<'a> {
        match command {
            Command::Shell(text) => CommandDocument::Shell(text),
            Command::Argv(words) => CommandDocument::Argv(words.iter().map(String::as_str).collect()),
        }
    }
}

impl<'a> From<&'a Content> for ContentDocument<'a> {
    fn from(content: &'a Content) -> ContentDocument<'a> {
        match content {
            Content::Inline(bytes) => ContentDocument::Inline(Raw(bytes)),
            Content::Blob(hash) => ContentDocument::Blob(hash.0),
        }
    }
}

impl From<&Limits> for LimitsDocument {
    fn from(limits: &Limits) -> LimitsDocument {
        LimitsDocument {
            wall: limits.wall,
            cpu: limits.cpu,
            memory: limits.memory,
            output: limits.output,
            processes: limits.processes,
        }
    }
}

impl<'a> TryFrom<SpecDocument<'a>> for TaskSpec {
    type Error = postcard::Error;

    fn try_from(document: SpecDocument<'a>) -> Result<TaskSpec, postcard::Error> {
        let SpecDocument { second, compile_env } = document;
        let SecondSpec {
            first,
            compile: compile_gained,
            execute: execute_gained,
        } = second;
        let FirstSpec {
            user,
            priority,
            compile,
            execute,
            source,
            data,
        } = first;
        let compile_network = compile_gained.network()?;
        Ok(TaskSpec {
            user: UserName::new(user).map_err(|_| postcard::Error::SerdeDeCustom)?,
            priority,
            compile: compile.map(|step| CompileStep {
                command: step.command.into(),
                env: into_variables(compile_env),
                network: compile_network,
                limits: step.limits.with(&compile_gained),
            }),
            execute: ExecuteStep {
                command: execute.command.into(),
                args: execute.args.into_iter().map(String::from).collect(),
                env: into_variables(execute.env),
                input: execute.input.into(),
                network: execute_gained.network()?,
                limits: execute.limits.with(&execute_gained),
            },
            source: into_files(source)?,
            data: into_files(data)?,
        })
    }
}

fn into_files(documents: Vec<FileDocument<'_>>) -> Result<Files, postcard::Error> {
    documents
        .into_iter()
        .map(|document| {
            let FileDocument {
                path,
                executable,
                content,
            } = document;
            let path = FilePath::new(path).map_err(|_| postcard::Error::SerdeDeCustom)?;
            Ok((
                path,
                File {
                    content: content.into(),
                    executable,
                },
            ))
        })
        .collect()
}

impl From<CommandDocument<'_>> for Command {
    fn from(document: CommandDocument<'_>) -> Command {
        match document {
            CommandDocument::Shell(text) => Command::Shell(text.into()),
            CommandDocument::Argv(words) => Command::Argv(words.into_iter().map(String::from).collect()),
        }
    }
}

impl From<ContentDocument<'_>> for Content {
    fn from(document: ContentDocument<'_>) -> Content {
        match document {
            ContentDocument::Inline(raw) => Content::Inline(Bytes::copy_from_slice(raw.0)),
            ContentDocument::Blob(hash) => Content::Blob(BlobHash(hash)),
        }
    }
}

impl Gained<'_> {
    fn network(&self) -> Result<Option<NetworkName>, postcard::Error> {
        let network = self.network.map(NetworkName::new).transpose();
        network.map_err(|_| postcard::Error::SerdeDeCustom)
    }
}

impl LimitsDocument {
    fn with(self, gained: &Gained<'_>) -> Limits {
        Limits {
            wall: self.wall,
            cpu: self.cpu,
            memory: self.memory,
            output: self.output,
            processes: self.processes,
            file_size: gained.file_size,
            open_files: gained.open_files,
            stack: gained.stack,
            space: gained.space,
        }
    }
}
