//! What DOMjudge adds to packages.

use std::time::Duration;

use crate::fixtures::{DATA, PackageFixture};

#[test]
fn the_time_limit_may_stand_in_three_files() {
    let of = |package: PackageFixture| package.read_clean().limits.time.map(|time| time.as_millis());
    assert_eq!(of(PackageFixture::new("").write(".timelimit", "2\n")), Some(2000));
    assert_eq!(
        of(PackageFixture::new("").write("domjudge-problem.ini", "timelimit='1.5'\n")),
        Some(1500)
    );
    assert_eq!(of(PackageFixture::new("limits:\n  time_limit: 3\n")), Some(3000));
    let package = PackageFixture::new("")
        .write("domjudge-problem.ini", "timelimit = 4\n")
        .write(".timelimit", "5");
    assert_eq!(package.read().unwrap().limits.time, Some(Duration::from_secs(4)));
    assert_eq!(
        package.warnings(),
        [".timelimit: another time limit than in domjudge-problem.ini, which is used"]
    );
}

#[test]
fn the_ini_file_alone_makes_a_package() {
    let package = PackageFixture::empty()
        .write(
            "domjudge-problem.ini",
            "short-name = A\nname = \"Hello\"\ntimelimit = 1\ncolor = red\n",
        )
        .write_all(&DATA)
        .write("submissions/accepted/a.py", "");
    assert_eq!(package.read_clean().title, "Hello");
    let package = package.write(
        "domjudge-problem.ini",
        "special_compare = x\nallow_everything = 1\n",
    );
    let warnings = package.warnings();
    assert!(
        warnings[0].starts_with("domjudge-problem.ini: special_compare names a program"),
        "{warnings:?}"
    );
    assert_eq!(
        warnings[1],
        "domjudge-problem.ini: allow_everything: unknown key, ignored"
    );
}

#[test]
fn the_source_says_what_is_expected_before_its_folder_does() {
    let package = PackageFixture::new("")
        .write(
            "submissions/accepted/b.py",
            "# @EXPECTED_RESULTS@: WRONG-ANSWER, RUN-ERROR\n",
        )
        .write("submissions/mixed/c.cpp", "/* @EXPECTED_RESULTS@: TIMELIMIT */\n")
        .write("submissions/mixed/d/Main.java", "")
        .write(
            "submissions/mixed/d/Other.java",
            "// @EXPECTED_RESULTS@: CHECK-MANUALLY\n",
        );
    let package = package.read_clean();
    let rows = package.submissions.iter();
    let rows: Vec<_> = rows
        .map(|row| (row.name.as_str(), row.expected.to_string()))
        .collect();
    let expected = [
        ("accepted/a.py", "accepted"),
        ("accepted/b.py", "wrong_answer or runtime_error"),
        ("mixed/c.cpp", "time_limit"),
        ("mixed/d", "any"),
    ];
    assert_eq!(rows, expected.map(|(name, text)| (name, text.to_string())));
}

#[test]
fn a_submission_of_which_nothing_is_said_may_get_every_verdict() {
    let package = PackageFixture::new("").write("submissions/mixed/x.py", "");
    assert_eq!(
        package.warnings(),
        [
            "mixed/x.py: mixed/ says no verdict, and the source has no @EXPECTED_RESULTS@; every verdict is as expected"
        ]
    );
}
