use bytes::Bytes;

use super::*;
use crate::{LanguageExample, LanguageLimits, LanguageName, RootName, TaskId, UserName};

fn language(name: &str, source_name: &str, compile: Option<&str>, execute: &str) -> Language {
    Language {
        name: LanguageName::new(name).unwrap(),
        title: name.to_string(),
        compiler: name.to_string(),
        aliases: vec![],
        extensions: vec![source_name.rsplit_once('.').unwrap().1.to_string()],
        source_name: WorkspacePath::new(source_name).unwrap(),
        compile: compile.map(Into::into),
        execute: execute.to_string(),
        programs: vec![],
        version: None,
        root: None,
        env: BTreeMap::new(),
        has_class_name: name == "java",
        limits: LanguageLimits::default(),
        example: LanguageExample::default(),
    }
}

fn cpp() -> Language {
    language("cpp", "main.cpp", Some("g++ -o main {sources}"), "./main")
}

fn python() -> Language {
    language("python", "main.py", None, "python3 {source}")
}

fn java() -> Language {
    language("java", "Main.java", Some("javac -d . {sources}"), "java {class}")
}

/// A request without commands, with these source files.
fn request(files: &[(&str, &str)]) -> AddTask {
    let user = UserName::new("ada").unwrap();
    let mut spec = TaskSpec::new(user, StepCommand::of_language());
    let file = |(path, text): &(&str, &str)| {
        let content = Content::Inline(Bytes::copy_from_slice(text.as_bytes()));
        let executable = false;
        (
            WorkspacePath::new(*path).unwrap(),
            TaskFile { content, executable },
        )
    };
    spec.source = files.iter().map(file).collect();
    AddTask::new(TaskId(uuid::Uuid::nil()), spec)
}

fn source_code(text: &str) -> AddTask {
    AddTask {
        names_source_code: true,
        ..request(&[(AddTask::SOURCE_CODE, text)])
    }
}

fn commands(spec: &TaskSpec) -> (Option<String>, String) {
    let compile = spec.compile.as_ref().map(|step| step.command.display());
    (compile, spec.execute.command.display())
}

fn check(language: &Language, mut add: AddTask, files: &[&str], compile: Option<&str>, execute: &str) {
    language.fill_in(&mut add, &SourceClasses::default()).unwrap();
    let found: Vec<_> = add.spec.source.keys().map(WorkspacePath::as_str).collect();
    assert_eq!(found, files);
    let expected = (compile.map(String::from), execute.to_string());
    assert_eq!(commands(&add.spec), expected);
    assert_eq!(add.spec.language, Some(language.name.clone()));
}

#[test]
fn files_are_named_and_commands_filled_in() {
    check(
        &python(),
        source_code("print()"),
        &["main.py"],
        None,
        "python3 main.py",
    );
    check(
        &cpp(),
        source_code("int main() {}"),
        &["main.cpp"],
        Some("g++ -o main main.cpp"),
        "./main",
    );
    let files = &[("a.cpp", ""), ("b.h", ""), ("main.cpp", "")];
    let compile = Some("g++ -o main main.cpp a.cpp");
    check(
        &cpp(),
        request(files),
        &["a.cpp", "b.h", "main.cpp"],
        compile,
        "./main",
    );
    check(
        &python(),
        request(&[("it's.py", "")]),
        &["it's.py"],
        None,
        "python3 'it'\\''s.py'",
    );
    check(
        &python(),
        request(&[("-c.py", "")]),
        &["-c.py"],
        None,
        "python3 ./-c.py",
    );
    check(
        &python(),
        request(&[("script", "")]),
        &["script"],
        None,
        "python3 script",
    );
    let class = "public class Go { public static void main(String[] a) {} }";
    check(
        &java(),
        source_code(class),
        &["Go.java"],
        Some("javac -d . Go.java"),
        "java Go",
    );
    let packaged = &[
        ("lab/A.java", "package lab; class A {}"),
        (
            "lab/B.java",
            "package lab; class B { static void main(String[] a) {} }",
        ),
    ];
    let compile = Some("javac -d . lab/B.java lab/A.java");
    check(
        &java(),
        request(packaged),
        &["lab/A.java", "lab/B.java"],
        compile,
        "java lab.B",
    );
    check(
        &java(),
        source_code("no class"),
        &["Main.java"],
        Some("javac -d . Main.java"),
        "java Main",
    );
}

#[test]
fn the_file_with_the_usual_main_is_the_main_one() {
    let overloads = &[
        ("A.java", "class A { void main(int level) {} }"),
        ("B.java", "class B { public static void main(String[] a) {} }"),
    ];
    check(
        &java(),
        request(overloads),
        &["A.java", "B.java"],
        Some("javac -d . B.java A.java"),
        "java B",
    );
}

