//! The digest of a task's specification, by which a repeated add is recognised.
//!
//! It is computed over a canonical form of its own: tagged fields with their lengths, where a field with its default value
//! is left out. So it depends on no wire format, and a field that a later version adds does not change the digests of tasks
//! without it. Contents count by their hash: it does not matter whether they are sent inline or as a blob.

use std::collections::BTreeMap;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::{
    AddTask, BlobHash, Case, Check, CompileStep, Content, ExecuteStep, JudgeProgram, Judging, Limits,
    NetworkName, Points, ProblemRef, StepCommand, StopRule, TaskFiles, TaskSpec, TokenCheck,
};

/// Fields of a value in their canonical form. The tags of released fields never change.
#[derive(Default)]
struct CanonicalFields(Vec<u8>);

impl AddTask {
    /// Identifies what is requested: two requests have the same digest only if they ask for the same task. Whether the
    /// task may wait for an executor makes no difference.
    pub fn digest(&self) -> [u8; 32] {
        let mut fields = self.spec.canonical_fields();
        if self.names_source_code {
            fields.put(14, []);
        }
        Sha256::digest(fields.0).into()
    }
}

impl TaskSpec {
    fn canonical_fields(&self) -> CanonicalFields {
        let TaskSpec {
            user,
            priority,
            language,
            root,
            compile,
            execute,
            source,
            data,
            judging,
            problem,
            keep,
            labels,
            group,
            attempts,
            retry_of,
        } = self;
        let mut fields = CanonicalFields::default();
        fields.put(1, user.as_str());
        if *priority != 0 {
            fields.put(2, priority.to_le_bytes());
        }
        if let Some(compile) = compile {
            fields.put(3, compile_fields(compile));
        }
        fields.put(4, execute_fields(execute));
        fields.put_files(5, source);
        fields.put_files(6, data);
        for pattern in keep {
            fields.put(7, pattern.as_str());
        }
        for (key, value) in labels.iter() {
            fields.put_pair(8, key, value);
        }
        if let Some(group) = group {
            fields.put(9, group.as_str());
        }
        if let Some(attempts) = attempts {
            fields.put(10, attempts.to_le_bytes());
        }
        if let Some(id) = retry_of {
            fields.put(11, id.0.as_bytes());
        }
        if let Some(language) = language {
            fields.put(12, language.as_str());
        }
        if let Some(root) = root {
            fields.put(13, root.as_str());
        }
        if let Some(problem) = problem {
            fields.put(15, problem.as_str());
        }
        if let Some(judging) = judging {
            fields.put(16, judging_fields(judging));
        }
        fields
    }
}

impl CanonicalFields {
    fn put(&mut self, tag: u8, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        self.0.push(tag);
        self.0.extend_from_slice(&(value.len() as u64).to_le_bytes());
        self.0.extend_from_slice(value);
    }

    fn put_pair(&mut self, tag: u8, key: &str, value: &str) {
        let mut pair = CanonicalFields::default();
        pair.put(1, key);
        pair.put(2, value);
        self.put(tag, pair.0);
    }

    fn put_files(&mut self, tag: u8, files: &TaskFiles) {
        for (path, file) in files {
            let mut fields = CanonicalFields::default();
            fields.put(1, path.as_str());
            fields.put(2, content_hash(&file.content).0);
            if file.executable {
                fields.put(3, []);
            }
            self.put(tag, fields.0);
        }
    }

    fn put_command(&mut self, command: &StepCommand) {
        match command {
            StepCommand::Shell(text) => self.put(1, text),
            StepCommand::Argv(words) => words.iter().for_each(|word| self.put(2, word)),
        }
    }

    fn put_env(&mut self, env: &BTreeMap<String, String>) {
        for (name, value) in env {
            self.put_pair(3, name, value);
        }
    }

    fn put_network(&mut self, network: Option<&NetworkName>) {
        if let Some(network) = network {
            self.put(4, network.as_str());
        }
    }

    fn put_number(&mut self, tag: u8, number: Option<u64>) {
        if let Some(number) = number {
            self.put(tag, number.to_le_bytes());
        }
    }

    fn put_span(&mut self, tag: u8, span: Option<Duration>) {
        if let Some(span) = span {
            self.put(tag, span.as_micros().to_le_bytes());
        }
    }

    fn put_limits(&mut self, limits: &Limits) {
        let Limits {
            wall,
            cpu,
            memory,
            output,
            processes,
            file_size,
            open_files,
            stack,
            space,
        } = *limits;
        let mut fields = CanonicalFields::default();
        fields.put_span(1, wall);
        fields.put_span(2, cpu);
        fields.put_number(3, memory);
        fields.put_number(4, output);
        fields.put_number(5, processes.map(u64::from));
        fields.put_number(6, file_size);
        fields.put_number(7, open_files.map(u64::from));
        fields.put_number(8, stack);
        fields.put_number(9, space);
        if !fields.0.is_empty() {
            self.put(5, fields.0);
        }
    }
}

