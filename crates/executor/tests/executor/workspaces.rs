//! Workspaces in which commands or cases left what no other command can use. That is the outcome of a task, and never a failure
//! of the executor, which would pause it.

use model::{AttemptEnd, Check, JudgeProtocol, Limits, Outcome, OutcomeReason, TaskSpec, Verdict};

use crate::harness::compiled_task;
use crate::judged_tasks::{
    JudgedAttempt, JudgingHarness, case, compile_step, files, judge_program, judged_task,
};

/// Makes a folder of so many bytes in 15 folders of 255 bytes, part by part.
fn make_long_path(last: usize) -> String {
    format!(
        "of() {{ printf \"$1%.0s\" $(seq $2); }}; for i in $(seq 15); do mkdir $(of d 255); cd $(of d 255); done; \
         mkdir $(of e {last})"
    )
}

async fn without_cells() -> JudgingHarness {
    JudgingHarness::start_with(|options| {
        options.cells = None;
        options.judge_without_cells = true;
    })
    .await
}

fn stderr(outcome: Option<&Outcome>) -> String {
    let stderr = outcome.map(|outcome| outcome.stderr.head.to_vec());
    String::from_utf8(stderr.unwrap_or_default()).unwrap()
}

/// Judges two cases with files of their own.
async fn judge_files(
    harness: &mut JudgingHarness,
    change: impl FnOnce(&mut TaskSpec),
    execute: &str,
    of_cases: [&[(&str, &str)]; 2],
) -> JudgedAttempt {
    let mut cases = vec![case("1", "", ""), case("2", "", "")];
    for (case, own) in cases.iter_mut().zip(of_cases) {
        case.files = files(own);
    }
    let mut spec = judged_task(execute, cases, Check::None);
    change(&mut spec);
    harness.judge(spec).await
}

/// Each case writes its files by their whole paths, of which the kernel takes 4096 bytes.
#[tokio::test]
async fn a_compile_step_that_leaves_too_long_a_path_has_failed() {
    for mut harness in [JudgingHarness::start().await, without_cells().await] {
        for last in [238, 100] {
            let mut spec = judged_task("true", vec![case("1", "", "")], Check::None);
            spec.compile = Some(compile_step(&make_long_path(last)));
            let judged = harness.judge(spec).await;
            assert_eq!(judged.judgement.verdict, Verdict::CompileError, "{judged:?}");
            let compile = judged.compile.as_ref();
            assert_eq!(compile.unwrap().reason, OutcomeReason::DiskLimit);
            assert!(
                stderr(compile).contains("path is longer than 1024 bytes"),
                "{judged:?}"
            );
        }
        let mut program = judge_program(JudgeProtocol::Icpc, "exit 42");
        program.compile = Some(compile_step(&make_long_path(238)));
        let spec = judged_task("true", vec![case("1", "", "")], Check::Program(program));
        let judged = harness.judge(spec).await;
        assert_eq!(judged.marks(), [Verdict::JudgeError]);
        assert!(judged.judge_message(0).contains("path is longer"), "{judged:?}");
        harness.executor.stop().await;
    }
}

#[tokio::test]
async fn files_of_a_case_replace_what_is_in_their_way() {
    for mut harness in [JudgingHarness::start().await, without_cells().await] {
        let look = "find . -type f | sort | xargs tail -n 1 -v; true";
        let of_cases: [&[(&str, &str)]; 2] = [
            &[
                ("a", "case"),
                ("b/c", "case"),
                ("link/x", "case"),
                ("open", "case"),
            ],
            &[
                ("b", "case"),
                ("a/b/c", "case"),
                ("link", "case"),
                ("open/x/y", "case"),
            ],
        ];
        let first = "==> ./a <==\ncase\n==> ./b/c <==\ncase\n==> ./link/x <==\ncase\n==> ./open <==\ncase";
        let second =
            "==> ./a/b/c <==\ncase\n==> ./b <==\ncase\n==> ./link <==\ncase\n==> ./open/x/y <==\ncase";
        let compile = "mkdir -p a/b open/y; echo left > a/b/c; echo left > b; ln -s /tmp link; echo left > open/x; \
                       chmod 500 open";
        let of_compile = |spec: &mut TaskSpec| spec.compile = Some(compile_step(compile));
        let of_source = |spec: &mut TaskSpec| {
            spec.source = files(&[("a/b", "left"), ("b", "left"), ("open", "left")]);
        };
        for judged in [
            judge_files(&mut harness, of_compile, look, of_cases).await,
            judge_files(&mut harness, of_source, look, of_cases).await,
        ] {
            assert_eq!(judged.marks(), [Verdict::Accepted; 2], "{judged:?}");
            let without_blank_lines = |case: usize| judged.stdout(case).replace("\n\n", "\n");
            assert_eq!([without_blank_lines(0), without_blank_lines(1)], [first, second]);
        }
        harness.executor.stop().await;
    }
}

/// Such a task is refused when it is added. One that an earlier version has stored is not.
#[tokio::test]
async fn files_of_a_case_that_are_in_each_others_way_fail_the_case() {
    for mut harness in [JudgingHarness::start().await, without_cells().await] {
        let of_cases: [&[(&str, &str)]; 2] = [&[("a", "x"), ("a/b", "y")], &[]];
        let judged = judge_files(&mut harness, |_| (), "true", of_cases).await;
        assert_eq!(judged.marks(), [Verdict::RuntimeError, Verdict::Accepted]);
        let execute = judged.cases[0].execute.as_ref();
        assert_eq!(execute.unwrap().reason, OutcomeReason::DiskLimit);
        assert!(
            stderr(execute).contains("no workspace can have the file a"),
            "{judged:?}"
        );
        harness.executor.stop().await;
    }
}