#[test]
fn the_lone_source_file_is_the_program_whatever_source_has_beside_it() {
    let class = "public class Go { public static void main(String[] a) {} }";
    let mut beside = source_code(class);
    let main = request(&[(
        "Main.java",
        "class Main { public static void main(String[] a) {} }",
    )]);
    beside.spec.source.extend(main.spec.source);
    check(
        &java(),
        beside,
        &["Go.java", "Main.java"],
        Some("javac -d . Go.java Main.java"),
        "java Go",
    );
}

#[test]
fn what_the_task_says_wins() {
    let mut own = cpp();
    own.env = [
        ("A".to_string(), "row".to_string()),
        ("B".to_string(), "row".to_string()),
    ]
    .into();
    own.root = Some(RootName::new("row").unwrap());
    let mut add = source_code("");
    let limits = Limits {
        memory: Some(7),
        ..Limits::default()
    };
    add.spec.compile = Some(CompileStep {
        limits,
        ..empty_compile_step()
    });
    add.spec.execute.command = StepCommand::Argv(vec!["./other".into()]);
    add.spec.execute.env = [("A".to_string(), "task".to_string())].into();
    own.fill_in(&mut add, &SourceClasses::default()).unwrap();
    let expected = (Some("g++ -o main main.cpp".to_string()), "./other".to_string());
    assert_eq!(commands(&add.spec), expected);
    assert_eq!(add.spec.compile.as_ref().unwrap().limits, limits);
    assert_eq!(add.spec.execute.env["A"], "task");
    assert_eq!(add.spec.execute.env["B"], "row");
    assert_eq!(add.spec.root, own.root);
    // A stored task has everything filled in, so a retry does not depend on the table of today.
    let stored = add.clone();
    let changed = language("cpp", "other.cpp", Some("false"), "false");
    changed.fill_in(&mut add, &SourceClasses::default()).unwrap();
    assert_eq!(add, stored);
}

#[test]
fn errors_name_the_field_and_what_to_change() {
    fn check(language: &Language, mut add: AddTask, field: &str, part: &str) {
        let invalid = language.fill_in(&mut add, &SourceClasses::default()).unwrap_err();
        assert_eq!(invalid.field, field);
        assert!(invalid.problem.contains(part), "{invalid}");
    }
    check(
        &python(),
        request(&[]),
        "source",
        "give the program as source_code, or as main.py",
    );
    check(
        &python(),
        request(&[("a.py", ""), ("b.py", "")]),
        "source",
        "name the main one main.py",
    );
    let mut twice = source_code("");
    twice.spec.source.extend(request(&[("main.py", "")]).spec.source);
    check(
        &python(),
        twice,
        "source_code",
        "is stored as main.py, which source has as well",
    );
    let mut compiled = source_code("");
    compiled.spec.compile = Some(empty_compile_step());
    check(
        &python(),
        compiled,
        "compile.command",
        "python has no compile step",
    );
}

#[test]
fn other_braces_stay() {
    let mut awk = python();
    awk.execute = "awk '{print $1}' {source} {unknown}".to_string();
    let mut add = source_code("");
    awk.fill_in(&mut add, &SourceClasses::default()).unwrap();
    assert_eq!(
        add.spec.execute.command.display(),
        "awk '{print $1}' main.py {unknown}"
    );
}

#[test]
fn only_blobs_that_decide_something_are_read() {
    fn check(language: &Language, mut add: AddTask, expected: &[u8]) {
        let files = add.spec.source.values_mut();
        for (number, file) in (1..).zip(files) {
            file.content = Content::Blob(BlobHash([number; 32]));
        }
        let expected: Vec<_> = expected.iter().map(|number| BlobHash([*number; 32])).collect();
        assert_eq!(language.blobs_to_read(&add), expected);
    }
    check(&java(), source_code(""), &[1]);
    check(&python(), source_code(""), &[]);
    let several = || request(&[("A.java", ""), ("B.java", ""), ("readme", "")]);
    check(&java(), several(), &[1, 2]);
    let mut commands = several();
    commands.spec.execute.command = StepCommand::Shell("true".into());
    check(&java(), commands.clone(), &[1, 2]);
    commands.spec.compile = Some(CompileStep {
        command: StepCommand::Shell("true".into()),
        ..empty_compile_step()
    });
    check(&java(), commands.clone(), &[]);
    commands.names_source_code = true;
    commands.spec.source = source_code("").spec.source;
    check(&java(), commands, &[1]);
    check(&java(), request(&[("A.java", ""), ("Main.java", "")]), &[2]);
}

#[test]
fn the_class_of_a_blob_is_used_if_it_was_read() {
    let blob = BlobHash([7; 32]);
    let resolved = |classes: &SourceClasses| {
        let mut add = source_code("");
        for file in add.spec.source.values_mut() {
            file.content = Content::Blob(blob);
        }
        java().fill_in(&mut add, classes).unwrap();
        add.spec.execute.command.display()
    };
    let mut classes = SourceClasses::default();
    assert_eq!(resolved(&classes), "java Main");
    classes.record(blob, b"no class");
    assert_eq!(resolved(&classes), "java Main");
    classes.record(blob, b"package lab; public class Solution {}");
    assert_eq!(resolved(&classes), "java lab.Solution");
}
