//! Tasks with cases: what a judicator fills in, and what it refuses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use judicator::{Judicator, JudicatorOptions};
use model::{
    AddTask, Case, CaseName, Check, Content, ExecutorTools, InvalidField, JudgeProblem, JudgeProgram,
    JudgeProtocol, Judging, LanguageName, LanguageTable, Limits, OfferedLanguage, Points, ProblemEditor,
    ProblemName, ProblemRef, StepCommand, StopRule, Task, TaskFile, TaskFiles, TaskForm, TaskSpec, UnixTime,
    UserName, WorkspacePath,
};
use rpc::{CallError, Calls};

use super::harness::{options, with_deadline};
use super::languages::{java, put};
use super::sqlite_harness::{ScriptedExecutor, SqliteJudicator, new_id, spec};

fn language(name: &str) -> LanguageName {
    LanguageName::new(name).unwrap()
}

/// Java, and a language with the same table row that is called "go".
fn two_languages() -> JudicatorOptions {
    let mut go = java();
    go.name = language("go");
    go.aliases.clear();
    JudicatorOptions {
        languages: LanguageTable::new(vec![java(), go]).unwrap(),
        ..options()
    }
}

fn inline(text: &'static str) -> Content {
    Content::Inline(Bytes::from_static(text.as_bytes()))
}

fn case(name: &str) -> Case {
    Case {
        name: CaseName::new(name).unwrap(),
        input: inline("1 2"),
        answer: Some(inline("3")),
        args: vec![],
        files: TaskFiles::new(),
        points: Points::ONE,
        group: None,
        limits: Limits::default(),
        is_sample: false,
    }
}

fn judging(check: Check) -> Judging {
    Judging {
        cases: vec![case("1"), case("2")],
        check,
        stop: StopRule::Never,
        groups: BTreeMap::new(),
        problem: None,
    }
}

/// A checker whose lone source file has no name yet.
fn checker(in_language: &str, source: Content) -> Check {
    let command = StepCommand::of_language();
    let executable = false;
    Check::Program(JudgeProgram {
        protocol: JudgeProtocol::Icpc,
        language: Some(language(in_language)),
        root: None,
        source: TaskFiles::from([(
            WorkspacePath::new(AddTask::SOURCE_CODE).unwrap(),
            TaskFile {
                content: source,
                executable,
            },
        )]),
        compile: None,
        execute: TaskSpec::new(spec().user, command).execute,
    })
}

fn judged(check: Check) -> TaskSpec {
    TaskSpec {
        judging: Some(judging(check)),
        ..spec()
    }
}

fn of_problem(name: &str) -> TaskSpec {
    TaskSpec {
        problem: Some(ProblemName::new(name).unwrap()),
        user: UserName::new("student").unwrap(),
        ..spec()
    }
}

async fn add(judicator: &Judicator, spec: TaskSpec) -> Result<Task, CallError> {
    let id = new_id();
    with_deadline(judicator.add(vec![AddTask::new(id, spec)])).await?;
    judicator.get(id, None).await
}

async fn refused(judicator: &Judicator, spec: TaskSpec) -> InvalidField {
    match add(judicator, spec).await {
        Err(CallError::Invalid(invalid)) => invalid,
        other => panic!("not refused: {other:?}"),
    }
}

/// An executor with these languages is on the list.
async fn executor_with(judicator: &Arc<Judicator>, languages: &[&str]) -> ScriptedExecutor {
    let mut executor = ScriptedExecutor::new(judicator, "e");
    report_languages(&mut executor, languages).await;
    executor
}

async fn report_languages(executor: &mut ScriptedExecutor, languages: &[&str]) {
    let offered = |name: &&str| OfferedLanguage {
        root: None,
        name: language(name),
        version: None,
    };
    let languages = languages.iter().map(offered).collect();
    executor.tools = Some(Arc::new(ExecutorTools::new(languages, vec![])));
    executor.claim(0).await;
}

