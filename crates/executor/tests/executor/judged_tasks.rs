//! Judged tasks of shell scripts, and an executor with cells that judges them.

use std::collections::BTreeMap;
use std::time::Duration;

use executor::{ExecutorOptions, warden_count};
use model::{
    AttemptEnd, Case, CaseName, CaseResult, Check, CompileStep, Content, ExecuteStep, JudgeProgram,
    JudgeProtocol, Judgement, Judging, Limits, Outcome, Points, StepCommand, StopRule, TaskFile, TaskFiles,
    TaskSpec, Verdict, WorkspacePath,
};
use sandbox::{DefaultCommandLimits, SandboxOptions};

use crate::harness::{ExecutorHarness, OutputClient, task};

/// An executor with cells, for tests of judging.
pub(crate) struct JudgingHarness {
    pub(crate) executor: ExecutorHarness,
    pub(crate) client: OutputClient,
}

/// How a judged task ended.
#[derive(Debug)]
pub(crate) struct JudgedAttempt {
    pub(crate) compile: Option<Outcome>,
    pub(crate) judgement: Judgement,
    pub(crate) cases: Vec<CaseResult>,
}

impl JudgingHarness {
    pub(crate) async fn start() -> JudgingHarness {
        JudgingHarness::start_with(|_| ()).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut ExecutorOptions)) -> JudgingHarness {
        let mut executor = ExecutorHarness::start_with(|options| {
            options.cells = Some(cells(options.slots));
            change(options);
        })
        .await;
        let client = executor.connected().await;
        JudgingHarness { executor, client }
    }

    pub(crate) async fn judge(&mut self, spec: TaskSpec) -> JudgedAttempt {
        let attempt_id = self.executor.assign(self.client.session, spec).await;
        match self.executor.result(attempt_id).await {
            AttemptEnd::Result(result) => {
                assert_eq!(result.execute, None);
                let judgement = result.judgement.expect("a judgement");
                let encoded = match &judgement.cases {
                    Content::Inline(bytes) => bytes.to_vec(),
                    Content::Blob(hash) => self.executor.judicator.uploaded(hash).expect("uploaded"),
                };
                JudgedAttempt {
                    compile: result.compile,
                    cases: rpc::decode_case_results(&encoded).unwrap(),
                    judgement,
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

impl JudgedAttempt {
    pub(crate) fn marks(&self) -> Vec<Verdict> {
        let marks: Vec<_> = self.cases.iter().map(|case| case.verdict).collect();
        assert_eq!(marks, self.judgement.marks);
        marks
    }

    /// What a case wrote.
    pub(crate) fn stdout(&self, case: usize) -> String {
        let execute = self.cases[case].execute.as_ref().expect("the case ran");
        String::from_utf8(execute.stdout.head.to_vec()).unwrap()
    }

    /// What the check of a case says to the owner of the cases.
    pub(crate) fn judge_message(&self, case: usize) -> &str {
        let check = self.cases[case].check.as_ref();
        check.map_or("", |check| &check.judge_message)
    }
}

fn cells(slots: u32) -> SandboxOptions {
    SandboxOptions {
        root: None,
        binds: Vec::new(),
        first_user: 1_900_000_000,
        wardens: warden_count(slots),
        parent_group: None,
        default_limits: DefaultCommandLimits {
            memory: Some(256 << 20),
            processes: Some(64),
            open_files: Some(256),
        },
        space: 64 << 20,
        max_files: 10_000,
        networks: Vec::new(),
        waived_limits: Vec::new(),
    }
}

pub(crate) fn case(name: &str, input: &str, answer: &str) -> Case {
    Case {
        name: CaseName::new(name).unwrap(),
        input: inline(input),
        answer: Some(inline(answer)),
        args: vec![],
        files: TaskFiles::new(),
        points: Points::ONE,
        group: None,
        limits: Limits::default(),
        is_sample: false,
    }
}

pub(crate) fn inline(text: &str) -> Content {
    Content::Inline(text.to_string().into())
}

/// A task that a check of its output judges.
pub(crate) fn judged_task(execute: &str, cases: Vec<Case>, check: Check) -> TaskSpec {
    let mut spec = task(execute.into());
    spec.execute.limits = Limits {
        wall: Some(Duration::from_secs(20)),
        output: Some(1 << 20),
        ..Limits::default()
    };
    spec.judging = Some(Judging {
        cases,
        check,
        stop: StopRule::Never,
        groups: BTreeMap::new(),
        problem: None,
    });
    spec
}

pub(crate) fn compile_step(script: &str) -> CompileStep {
    CompileStep {
        command: StepCommand::Shell(script.into()),
        env: BTreeMap::new(),
        network: None,
        limits: Limits::default(),
    }
}

pub(crate) fn file(content: &str) -> TaskFile {
    TaskFile {
        content: inline(content),
        executable: true,
    }
}

pub(crate) fn files(files: &[(&str, &str)]) -> TaskFiles {
    let path = |path: &str| WorkspacePath::new(path).unwrap();
    files
        .iter()
        .map(|(name, content)| (path(name), file(content)))
        .collect()
}

/// A shell script that judges.
pub(crate) fn judge_program(protocol: JudgeProtocol, script: &str) -> JudgeProgram {
    JudgeProgram {
        protocol,
        language: None,
        root: None,
        source: files(&[("judge.sh", script)]),
        compile: None,
        execute: ExecuteStep {
            command: StepCommand::Argv(vec!["sh".into(), "judge.sh".into()]),
            args: vec![],
            env: BTreeMap::new(),
            input: Content::empty(),
            network: None,
            limits: Limits {
                wall: Some(Duration::from_secs(20)),
                ..Limits::default()
            },
        },
    }
}
