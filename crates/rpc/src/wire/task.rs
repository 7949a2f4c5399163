use std::collections::BTreeMap;
use std::time::Duration;

use model::{
    Add, Added, Attempt, Captured, Command, CompileStep, Content, ExecuteStep, File, FilePath, Files,
    Invalid, Limits, Moment, Outcome, Task, TaskResult, TaskSpec,
};
use prost::Message;

use super::ids::{executor_in, hash_in, hash_out, id_in, id_out, network_in, user_in};
use super::{Incoming, micros, optional, proto, required, text};

/// A spec as bytes that are equal for equal specs: what a digest is taken over.
pub fn spec_bytes(spec: &TaskSpec) -> Vec<u8> {
    proto::TaskSpec::from(spec.clone()).encode_to_vec()
}

impl From<Add> for proto::NewTask {
    fn from(add: Add) -> Self {
        proto::NewTask {
            id: id_out(add.id.0),
            spec: Some(add.spec.into()),
        }
    }
}

impl Incoming<Add> for proto::NewTask {
    fn read(self) -> Result<Add, Invalid> {
        Ok(Add {
            id: id_in("id", &self.id)?,
            spec: spec_in(self.spec)?,
        })
    }
}

/// Users know a spec's fields by their own names, with nothing before them.
pub(super) fn spec_in(spec: Option<proto::TaskSpec>) -> Result<TaskSpec, Invalid> {
    spec.ok_or_else(|| Invalid::new("spec", "is missing"))?.read()
}

impl From<Added> for proto::Added {
    fn from(added: Added) -> Self {
        proto::Added {
            id: id_out(added.id.0),
            add_time: added.add_time.0,
            existed: added.existed,
        }
    }
}

impl Incoming<Added> for proto::Added {
    fn read(self) -> Result<Added, Invalid> {
        Ok(Added {
            id: id_in("id", &self.id)?,
            add_time: Moment(self.add_time),
            existed: self.existed,
        })
    }
}

impl From<TaskSpec> for proto::TaskSpec {
    fn from(spec: TaskSpec) -> Self {
        proto::TaskSpec {
            user: spec.user.as_str().to_string(),
            priority: spec.priority,
            compile: spec.compile.map(|step| proto::CompileStep {
                command: Some(step.command.into()),
                limits: Some(step.limits.into()),
                network: step.network.map(|name| name.to_string()),
                env: variables(step.env),
            }),
            execute: Some(spec.execute.into()),
            source: files_out(spec.source),
            data: files_out(spec.data),
        }
    }
}

impl Incoming<TaskSpec> for proto::TaskSpec {
    fn read(self) -> Result<TaskSpec, Invalid> {
        Ok(TaskSpec {
            user: user_in(self.user)?,
            priority: self.priority,
            compile: optional("compile", self.compile)?,
            execute: required("execute", self.execute)?,
            source: files_in("source", self.source)?,
            data: files_in("data", self.data)?,
        })
    }
}

impl Incoming<CompileStep> for proto::CompileStep {
    fn read(self) -> Result<CompileStep, Invalid> {
        Ok(CompileStep {
            command: required("command", self.command)?,
            env: self.env.into_iter().map(proto::Variable::pair).collect(),
            network: self.network.map(network_in).transpose()?,
            limits: self.limits.unwrap_or_default().into(),
        })
    }
}

fn variables(env: BTreeMap<String, String>) -> Vec<proto::Variable> {
    env.into_iter()
        .map(|(name, value)| proto::Variable { name, value })
        .collect()
}

impl proto::Variable {
    fn pair(self) -> (String, String) {
        (self.name, self.value)
    }
}

impl From<ExecuteStep> for proto::ExecuteStep {
    fn from(step: ExecuteStep) -> Self {
        proto::ExecuteStep {
            command: Some(step.command.into()),
            args: step.args,
            env: variables(step.env),
            input: Some(step.input.into()),
            limits: Some(step.limits.into()),
            network: step.network.map(|name| name.to_string()),
        }
    }
}

impl Incoming<ExecuteStep> for proto::ExecuteStep {
    fn read(self) -> Result<ExecuteStep, Invalid> {
        Ok(ExecuteStep {
            command: required("command", self.command)?,
            args: self.args,
            env: self.env.into_iter().map(proto::Variable::pair).collect(),
            input: optional("input", self.input)?.unwrap_or_else(Content::empty),
            network: self.network.map(network_in).transpose()?,
            limits: self.limits.unwrap_or_default().into(),
        })
    }
}