fn program(judging: &Judging) -> &JudgeProgram {
    judging.check.program().unwrap()
}

fn check_filled_in(program: &JudgeProgram) {
    assert_eq!(program.language, Some(language("java")));
    let names: Vec<_> = program.source.keys().map(WorkspacePath::as_str).collect();
    assert_eq!(names, ["Judge.java"]);
    assert_eq!(program.execute.command, StepCommand::Shell("java Judge".into()));
}

const CHECKER: &str = "public class Judge { public static void main(String[] args) {} }";

#[tokio::test]
async fn the_program_that_judges_takes_from_its_language_and_has_limits_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start_with(folder.path(), two_languages());
    executor_with(judicator, &["java"]).await;
    let blob = put(judicator, CHECKER).await;
    for source in [inline(CHECKER), blob] {
        let mut spec = judged(checker("jdk", source));
        spec.execute.limits.memory = Some(64 << 20);
        let task = add(judicator, spec).await.unwrap();
        let judging = task.spec.judging.unwrap();
        check_filled_in(program(&judging));
        let limits = program(&judging).execute.limits;
        assert_eq!(limits.memory, Some(2 << 30));
        assert_eq!(limits.wall, Some(Duration::from_secs(60)));
        assert_eq!(task.spec.execute.limits.memory, Some(64 << 20));
        assert_eq!(task.spec.language, None);
    }
}

#[tokio::test]
async fn a_task_of_a_problem_has_its_cases() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start_with(folder.path(), two_languages());
    let mut executor = executor_with(judicator, &["java"]).await;
    let owner = spec().user;
    let mut judging = judging(checker("java", put(judicator, CHECKER).await));
    judging.cases[0].input = put(judicator, "secret").await;
    let problem = JudgeProblem {
        name: ProblemName::new("sum").unwrap(),
        owner: owner.clone(),
        title: "Sum".into(),
        limits: Limits {
            cpu: Some(Duration::from_secs(2)),
            ..Limits::default()
        },
        judging,
        update_time: UnixTime(0),
    };
    let editor = ProblemEditor::Owner(owner.clone());
    let stored = judicator.put_problem(problem, editor.clone()).await.unwrap();
    check_filled_in(program(&stored.judging));
    assert!(stored.update_time > UnixTime(0));
    assert_eq!(
        judicator.problem(stored.name.clone()).await,
        Ok(Some(stored.clone()))
    );
    let mut request = of_problem("sum");
    request.execute.limits.memory = Some(32 << 20);
    let id = new_id();
    let request = AddTask::new(id, request);
    judicator.add(vec![request.clone()]).await.unwrap();
    let task = judicator.get(id, None).await.unwrap();
    let taken = task.spec.judging.as_ref().unwrap();
    let reference = ProblemRef {
        name: stored.name.clone(),
        owner,
    };
    assert_eq!(taken.problem, Some(reference));
    assert_eq!(taken.cases, stored.judging.cases);
    check_filled_in(program(taken));
    let limits = task.spec.execute.limits;
    assert_eq!(
        (limits.cpu, limits.memory),
        (Some(Duration::from_secs(2)), Some(32 << 20))
    );
    assert_eq!(
        limits.wall,
        Some(Duration::from_secs(16)),
        "three times the CPU time and ten seconds"
    );
    let labels: Vec<_> = task.spec.labels.iter().collect();
    assert_eq!(labels, [("problem", "sum")]);
    // A later change of the problem, and its removal, leave the task and its repetitions alone.
    let attempt = executor.claim_one().await;
    executor.finish(&[attempt], 1).await;
    assert!(
        judicator
            .remove_problem(stored.name.clone(), editor)
            .await
            .unwrap()
    );
    assert!(judicator.add(vec![request]).await.unwrap()[0].existed);
    let retried = judicator.retry(id, new_id()).await.unwrap();
    assert_eq!(retried.spec.judging, task.spec.judging);
    let invalid = refused(judicator, of_problem("sum")).await;
    assert_eq!(invalid.field, "problem");
    assert!(invalid.problem.contains("'sum' does not exist"), "{invalid}");
}