fn judging_fields(judging: &Judging) -> Vec<u8> {
    let Judging {
        cases,
        check,
        stop,
        groups,
        problem,
    } = judging;
    let mut fields = CanonicalFields::default();
    for case in cases {
        fields.put(1, case_fields(case));
    }
    match check {
        Check::None => fields.put(2, "none"),
        Check::Exact => fields.put(2, "exact"),
        Check::Lines => fields.put(2, "lines"),
        Check::Tokens(check) => fields.put(3, token_check_fields(check)),
        Check::Program(program) => fields.put(4, judge_program_fields(program)),
        Check::Interactive(program) => fields.put(5, judge_program_fields(program)),
    }
    if *stop != StopRule::default() {
        fields.put(6, stop.as_str());
    }
    for (name, scoring) in groups {
        fields.put_pair(7, name.as_str(), scoring.as_str());
    }
    if let Some(ProblemRef { name, owner }) = problem {
        fields.put_pair(8, name.as_str(), owner.as_str());
    }
    fields.0
}

fn case_fields(case: &Case) -> Vec<u8> {
    let Case {
        name,
        input,
        answer,
        args,
        files,
        points,
        group,
        limits,
        is_sample,
    } = case;
    let mut fields = CanonicalFields::default();
    fields.put(1, name.as_str());
    fields.put(2, content_hash(input).0);
    if let Some(answer) = answer {
        fields.put(3, content_hash(answer).0);
    }
    for arg in args {
        fields.put(4, arg);
    }
    fields.put_limits(limits);
    fields.put_files(6, files);
    if *points != Points::ONE {
        fields.put(7, points.millionths().to_le_bytes());
    }
    if let Some(group) = group {
        fields.put(8, group.as_str());
    }
    if *is_sample {
        fields.put(9, []);
    }
    fields.0
}

fn token_check_fields(check: &TokenCheck) -> Vec<u8> {
    let TokenCheck {
        case_sensitive,
        space_sensitive,
        absolute_tolerance,
        relative_tolerance,
    } = check;
    let mut fields = CanonicalFields::default();
    let flags = [*case_sensitive, *space_sensitive].map(u8::from);
    fields.put(1, flags);
    for (tag, tolerance) in [(2, absolute_tolerance), (3, relative_tolerance)] {
        if let Some(tolerance) = tolerance {
            fields.put(tag, tolerance.as_f64().to_bits().to_le_bytes());
        }
    }
    fields.0
}

fn judge_program_fields(program: &JudgeProgram) -> Vec<u8> {
    let JudgeProgram {
        protocol,
        language,
        root,
        source,
        compile,
        execute,
    } = program;
    let mut fields = CanonicalFields::default();
    fields.put(1, protocol.as_str());
    if let Some(language) = language {
        fields.put(2, language.as_str());
    }
    if let Some(root) = root {
        fields.put(3, root.as_str());
    }
    fields.put_files(4, source);
    if let Some(compile) = compile {
        fields.put(5, compile_fields(compile));
    }
    fields.put(6, execute_fields(execute));
    fields.0
}

impl JudgeProgram {
    /// Identifies the program: all that decides what it does, except the contents of its root.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(judge_program_fields(self)).into()
    }
}

fn compile_fields(step: &CompileStep) -> Vec<u8> {
    let CompileStep {
        command,
        env,
        network,
        limits,
    } = step;
    let mut fields = CanonicalFields::default();
    fields.put_command(command);
    fields.put_env(env);
    fields.put_network(network.as_ref());
    fields.put_limits(limits);
    fields.0
}

fn execute_fields(step: &ExecuteStep) -> Vec<u8> {
    let ExecuteStep {
        command,
        args,
        env,
        input,
        network,
        limits,
    } = step;
    let mut fields = CanonicalFields::default();
    fields.put_command(command);
    fields.put_env(env);
    fields.put_network(network.as_ref());
    fields.put_limits(limits);
    for arg in args {
        fields.put(6, arg);
    }
    if *input != Content::empty() {
        fields.put(7, content_hash(input).0);
    }
    fields.0
}