impl From<Command> for proto::Command {
    fn from(command: Command) -> Self {
        use proto::command::Form;
        let form = match command {
            Command::Shell(text) => Form::Shell(text),
            Command::Argv(words) => Form::Argv(proto::Words { words }),
        };
        proto::Command { form: Some(form) }
    }
}

impl Incoming<Command> for proto::Command {
    fn read(self) -> Result<Command, Invalid> {
        use proto::command::Form;
        match self.form {
            Some(Form::Shell(text)) => Ok(Command::Shell(text)),
            Some(Form::Argv(list)) => Ok(Command::Argv(list.words)),
            None => Err(Invalid::new("", "is missing")),
        }
    }
}

impl From<Content> for proto::Content {
    fn from(content: Content) -> Self {
        use proto::content::Form;
        let form = match content {
            Content::Inline(bytes) => Form::Inline(bytes),
            Content::Blob(hash) => Form::Blob(hash_out(hash)),
        };
        proto::Content { form: Some(form) }
    }
}

impl Incoming<Content> for proto::Content {
    fn read(self) -> Result<Content, Invalid> {
        use proto::content::Form;
        match self.form {
            Some(Form::Inline(bytes)) => Ok(Content::Inline(bytes)),
            Some(Form::Blob(hash)) => Ok(Content::Blob(hash_in("blob", &hash)?)),
            None => Ok(Content::empty()),
        }
    }
}

fn files_out(files: Files) -> Vec<proto::File> {
    files
        .into_iter()
        .map(|(path, file)| proto::File {
            path: path.to_string(),
            content: Some(file.content.into()),
            executable: file.executable,
        })
        .collect()
}

fn files_in(field: &str, files: Vec<proto::File>) -> Result<Files, Invalid> {
    let mut map = BTreeMap::new();
    for file in files {
        let at = format!("{field}.{}", file.path);
        let path = FilePath::new(file.path).map_err(|wrong| Invalid::new(&at, wrong.to_string()))?;
        let content = required(&at, file.content)?;
        if map
            .insert(
                path,
                File {
                    content,
                    executable: file.executable,
                },
            )
            .is_some()
        {
            return Err(Invalid::new(at, "is given twice"));
        }
    }
    Ok(map)
}

impl From<Limits> for proto::Limits {
    fn from(limits: Limits) -> Self {
        proto::Limits {
            wall: limits.wall.map(micros),
            cpu: limits.cpu.map(micros),
            memory: limits.memory,
            output: limits.output,
            processes: limits.processes,
            file_size: limits.file_size,
            open_files: limits.open_files,
            stack: limits.stack,
            space: limits.space,
        }
    }
}

impl From<proto::Limits> for Limits {
    fn from(limits: proto::Limits) -> Limits {
        Limits {
            wall: limits.wall.map(Duration::from_micros),
            cpu: limits.cpu.map(Duration::from_micros),
            memory: limits.memory,
            output: limits.output,
            processes: limits.processes,
            file_size: limits.file_size,
            open_files: limits.open_files,
            stack: limits.stack,
            space: limits.space,
        }
    }
}

impl From<Task> for proto::Task {
    fn from(task: Task) -> Self {
        proto::Task {
            id: id_out(task.id.0),
            spec: Some(task.spec.into()),
            status: task.status.to_string(),
            executor: task.executor.map(|name| name.to_string()),
            session: task.session.map(|session| id_out(session.0)),
            attempt: task.attempt.0,
            add_time: task.add_time.0,
            start_time: task.start_time.map(|time| time.0),
            report_time: task.report_time.map(|time| time.0),
            finish_time: task.finish_time.map(|time| time.0),
            result: task.result.map(Into::into),
            trouble: task.trouble,
        }
    }
}

impl Incoming<Task> for proto::Task {
    fn read(self) -> Result<Task, Invalid> {
        Ok(Task {
            id: id_in("id", &self.id)?,
            spec: spec_in(self.spec)?,
            status: text("status", &self.status)?,
            executor: self.executor.map(executor_in).transpose()?,
            session: self.session.map(|bytes| id_in("session", &bytes)).transpose()?,
            attempt: Attempt(self.attempt),
            add_time: Moment(self.add_time),
            start_time: self.start_time.map(Moment),
            report_time: self.report_time.map(Moment),
            finish_time: self.finish_time.map(Moment),
            result: optional("result", self.result)?,
            trouble: self.trouble,
        })
    }
}

