//! Submissions: their files, languages, and what `submissions.yaml` says about them.

use std::time::Duration;

use model::{Points, StepCommand, Verdict};
use problems::{ExpectedVerdicts, JudgedCase, JudgedSubmission, ProblemPackage, TimeBound};

use crate::fixtures::PackageFixture;

const V2025: &str = "problem_format_version: 2025-09\nname: Hello\n";

fn expected<'a>(package: &'a ProblemPackage, name: &str) -> &'a ExpectedVerdicts {
    let mut rows = package.submissions.iter();
    &rows.find(|row| row.name == name).unwrap().expected
}

/// What is not as expected if the two cases, `sample/1` and `secret/01`, have these verdicts.
fn mismatches(expected: &ExpectedVerdicts, verdicts: [Verdict; 2]) -> Vec<String> {
    let case = |name, verdict| JudgedCase {
        name,
        verdict,
        time: Duration::from_millis(100),
        judge_message: "off by one",
    };
    let cases = [case("sample/1", verdicts[0]), case("secret/01", verdicts[1])];
    let first = verdicts.into_iter().find(|verdict| *verdict != Verdict::Accepted);
    expected.mismatches(&JudgedSubmission {
        verdict: first.unwrap_or(Verdict::Accepted),
        score: Points::ONE,
        max_score: Points::ONE,
        cases: &cases,
    })
}

#[test]
fn a_file_or_a_folder_is_a_submission() {
    let package = PackageFixture::new("")
        .write("submissions/accepted/b/main.cpp", "")
        .write("submissions/accepted/b/lib/x.h", "")
        .write("submissions/accepted/c/__main__.py", "")
        .write("submissions/accepted/c/x.py", "")
        .write("submissions/accepted/.git/x.py", "")
        .read_clean();
    let names: Vec<_> = package.submissions.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["accepted/a.py", "accepted/b", "accepted/c"]);
    let languages: Vec<_> = package
        .submissions
        .iter()
        .map(|row| row.language.as_str())
        .collect();
    assert_eq!(languages, ["python", "cpp", "python"]);
    let paths: Vec<_> = package.submissions[1]
        .files
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(paths, ["lib/x.h", "main.cpp"]);
    let run = StepCommand::Argv(vec!["python3".into(), "__main__.py".into()]);
    assert_eq!(package.submissions[2].run, Some(run));
}

#[test]
fn included_files_replace_those_of_the_submission() {
    let fixture = PackageFixture::new("")
        .write("include/cpp/grader.cpp", "the package's")
        .write("include/default/data.txt", "x")
        .write("submissions/accepted/b/solve.cpp", "")
        .write("submissions/accepted/b/grader.cpp", "the submission's");
    let package = fixture.read_clean();
    let source = |index: usize| {
        let files = package.source_of(&package.submissions[index]);
        let row = |file: &problems::PackageFile| {
            let text = String::from_utf8(file.content.read().unwrap()).unwrap();
            (file.path.to_string(), text)
        };
        files.iter().map(row).collect::<Vec<_>>()
    };
    let text = |path: &str, text: &str| (path.to_string(), text.to_string());
    // No file of several is the main one, so that an empty one is.
    let cpp = [
        text("solve.cpp", ""),
        text("grader.cpp", "the package's"),
        text("main.cpp", ""),
    ];
    assert_eq!(source(1), cpp);
    assert_eq!(source(0)[1], text("data.txt", "x"));
    assert!(package.has_includes());
}

#[test]
fn constants_are_replaced_in_programs() {
    let package = PackageFixture::new(&format!("{V2025}constants:\n  n: 10\n"))
        .write("submissions/accepted/b.py", "print({{n}}, {{m}})\n")
        .write("data/secret/test_group.yaml", "args: ['{{n}}']\n")
        .read_clean();
    let text = package.submissions[1].files[0].content.read().unwrap();
    assert_eq!(text, b"print(10, {{m}})\n");
    assert_eq!(package.cases[1].args, ["10"]);
}

#[test]
fn patterns_add_rules_to_those_of_the_folder() {
    use Verdict::{Accepted, RuntimeError, TimeLimit, WrongAnswer};
    let package = PackageFixture::new(V2025)
        .write("submissions/wrong_answer/b.py", "")
        .write("submissions/mixed/c.py", "")
        .write(
            "submissions/submissions.yaml",
            "wrong_answer/*.py:\n  sample: {permitted: [AC]}\n  message: off by\n\
             mixed/{c,d}.py:\n  authors: Ada\n  language: python3\n  entrypoint: c.py\n  permitted: [AC, TLE, RTE]\n  required: [TLE]\n",
        )
        .read_clean();
    let wrong = expected(&package, "wrong_answer/b.py");
    assert_eq!(mismatches(wrong, [Accepted, WrongAnswer]), [""; 0]);
    let found = mismatches(wrong, [WrongAnswer, Accepted]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].ends_with("case sample/1 is wrong_answer, permitted is accepted"),
        "{found:?}"
    );
    let slow = expected(&package, "mixed/c.py");
    assert_eq!(mismatches(slow, [RuntimeError, TimeLimit]), [""; 0]);
    assert!(mismatches(slow, [Accepted, RuntimeError])[0].ends_with("no case is time_limit"));
    assert_eq!(slow.rules[0].bound, TimeBound::TooSlow);
    let run = StepCommand::Argv(vec!["python3".into(), "c.py".into()]);
    assert_eq!(package.submissions[1].run, Some(run));
}

#[test]
fn the_name_of_a_folder_replaces_its_rule() {
    use Verdict::{Accepted, TimeLimit, WrongAnswer};
    let package = PackageFixture::new(V2025)
        .write("submissions/time_limit_exceeded/b.py", "")
        .write(
            "submissions/submissions.yaml",
            "time_limit_exceeded:\n  permitted: [AC, WA, TLE]\naccepted:\n  use_for_time_limit: false\n",
        )
        .read_clean();
    let slow = expected(&package, "time_limit_exceeded/b.py");
    assert_eq!(mismatches(slow, [WrongAnswer, TimeLimit]), [""; 0]);
    assert_eq!(mismatches(slow, [Accepted, WrongAnswer]).len(), 1);
    assert_eq!(slow.rules[0].bound, TimeBound::TooSlow);
    assert_eq!(
        expected(&package, "accepted/a.py").rules[0].bound,
        TimeBound::None
    );
}

#[test]
fn a_score_may_be_expected() {
    let package = PackageFixture::new(&format!("{V2025}type: scoring\n")).write(
        "submissions/submissions.yaml",
        "accepted/a.py:\n  score: [5, 10]\nnobody/*:\n  score: 3\n",
    );
    assert_eq!(
        package.warnings(),
        ["submissions/submissions.yaml:3: nobody/*: matches no submission"]
    );
    let package = package.read().unwrap();
    let found = mismatches(expected(&package, "accepted/a.py"), [Verdict::Accepted; 2]);
    assert!(
        found[0].ends_with("the score is 1, expected is 5 to 10"),
        "{found:?}"
    );
}

#[test]
fn a_program_in_no_known_language_is_not_run() {
    let package = PackageFixture::new("")
        .write("submissions/accepted/notes.txt", "")
        .write("submissions/accepted/both/x.py", "")
        .write("submissions/accepted/both/y.java", "");
    let warnings = package.warnings();
    assert_eq!(
        warnings,
        [
            "submissions/accepted/both: has files of several languages: java, python; the submission is not run",
            "submissions/accepted/notes.txt: no file has the extension of a known language; the submission is not run",
        ]
    );
    assert_eq!(package.read().unwrap().submissions.len(), 1);
}