fn content_hash(content: &Content) -> BlobHash {
    match content {
        Content::Inline(bytes) => BlobHash::of(bytes),
        Content::Blob(hash) => *hash,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{
        GroupName, KeepPattern, Labels, LanguageName, RootName, TaskFile, TaskId, UserName, WorkspacePath,
    };

    fn spec() -> TaskSpec {
        TaskSpec::new(UserName::new("ada").unwrap(), StepCommand::Shell("true".into()))
    }

    fn digest(spec: TaskSpec) -> [u8; 32] {
        AddTask::new(TaskId(uuid::Uuid::nil()), spec).digest()
    }

    fn hex(digest: [u8; 32]) -> String {
        BlobHash(digest).to_string()
    }

    /// A task that was added by an earlier release must be recognised when it is added again.
    #[test]
    fn digests_are_the_same_in_every_version() {
        assert_eq!(
            hex(digest(spec())),
            "6204ced58042472d4e8ac548e32e5d5d21e77c7f9dda5f9a2072a78603bb575d"
        );
        let file = |content| TaskFile {
            content,
            executable: true,
        };
        let mut full = spec();
        full.priority = -3;
        full.compile = Some(CompileStep {
            command: StepCommand::Argv(vec!["cc".into(), "a.c".into()]),
            env: [("A".to_string(), "1".to_string())].into(),
            network: Some(NetworkName::new("lab").unwrap()),
            limits: Limits {
                wall: Some(Duration::from_millis(1500)),
                ..Limits::default()
            },
        });
        full.execute.args = vec!["x".into()];
        full.execute.input = Content::Inline(Bytes::from_static(b"in"));
        full.source = [(
            WorkspacePath::new("a.c").unwrap(),
            file(Content::Blob(BlobHash([7; 32]))),
        )]
        .into();
        full.keep = vec![KeepPattern::new("out/*").unwrap()];
        full.labels = Labels::new([("a".to_string(), "b".to_string())].into()).unwrap();
        full.group = Some(GroupName::new("g").unwrap());
        full.attempts = Some(5);
        full.retry_of = Some(TaskId(uuid::Uuid::from_u128(9)));
        assert_eq!(
            hex(digest(full)),
            "2a0295d907da4f8d28ddeca6c4fe7f45cfa1f0ea43d83d8ca165c95a89f24846"
        );
    }

    #[test]
    fn every_field_counts() {
        let digest = |change: &fn(&mut AddTask)| {
            let mut add = AddTask::new(TaskId(uuid::Uuid::nil()), spec());
            change(&mut add);
            add.digest()
        };
        fn files(executable: bool) -> TaskFiles {
            let content = Content::empty();
            let file = TaskFile { content, executable };
            [(WorkspacePath::new("f").unwrap(), file)].into()
        }
        let changes: &[fn(&mut AddTask)] = &[
            |_| (),
            |add| add.spec.user = UserName::new("bob").unwrap(),
            |add| add.spec.priority = 1,
            |add| add.spec.execute.command = StepCommand::Argv(vec!["true".into()]),
            |add| add.spec.execute.args = vec!["a".into(), "b".into()],
            |add| add.spec.execute.args = vec!["ab".into()],
            |add| add.spec.execute.env = [("a".to_string(), "b".to_string())].into(),
            |add| add.spec.execute.env = [("ab".to_string(), String::new())].into(),
            |add| add.spec.execute.input = Content::Inline(Bytes::from_static(b"x")),
            |add| add.spec.execute.network = Some(NetworkName::new("x").unwrap()),
            |add| add.spec.execute.limits.cpu = Some(Duration::from_secs(1)),
            |add| add.spec.execute.limits.wall = Some(Duration::from_secs(1)),
            |add| add.spec.execute.limits.memory = Some(1),
            |add| add.spec.execute.limits.space = Some(1),
            |add| add.spec.source = files(false),
            |add| add.spec.source = files(true),
            |add| add.spec.data = files(false),
            |add| add.spec.keep = vec![KeepPattern::new("a").unwrap()],
            |add| add.spec.labels = Labels::new([("a".into(), "b".into())].into()).unwrap(),
            |add| add.spec.group = Some(GroupName::new("a").unwrap()),
            |add| add.spec.attempts = Some(1),
            |add| add.spec.retry_of = Some(TaskId(uuid::Uuid::nil())),
            |add| add.spec.language = Some(LanguageName::new("a").unwrap()),
            |add| add.spec.root = Some(RootName::new("a").unwrap()),
            |add| add.names_source_code = true,
        ];
        let digests: std::collections::BTreeSet<_> = changes.iter().map(digest).collect();
        assert_eq!(digests.len(), changes.len());
    }

    #[test]
    fn a_content_is_the_same_inline_and_as_a_blob() {
        let with_input = |input| {
            let mut spec = spec();
            spec.execute.input = input;
            digest(spec)
        };
        let bytes = Bytes::from_static(b"some input");
        let blob = Content::Blob(BlobHash::of(&bytes));
        assert_eq!(with_input(Content::Inline(bytes)), with_input(blob));
    }
}
