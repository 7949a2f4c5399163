use std::collections::BTreeMap;
use std::time::Duration;

use model::{
    AddTask, AddedTask, AttemptNumber, CompileStep, Content, ExecuteStep, InvalidField, KeepPattern, Labels,
    Limits, StepCommand, Task, TaskFile, TaskFiles, TaskForm, TaskSpec, UnixTime, WorkspacePath,
};
use prost::Message;

use super::ids::{
    encode_hash, encode_id, parse_executor, parse_group, parse_hash, parse_id, parse_language, parse_network,
    parse_problem, parse_root, parse_user,
};
use super::{ParseMessage, micros, parse_known, parse_optional, parse_required, parse_text, proto};

/// The bytes over which versions before [`TaskForm::WITH_KEPT_FILES`] computed the digest of a task: the wire encoding of the
/// fields that they knew. `None` if the spec has other fields.
pub fn legacy_digest_bytes(spec: &TaskSpec) -> Option<Vec<u8>> {
    let known = TaskSpec {
        keep: vec![],
        labels: Labels::default(),
        group: None,
        attempts: None,
        retry_of: None,
        language: None,
        root: None,
        judging: None,
        problem: None,
        ..spec.clone()
    };
    let message = proto::TaskSpec {
        form: 0,
        ..known.clone().into()
    };
    (known == *spec).then(|| message.encode_to_vec())
}

/// Tasks without a form are from versions before forms were recorded.
pub(crate) fn parse_form(form: u32) -> TaskForm {
    match form {
        0 => TaskForm::UNRECORDED,
        form => TaskForm(form),
    }
}

impl From<AddTask> for proto::NewTask {
    fn from(add: AddTask) -> Self {
        proto::NewTask {
            id: encode_id(add.id.0),
            spec: Some(add.spec.into()),
            names_source_code: add.names_source_code,
            wait_for_executor: add.wait_for_executor,
        }
    }
}

impl ParseMessage<AddTask> for proto::NewTask {
    fn parse(self) -> Result<AddTask, InvalidField> {
        Ok(AddTask {
            id: parse_id("id", &self.id)?,
            spec: parse_spec(self.spec)?,
            names_source_code: self.names_source_code,
            wait_for_executor: self.wait_for_executor,
        })
    }
}

/// Errors name a field of the spec without a prefix, as users know it.
pub(super) fn parse_spec(spec: Option<proto::TaskSpec>) -> Result<TaskSpec, InvalidField> {
    spec.ok_or_else(|| InvalidField::new("spec", "is missing"))?
        .parse()
}

impl From<AddedTask> for proto::Added {
    fn from(added: AddedTask) -> Self {
        proto::Added {
            id: encode_id(added.id.0),
            add_time: added.add_time.0,
            existed: added.existed,
        }
    }
}

impl ParseMessage<AddedTask> for proto::Added {
    fn parse(self) -> Result<AddedTask, InvalidField> {
        Ok(AddedTask {
            id: parse_id("id", &self.id)?,
            add_time: UnixTime(self.add_time),
            existed: self.existed,
        })
    }
}

impl From<TaskSpec> for proto::TaskSpec {
    fn from(spec: TaskSpec) -> Self {
        proto::TaskSpec {
            form: TaskForm::of(&spec).0,
            language: spec.language.map(|name| name.to_string()),
            root: spec.root.map(|name| name.to_string()),
            keep: spec.keep.iter().map(ToString::to_string).collect(),
            labels: encode_labels(spec.labels),
            group: spec.group.map(|name| name.to_string()),
            attempts: spec.attempts,
            retry_of: spec.retry_of.map(|id| encode_id(id.0)),
            user: spec.user.as_str().to_string(),
            priority: spec.priority,
            compile: spec.compile.map(Into::into),
            execute: Some(spec.execute.into()),
            source: encode_files(spec.source),
            data: encode_files(spec.data),
            judging: spec.judging.map(Into::into),
            problem: spec.problem.map(|name| name.to_string()),
        }
    }
}

impl ParseMessage<TaskSpec> for proto::TaskSpec {
    fn parse(self) -> Result<TaskSpec, InvalidField> {
        Ok(TaskSpec {
            user: parse_user(self.user)?,
            priority: self.priority,
            language: self.language.map(parse_language).transpose()?,
            root: self.root.map(parse_root).transpose()?,
            compile: parse_optional("compile", self.compile)?,
            execute: parse_required("execute", self.execute)?,
            source: parse_files("source", self.source)?,
            data: parse_files("data", self.data)?,
            judging: self.judging.map(ParseMessage::parse).transpose()?,
            problem: self.problem.map(parse_problem).transpose()?,
            keep: parse_keep(self.keep)?,
            labels: parse_labels(self.labels)?,
            group: self.group.map(parse_group).transpose()?,
            attempts: self.attempts,
            retry_of: self.retry_of.map(|id| parse_id("retry_of", &id)).transpose()?,
        })
    }
}