#[tokio::test]
async fn bad_problems_and_cases_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start_with(folder.path(), two_languages());
    executor_with(judicator, &["java"]).await;
    let editor = || ProblemEditor::Owner(spec().user);
    let problem = |change: fn(&mut JudgeProblem)| {
        let mut problem = JudgeProblem {
            name: ProblemName::new("sum").unwrap(),
            owner: spec().user,
            title: String::new(),
            limits: Limits {
                cpu: Some(Duration::from_secs(2)),
                ..Limits::default()
            },
            judging: judging(Check::Exact),
            update_time: UnixTime(0),
        };
        change(&mut problem);
        problem
    };
    let check_problem = async |change: fn(&mut JudgeProblem), field: &str| match judicator
        .put_problem(problem(change), editor())
        .await
    {
        Err(CallError::Invalid(invalid)) => assert_eq!(invalid.field, field, "{invalid}"),
        other => panic!("{field}: {other:?}"),
    };
    check_problem(|problem| problem.judging.cases.clear(), "cases").await;
    check_problem(|problem| problem.limits.cpu = Some(Duration::ZERO), "limits.cpu").await;
    check_problem(|problem| problem.limits.output = Some(u64::MAX), "limits.output").await;
    check_problem(
        |problem| problem.judging.cases[1].answer = None,
        "cases[1].answer",
    )
    .await;
    check_problem(
        |problem| problem.judging.check = checker("cobol", inline(CHECKER)),
        "check.language",
    )
    .await;
    check_problem(
        |problem| problem.judging.cases[0].input = Content::Inline(vec![0; 9 << 20].into()),
        "cases",
    )
    .await;
    // With these, every task of the problem would be refused.
    check_problem(
        |problem| problem.judging.cases[1].limits.output = Some(u64::MAX),
        "cases[1].limits.output",
    )
    .await;
    check_problem(
        |problem| {
            problem.judging.check = checker("java", inline(CHECKER));
            let program = problem.judging.check.program_mut().unwrap();
            program.execute.limits.output = Some(u64::MAX);
        },
        "check.execute.limits.output",
    )
    .await;
    judicator.put_problem(problem(|_| {}), editor()).await.unwrap();

    let check = async |spec: TaskSpec, field: &str, part: &str| {
        let invalid = refused(judicator, spec).await;
        assert_eq!(invalid.field, field, "{invalid}");
        assert!(invalid.to_string().contains(part), "{invalid}");
    };
    let changed = |mut spec: TaskSpec, change: fn(&mut TaskSpec)| {
        change(&mut spec);
        spec
    };
    check(
        changed(of_problem("sum"), |spec| {
            spec.judging = Some(judging(Check::None))
        }),
        "problem",
        "cannot be used with cases",
    )
    .await;
    check(
        changed(judged(Check::None), |spec| {
            let judging = spec.judging.as_mut().unwrap();
            judging.problem = Some(ProblemRef {
                name: ProblemName::new("sum").unwrap(),
                owner: spec.user.clone(),
            });
        }),
        "problem",
        "is missing",
    )
    .await;
    check(
        changed(of_problem("sum"), |spec| {
            spec.execute.limits.cpu = Some(Duration::from_secs(9))
        }),
        "execute.limits.cpu",
        "is set by the problem 'sum'",
    )
    .await;
    check(
        changed(judged(Check::Exact), |spec| {
            spec.judging.as_mut().unwrap().cases[1].limits.cpu = Some(Duration::ZERO);
        }),
        "cases[1].limits.cpu",
        "more than zero",
    )
    .await;
    check(
        changed(judged(Check::Exact), |spec| {
            let first = &mut spec.judging.as_mut().unwrap().cases[0];
            first.limits.space = Some(2);
        }),
        "cases[0].limits.space",
        "limit 2 bytes, actual 3 bytes",
    )
    .await;
    check(
        judged(checker("cobol", inline(CHECKER))),
        "check.language",
        "'cobol' is unknown",
    )
    .await;
    check(
        judged(checker("go", inline(CHECKER))),
        "check.language",
        "no executor has 'go'",
    )
    .await;
}