impl From<TaskResult> for proto::TaskResult {
    fn from(result: TaskResult) -> Self {
        proto::TaskResult {
            compile: result.compile.map(Into::into),
            execute: result.execute.map(Into::into),
        }
    }
}

impl Incoming<TaskResult> for proto::TaskResult {
    fn read(self) -> Result<TaskResult, Invalid> {
        Ok(TaskResult {
            compile: optional("compile", self.compile)?,
            execute: optional("execute", self.execute)?,
        })
    }
}

impl From<Outcome> for proto::Outcome {
    fn from(outcome: Outcome) -> Self {
        proto::Outcome {
            reason: outcome.reason.to_string(),
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            wall: micros(outcome.wall),
            cpu: micros(outcome.cpu),
            memory: outcome.memory,
            stdout: outcome.stdout.bytes,
            stderr: outcome.stderr.bytes,
            stdout_truncated: outcome.stdout.truncated,
            stderr_truncated: outcome.stderr.truncated,
        }
    }
}

impl Incoming<Outcome> for proto::Outcome {
    fn read(self) -> Result<Outcome, Invalid> {
        Ok(Outcome {
            reason: text("reason", &self.reason)?,
            exit_code: self.exit_code,
            signal: self.signal,
            wall: Duration::from_micros(self.wall),
            cpu: Duration::from_micros(self.cpu),
            memory: self.memory,
            stdout: Captured {
                bytes: self.stdout,
                truncated: self.stdout_truncated,
            },
            stderr: Captured {
                bytes: self.stderr,
                truncated: self.stderr_truncated,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use model::{BlobHash, NetworkName, Reason, UserName};

    use super::*;

    fn spec() -> TaskSpec {
        let limits = |factor: u32| Limits {
            wall: Some(Duration::from_millis(1500) * factor),
            cpu: Some(Duration::from_micros(2) * factor),
            memory: Some(u64::from(3 * factor)),
            output: Some(u64::from(4 * factor)),
            processes: Some(5 * factor),
            file_size: Some(u64::from(6 * factor)),
            open_files: Some(7 * factor),
            stack: Some(u64::from(8 * factor)),
            space: Some(u64::from(9 * factor)),
        };
        let network = |name| Some(NetworkName::new(name).unwrap());
        let content = Content::Blob(BlobHash([3; 32]));
        let file = File {
            content,
            executable: true,
        };
        TaskSpec {
            user: UserName::new("ada").unwrap(),
            priority: -3,
            compile: Some(CompileStep {
                command: Command::Shell("cc".into()),
                env: [("C".to_string(), "d".to_string())].into(),
                network: network("lab"),
                limits: limits(1),
            }),
            execute: ExecuteStep {
                command: Command::Argv(vec!["./a".into(), String::new()]),
                args: vec!["-v".into()],
                env: [("A".to_string(), "b".to_string())].into(),
                input: Content::Inline(Bytes::from_static(b"\0\xff")),
                network: network("loopback"),
                limits: limits(10),
            },
            source: [(FilePath::new("a/b").unwrap(), file.clone())].into(),
            data: [(FilePath::new("c").unwrap(), file)].into(),
        }
    }

    fn read(bytes: &[u8]) -> Result<TaskSpec, Invalid> {
        proto::TaskSpec::decode(bytes).unwrap().read()
    }

    #[test]
    fn specs_survive_the_wire() {
        let full = spec();
        assert_eq!(read(&spec_bytes(&full)).unwrap(), full);
        let mut plain = full;
        plain.compile = None;
        plain.execute.network = None;
        plain.execute.limits = Limits::default();
        assert_eq!(read(&spec_bytes(&plain)).unwrap(), plain);
    }

    #[test]
    fn a_wrong_network_is_named() {
        let mut message = proto::TaskSpec::from(spec());
        message.compile.as_mut().unwrap().network = Some("a/b".into());
        assert_eq!(
            read(&message.encode_to_vec()).unwrap_err().field,
            "compile.network"
        );
    }

    #[test]
    fn every_reason_survives_the_wire() {
        for reason in Reason::ALL {
            let outcome = Outcome {
                reason,
                exit_code: Some(1),
                signal: None,
                wall: Duration::from_micros(1),
                cpu: Duration::from_micros(2),
                memory: 3,
                stdout: Captured::default(),
                stderr: Captured::default(),
            };
            let read: Outcome = proto::Outcome::from(outcome.clone()).read().unwrap();
            assert_eq!(read, outcome);
        }
    }
}