impl From<CompileStep> for proto::CompileStep {
    fn from(step: CompileStep) -> Self {
        proto::CompileStep {
            command: Some(step.command.into()),
            limits: Some(step.limits.into()),
            network: step.network.map(|name| name.to_string()),
            env: variables(step.env),
        }
    }
}

impl ParseMessage<CompileStep> for proto::CompileStep {
    fn parse(self) -> Result<CompileStep, InvalidField> {
        Ok(CompileStep {
            command: parse_required("command", self.command)?,
            env: self.env.into_iter().map(proto::Variable::pair).collect(),
            network: self.network.map(parse_network).transpose()?,
            limits: self.limits.unwrap_or_default().into(),
        })
    }
}

fn parse_keep(patterns: Vec<String>) -> Result<Vec<KeepPattern>, InvalidField> {
    let parse = |(index, pattern)| {
        let field = format!("keep[{index}]");
        KeepPattern::new(pattern).map_err(|wrong| InvalidField::new(field, wrong.to_string()))
    };
    patterns.into_iter().enumerate().map(parse).collect()
}

pub(super) fn encode_labels(labels: Labels) -> Vec<proto::Variable> {
    variables(labels.into_map())
}

pub(super) fn parse_labels(labels: Vec<proto::Variable>) -> Result<Labels, InvalidField> {
    Labels::new(labels.into_iter().map(proto::Variable::pair).collect())
}

pub(super) fn variables(env: BTreeMap<String, String>) -> Vec<proto::Variable> {
    env.into_iter()
        .map(|(name, value)| proto::Variable { name, value })
        .collect()
}