#[tokio::test]
async fn the_task_and_its_checker_need_one_executor_with_both_languages() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start_with(folder.path(), two_languages());
    let mut java_only = executor_with(judicator, &["java"]).await;
    let mut go_only = ScriptedExecutor::new(judicator, "f");
    report_languages(&mut go_only, &["go"]).await;
    let in_go = || {
        let mut spec = judged(checker("java", inline(CHECKER)));
        spec.language = Some(language("go"));
        spec
    };
    let invalid = refused(judicator, in_go()).await;
    assert_eq!(invalid.field, "check.language");
    assert!(
        invalid
            .problem
            .contains("no executor has both the language go for the task and the language java"),
        "{invalid}"
    );
    let waiting = AddTask {
        wait_for_executor: true,
        ..AddTask::new(new_id(), in_go())
    };
    let id = judicator.add(vec![waiting]).await.unwrap()[0].id;
    assert_eq!(java_only.claim(1).await, []);
    assert_eq!(go_only.claim(1).await, []);
    let mut both = ScriptedExecutor::new(judicator, "g");
    report_languages(&mut both, &["go", "java"]).await;
    assert_eq!(both.claim_one().await.task, id);
    add(judicator, in_go()).await.unwrap();
}

#[tokio::test]
async fn without_an_executor_that_judges_cases_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let mut without_cells = ScriptedExecutor::new(judicator, "e");
    without_cells.newest_form = TaskForm::NEWEST_WITHOUT_CELLS;
    report_languages(&mut without_cells, &["java"]).await;
    let invalid = refused(judicator, judged(Check::Exact)).await;
    assert_eq!(invalid.field, "cases");
    for part in ["--isolation none", "--judge-without-cells", "wait_for_executor"] {
        assert!(invalid.problem.contains(part), "{invalid}");
    }
    add(judicator, spec()).await.unwrap();
    let waiting = AddTask {
        wait_for_executor: true,
        ..AddTask::new(new_id(), judged(Check::Exact))
    };
    let id = judicator.add(vec![waiting]).await.unwrap()[0].id;
    let taken = without_cells.claim(9).await;
    assert!(taken.iter().all(|attempt| attempt.task != id), "{taken:?}");
    let mut with_cells = ScriptedExecutor::new(judicator, "f");
    assert_eq!(with_cells.claim_one().await.task, id);
    add(judicator, judged(Check::Exact)).await.unwrap();
}

/// The cases of a problem are in memory once for each task.
#[tokio::test]
async fn the_cases_of_all_tasks_of_a_request_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let mut many = judging(Check::None);
    many.cases = (0..5_000).map(|number| case(&number.to_string())).collect();
    let problem = JudgeProblem {
        name: ProblemName::new("many").unwrap(),
        owner: spec().user,
        title: String::new(),
        limits: Limits::default(),
        judging: many,
        update_time: UnixTime(0),
    };
    let editor = ProblemEditor::Owner(spec().user);
    judicator.put_problem(problem, editor).await.unwrap();
    let mut task = of_problem("many");
    task.execute.command = StepCommand::Shell("true".into());
    let adds = (0..21).map(|_| AddTask::new(new_id(), task.clone())).collect();
    match with_deadline(judicator.add(adds)).await {
        Err(CallError::Invalid(invalid)) => {
            assert_eq!(invalid.field, "tasks");
            assert_eq!(invalid.actual.as_deref(), Some("105000"), "{invalid}");
        }
        other => panic!("not refused: {other:?}"),
    }
}
