//! Packages with mistakes: every message names the file.

use std::os::unix::fs::symlink;

use crate::fixtures::{DATA, PackageFixture};

fn check(package: PackageFixture, expected: &str) {
    assert_eq!(package.error(), expected);
}

#[test]
fn a_folder_that_is_no_package_is_refused() {
    check(
        PackageFixture::empty(),
        ".: is no problem package: neither problem.yaml nor domjudge-problem.ini is here",
    );
    let polygon = PackageFixture::empty()
        .write("problem.xml", "")
        .write("tests/01", "");
    assert!(
        polygon.error().contains("is a Polygon package"),
        "{}",
        polygon.error()
    );
    let missing = problems::read_package(std::path::Path::new("/nowhere/at/all")).unwrap_err();
    assert!(
        missing.to_string().starts_with("/nowhere/at/all: cannot be read"),
        "{missing}"
    );
}

#[test]
fn a_package_without_data_is_refused() {
    let package = || PackageFixture::empty().write("problem.yaml", "");
    check(package(), "data: no cases: there is no *.in file with its *.ans");
    check(
        package().write("data/secret/README", ""),
        "data: no cases: there is no *.in file with its *.ans",
    );
    let only_sample = package()
        .write_all(&DATA[..2])
        .write("submissions/accepted/a.py", "");
    assert_eq!(only_sample.warnings(), ["data: no cases in data/secret"]);
}

#[test]
fn incomplete_cases_are_refused() {
    let package = || PackageFixture::new("");
    check(
        package().write("data/secret/2.in", ""),
        "data/secret/2.in: has no 2.ans beside it",
    );
    check(
        package().write("data/secret/2.ans", ""),
        "data/secret/2.ans: has no 2.in beside it",
    );
    check(
        package().cases(&[&format!("secret/{}", "x".repeat(130))]),
        &format!(
            "data/secret/{}.in: the name of the case must be at most 128 characters long, this one has 137",
            "x".repeat(130)
        ),
    );
    let stray = package().write("data/1.in", "").write("data/other/1.in", "");
    assert_eq!(
        stray.warnings(),
        [
            "data/1.in: is in neither data/sample nor data/secret, ignored",
            "data/other: is neither data/sample nor data/secret, ignored",
        ]
    );
}

#[test]
fn wrong_settings_are_refused_with_their_line() {
    for (settings, expected) in [
        ("name: [", "problem.yaml:2: broken YAML: "),
        (
            "problem_format_version: 2030\n",
            "problem.yaml:1: problem_format_version '2030' is not supported",
        ),
        (
            "\nlimits:\n  time_limit: 0\n",
            "problem.yaml:3: limits.time_limit must be a number of seconds above 0, not '0'",
        ),
        (
            "limits:\n  memory: much\n",
            "problem.yaml:2: limits.memory must be a number, not 'much'",
        ),
        (
            "limits: 5\n",
            "problem.yaml:1: limits must be a mapping (key: value)",
        ),
        (
            "validation: magic\n",
            "problem.yaml:1: validation begins with 'magic'; default and custom are known",
        ),
        (
            "validation: custom multi-pass\n",
            "problem.yaml:1: validation 'multi-pass' is not supported",
        ),
        ("type: nonsense\n", "problem.yaml:1: type 'nonsense' is unknown"),
        (
            "type: [scoring, pass-fail]\n",
            "problem.yaml:1: type must not be both pass-fail and scoring",
        ),
        (
            "problem_format_version: 2025-09\ntype: multi-pass\n",
            "problem.yaml:2: type 'multi-pass' is not supported",
        ),
        (
            "type: scoring\ngrading:\n  objective: min\n",
            "problem.yaml:3: grading.objective 'min' is not supported: more points are better",
        ),
    ] {
        let found = PackageFixture::new(settings).error();
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn wrong_time_limits_are_refused() {
    for (file, text, expected) in [
        (
            ".timelimit",
            "soon\n",
            ".timelimit: the time limit must be a number of seconds above 0, not 'soon'",
        ),
        (
            "domjudge-problem.ini",
            "timelimit = 0\n",
            "domjudge-problem.ini: timelimit must be a number of seconds above 0, not '0'",
        ),
    ] {
        check(PackageFixture::new("").write(file, text), expected);
    }
}

#[test]
fn wrong_settings_of_groups_are_refused() {
    for (settings, expected) in [
        (
            "on_reject: maybe\n",
            "data/testdata.yaml:1: on_reject must be break or continue, not 'maybe'",
        ),
        (
            "grading: custom\n",
            "data/testdata.yaml:1: grading 'custom' is not supported; only default is",
        ),
        (
            "grader_flags: median\n",
            "data/testdata.yaml:1: grader_flags has 'median', which the default grader does not know",
        ),
        (
            "range: 5\n",
            "data/testdata.yaml:1: range must be two numbers like '0 100', not '5'",
        ),
        (
            "reject_score: 1\n",
            "data/testdata.yaml: a reject_score of 1: a case that is not accepted has no points: not supported",
        ),
        (
            "accept_score: -3\n",
            "data/testdata.yaml: a case has -3 points; 0 to 1000000 are possible",
        ),
    ] {
        check(
            PackageFixture::new("type: scoring\n").write("data/testdata.yaml", settings),
            expected,
        );
    }
    let other_format = PackageFixture::new("").write("data/secret/test_group.yaml", "max_score: 5\n");
    assert_eq!(
        other_format.warnings(),
        ["data/secret/test_group.yaml: belongs to another format than legacy, ignored"]
    );
}

#[test]
fn wrong_metadata_of_submissions_is_refused() {
    for (text, expected) in [
        (
            "a: 5\n",
            "submissions/submissions.yaml:1: a must be a mapping (key: value)",
        ),
        (
            "accepted:\n  permitted: [AC, OK]\n",
            "submissions/submissions.yaml:2: accepted.permitted has 'OK'; AC, WA, TLE and RTE are known",
        ),
        (
            "accepted:\n  score: [3, 1]\n",
            "submissions/submissions.yaml:2: accepted.score must be a number, or two numbers like [0, 50]",
        ),
        (
            "accepted:\n  use_for_time_limit: often\n",
            "submissions/submissions.yaml:2: accepted.use_for_time_limit must be true, false, lower or upper",
        ),
    ] {
        check(
            PackageFixture::new("").write("submissions/submissions.yaml", text),
            expected,
        );
    }
}

#[test]
fn nothing_outside_of_the_package_is_read() {
    let package = PackageFixture::new("");
    let secret = tempfile::NamedTempFile::new().unwrap();
    symlink(secret.path(), package.path().join("data/secret/02.in")).unwrap();
    let target = secret.path().canonicalize().unwrap();
    let expected = format!(
        "data/secret/02.in: is a link to {}, which is outside the package",
        target.display()
    );
    check(package, &expected);
    let package = PackageFixture::new("");
    symlink("01.in", package.path().join("data/secret/02.in")).unwrap();
    symlink("01.ans", package.path().join("data/secret/02.ans")).unwrap();
    assert_eq!(package.read_clean().cases.len(), 3);
    symlink("..", package.path().join("data/secret/loop")).unwrap();
    assert!(
        package.error().contains("more than 16 folders deep"),
        "{}",
        package.error()
    );
}