impl proto::Variable {
    pub(super) fn pair(self) -> (String, String) {
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

impl ParseMessage<ExecuteStep> for proto::ExecuteStep {
    fn parse(self) -> Result<ExecuteStep, InvalidField> {
        Ok(ExecuteStep {
            command: parse_required("command", self.command)?,
            args: self.args,
            env: self.env.into_iter().map(proto::Variable::pair).collect(),
            input: parse_optional("input", self.input)?.unwrap_or_else(Content::empty),
            network: self.network.map(parse_network).transpose()?,
            limits: self.limits.unwrap_or_default().into(),
        })
    }
}

impl From<StepCommand> for proto::Command {
    fn from(command: StepCommand) -> Self {
        use proto::command::Form;
        let form = match command {
            StepCommand::Shell(text) => Form::Shell(text),
            StepCommand::Argv(words) => Form::Argv(proto::Words { words }),
        };
        proto::Command { form: Some(form) }
    }
}

impl ParseMessage<StepCommand> for proto::Command {
    fn parse(self) -> Result<StepCommand, InvalidField> {
        use proto::command::Form;
        match self.form {
            Some(Form::Shell(text)) => Ok(StepCommand::Shell(text)),
            Some(Form::Argv(list)) => Ok(StepCommand::Argv(list.words)),
            None => Err(InvalidField::new("", "is missing")),
        }
    }
}

impl From<Content> for proto::Content {
    fn from(content: Content) -> Self {
        use proto::content::Form;
        let form = match content {
            Content::Inline(bytes) => Form::Inline(bytes),
            Content::Blob(hash) => Form::Blob(encode_hash(hash)),
        };
        proto::Content { form: Some(form) }
    }
}

impl ParseMessage<Content> for proto::Content {
    fn parse(self) -> Result<Content, InvalidField> {
        use proto::content::Form;
        match self.form {
            Some(Form::Inline(bytes)) => Ok(Content::Inline(bytes)),
            Some(Form::Blob(hash)) => Ok(Content::Blob(parse_hash("blob", &hash)?)),
            None => Ok(Content::empty()),
        }
    }
}

pub(super) fn encode_files(files: TaskFiles) -> Vec<proto::File> {
    files
        .into_iter()
        .map(|(path, file)| proto::File {
            path: path.to_string(),
            content: Some(file.content.into()),
            executable: file.executable,
        })
        .collect()
}

pub(super) fn parse_files(field: &str, files: Vec<proto::File>) -> Result<TaskFiles, InvalidField> {
    let mut map = BTreeMap::new();
    for file in files {
        let at = format!("{field}.{}", file.path);
        let path =
            WorkspacePath::new(file.path).map_err(|wrong| InvalidField::new(&at, wrong.to_string()))?;
        let content = parse_required(&at, file.content)?;
        if map
            .insert(
                path,
                TaskFile {
                    content,
                    executable: file.executable,
                },
            )
            .is_some()
        {
            return Err(InvalidField::new(at, "is given twice"));
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
            id: encode_id(task.id.0),
            spec: Some(task.spec.into()),
            status: task.status.to_string(),
            executor: task.executor.map(|name| name.to_string()),
            session: task.session.map(|session| encode_id(session.0)),
            attempt: task.attempt.0,
            add_time: task.add_time.0,
            start_time: task.start_time.map(|time| time.0),
            report_time: task.report_time.map(|time| time.0),
            finish_time: task.finish_time.map(|time| time.0),
            ran_on: task.ran_on.into_iter().map(Into::into).collect(),
            result: task.result.map(Into::into),
            trouble: task.trouble,
        }
    }
}

impl ParseMessage<Task> for proto::Task {
    fn parse(self) -> Result<Task, InvalidField> {
        Ok(Task {
            id: parse_id("id", &self.id)?,
            spec: parse_spec(self.spec)?,
            status: parse_text("status", &self.status)?,
            executor: self.executor.map(parse_executor).transpose()?,
            session: self
                .session
                .map(|bytes| parse_id("session", &bytes))
                .transpose()?,
            attempt: AttemptNumber(self.attempt),
            add_time: UnixTime(self.add_time),
            start_time: self.start_time.map(UnixTime),
            report_time: self.report_time.map(UnixTime),
            finish_time: self.finish_time.map(UnixTime),
            ran_on: parse_known("ran_on", self.ran_on),
            result: parse_optional("result", self.result)?,
            trouble: self.trouble,
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use model::{BlobHash, GroupName, LanguageName, NetworkName, ProblemName, RootName, TaskId, UserName};

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
        let file = TaskFile {
            content,
            executable: true,
        };
        TaskSpec {
            user: UserName::new("ada").unwrap(),
            priority: -3,
            language: Some(LanguageName::new("c++").unwrap()),
            root: Some(RootName::new("lab").unwrap()),
            compile: Some(CompileStep {
                command: StepCommand::Shell("cc".into()),
                env: [("C".to_string(), "d".to_string())].into(),
                network: network("lab"),
                limits: limits(1),
            }),
            execute: ExecuteStep {
                command: StepCommand::Argv(vec!["./a".into(), String::new()]),
                args: vec!["-v".into()],
                env: [("A".to_string(), "b".to_string())].into(),
                input: Content::Inline(Bytes::from_static(b"\0\xff")),
                network: network("loopback"),
                limits: limits(10),
            },
            source: [(WorkspacePath::new("a/b").unwrap(), file.clone())].into(),
            data: [(WorkspacePath::new("c").unwrap(), file)].into(),
            judging: None,
            problem: Some(ProblemName::new("hello").unwrap()),
            keep: vec![KeepPattern::new("out/*").unwrap()],
            labels: Labels::new([("k".to_string(), "v".to_string())].into()).unwrap(),
            group: Some(GroupName::new("g").unwrap()),
            attempts: Some(7),
            retry_of: Some(TaskId(uuid::Uuid::from_u128(7))),
        }
    }

    fn read(bytes: &[u8]) -> Result<TaskSpec, InvalidField> {
        proto::TaskSpec::decode(bytes).unwrap().parse()
    }

    #[test]
    fn a_spec_is_unchanged_by_encoding_and_parsing() {
        let full = spec();
        let encode = |spec: &TaskSpec| proto::TaskSpec::from(spec.clone()).encode_to_vec();
        assert_eq!(read(&encode(&full)).unwrap(), full);
        let plain = TaskSpec::new(full.user, StepCommand::Shell("true".into()));
        assert_eq!(read(&encode(&plain)).unwrap(), plain);
    }

    #[test]
    fn an_error_names_the_network_field() {
        let mut message = proto::TaskSpec::from(spec());
        message.compile.as_mut().unwrap().network = Some("a/b".into());
        assert_eq!(
            read(&message.encode_to_vec()).unwrap_err().field,
            "compile.network"
        );
    }

    /// The bytes of the last version that computed digests over the wire encoding.
    #[test]
    fn legacy_digests_stay_the_same() {
        assert_eq!(legacy_digest_bytes(&spec()), None);
        let plain = TaskSpec::new(UserName::new("ada").unwrap(), StepCommand::Shell("true".into()));
        let expected = b"\x0a\x03ada\x22\x0e\x0a\x06\x0a\x04true\x22\x02\x0a\x00\x2a\x00";
        assert_eq!(legacy_digest_bytes(&plain).unwrap(), expected);
    }
}