#[tokio::test]
async fn a_compile_step_that_removes_its_workspace_has_failed() {
    let mut harness = without_cells().await;
    let mut spec = judged_task("true", vec![case("1", "", "")], Check::None);
    spec.compile = Some(compile_step("rm -r \"$PWD\""));
    let judged = harness.judge(spec).await;
    assert_eq!(judged.judgement.verdict, Verdict::CompileError, "{judged:?}");
    let said = stderr(judged.compile.as_ref());
    assert!(said.contains("removed its working directory"), "{said}");
    harness.executor.stop().await;
}

/// Without cases, both steps have one workspace.
#[tokio::test]
async fn a_step_cannot_run_in_a_workspace_that_the_one_before_it_closed_or_removed() {
    let closed = "chmod 000 .";
    for (mut harness, compile) in [
        (JudgingHarness::start().await, closed),
        (without_cells().await, "rm -r \"$PWD\""),
    ] {
        let spec = compiled_task(compile.into(), "true".into());
        let attempt_id = harness.executor.assign(harness.client.session, spec).await;
        let AttemptEnd::Result(result) = harness.executor.result(attempt_id).await else {
            panic!("{compile} is a failure of the executor");
        };
        assert!(result.compile.is_some_and(|outcome| outcome.succeeded()));
        let execute = result.execute.as_ref();
        assert_eq!(execute.unwrap().exit_code, Some(126), "{compile}: {execute:?}");
        assert!(stderr(execute).contains("directory"), "{compile}: {execute:?}");
        harness.executor.stop().await;
    }
}

#[tokio::test]
async fn the_space_of_a_case_may_be_less_than_that_of_its_task() {
    let mut harness = JudgingHarness::start().await;
    let space = |mebibytes: u64| Limits {
        space: Some(mebibytes << 20),
        ..Limits::default()
    };
    let mut cases: Vec<_> = ["task", "less", "more", "least"]
        .map(|name| case(name, "", ""))
        .into();
    cases[1].limits = space(4);
    cases[2].limits = space(48);
    cases[3].limits.space = Some(1);
    let mut spec = judged_task("head -c 20M /dev/zero > file || exit 1", cases, Check::None);
    spec.execute.limits.space = space(32).space;
    spec.compile = Some(compile_step("echo left > left"));
    spec.compile.as_mut().unwrap().limits.space = space(16).space;
    let judged = harness.judge(spec).await;
    let (fits, full) = (Verdict::Accepted, Verdict::RuntimeError);
    assert_eq!(judged.marks(), [fits, full, fits, full], "{judged:?}");
    for index in [1, 3] {
        let execute = judged.cases[index].execute.as_ref().unwrap();
        assert_eq!(execute.reason, OutcomeReason::DiskLimit);
    }
    harness.executor.stop().await;
}

/// The shell runs a file that the kernel does not execute as a script.
#[tokio::test]
async fn programs_that_only_the_shell_can_run_are_judged() {
    for mut harness in [JudgingHarness::start().await, without_cells().await] {
        let script = "echo \"ran $*\"\n";
        let of_compile = |spec: &mut TaskSpec| {
            spec.compile = Some(compile_step(
                "printf 'echo \"ran $*\"\\n' > run; chmod 700 run; ln -s run link",
            ));
        };
        let of_source = |spec: &mut TaskSpec| spec.source = files(&[("run", script)]);
        // The second case replaces the program.
        let of_cases: [&[(&str, &str)]; 2] = [&[], &[("run", "#!/bin/sh\necho \"replaced $*\"")]];
        for judged in [
            judge_files(&mut harness, of_compile, "./run a b", of_cases).await,
            judge_files(&mut harness, of_compile, "./link a b", of_cases).await,
            judge_files(&mut harness, of_source, "./run a b", of_cases).await,
        ] {
            assert_eq!(judged.marks(), [Verdict::Accepted; 2], "{judged:?}");
            assert_eq!(
                [judged.stdout(0), judged.stdout(1)],
                ["ran a b\n", "replaced a b\n"]
            );
        }
        let mut program = judge_program(JudgeProtocol::Icpc, "exit 1");
        program.source = files(&[("judge", "read said; [ \"$said\" = 'ran' ] && exit 42; exit 43")]);
        program.execute.command = model::StepCommand::Shell("./judge".into());
        for check in [Check::Program(program.clone()), Check::Interactive(program)] {
            let mut spec = judged_task("./run", vec![case("1", "", "")], check);
            spec.source = files(&[("run", "echo ran\n")]);
            let judged = harness.judge(spec).await;
            assert_eq!(judged.marks(), [Verdict::Accepted], "{judged:?}");
        }
        harness.executor.stop().await;
    }
}

/// A shell would set a variable that says how many shells are around the program.
#[tokio::test]
async fn a_compiled_program_is_judged_without_a_shell() {
    let mut harness = JudgingHarness::start().await;
    let compile = |spec: &mut TaskSpec| {
        spec.compile = Some(compile_step(
            "cp /usr/bin/env compiled; echo '#!/bin/cat /proc/self/environ' > script; chmod 700 script",
        ));
    };
    for (execute, has_shell) in [
        ("./compiled", false),
        ("./script", false),
        ("./compiled; true", true),
    ] {
        let judged = judge_files(&mut harness, compile, execute, [&[], &[]]).await;
        for case in 0..2 {
            let environment = judged.stdout(case);
            assert_eq!(environment.contains("SHLVL="), has_shell, "{execute}: {judged:?}");
            assert!(environment.contains("CONCLAVE_TASK="), "{judged:?}");
        }
    }
    harness.executor.stop().await;
}
