//! The legacy format, which nearly all public packages have.

use std::time::Duration;

use model::{GroupScoring, StopRule, TokenCheck, Tolerance};
use problems::{PackageCheck, PackageFormat, TimeLimitRule};

use crate::fixtures::{PackageFixture, scores};

#[test]
fn a_package_without_settings_has_the_defaults() {
    let package = PackageFixture::new("").read_clean();
    assert_eq!(
        (package.name.as_str(), package.title.as_str()),
        ("hello", "hello")
    );
    assert_eq!(package.format, PackageFormat::Legacy);
    assert_eq!(package.check, PackageCheck::Tokens(TokenCheck::default()));
    assert_eq!(package.stop, StopRule::FirstFailure);
    assert_eq!(
        (package.limits.time, package.limits.time_rule),
        (None, TimeLimitRule::LEGACY)
    );
    assert_eq!(
        scores(&package),
        [("sample/1", 1.0, None), ("secret/01", 1.0, None)]
    );
    let samples: Vec<_> = package.cases.iter().map(|case| case.is_sample).collect();
    assert_eq!(samples, [true, false]);
    assert!(
        package.cases[0]
            .answer
            .as_ref()
            .unwrap()
            .ends_with("data/sample/1.ans")
    );
}

#[test]
fn settings_are_read() {
    let package = PackageFixture::new(
        "name: Hello\nlimits:\n  memory: 64\n  output: 2\n  compilation_time: 30\n  time_multiplier: 2\n\
         validator_flags: float_tolerance 1e-4 case_sensitive\n",
    )
    .read_clean();
    assert_eq!(package.title, "Hello");
    let limits = &package.limits;
    assert_eq!((limits.memory, limits.output), (Some(64 << 20), Some(2 << 20)));
    assert_eq!(limits.compilation_time, Some(Duration::from_secs(30)));
    let rule = TimeLimitRule::Legacy {
        multiplier: 2.0,
        safety_margin: 2.0,
    };
    assert_eq!(limits.time_rule, rule);
    let tolerance = Tolerance::new(1e-4);
    let tokens = TokenCheck {
        case_sensitive: true,
        absolute_tolerance: tolerance,
        relative_tolerance: tolerance,
        ..TokenCheck::default()
    };
    assert_eq!(package.check, PackageCheck::Tokens(tokens));
}

#[test]
fn cases_are_in_the_order_of_their_names_within_groups() {
    let package = PackageFixture::new("")
        .cases(&["secret/2-b/1", "secret/2-b/0", "secret/10-a/1", "sample/0"])
        .read_clean();
    let names: Vec<_> = package.cases.iter().map(|case| case.name.to_string()).collect();
    let expected = [
        "sample/0",
        "sample/1",
        "secret/01",
        "secret/10-a/1",
        "secret/2-b/0",
        "secret/2-b/1",
    ];
    assert_eq!(names, expected);
}

#[test]
fn groups_with_a_minimum_are_worth_their_accept_score() {
    let package = PackageFixture::new("type: scoring\n")
        .write(
            "data/testdata.yaml",
            "on_reject: continue\ngrader_flags: ignore_sample\nrange: 0 100\n",
        )
        .write(
            "data/secret/testdata.yaml",
            "grader_flags: first_error accept_if_any_accepted\n",
        )
        .write(
            "data/secret/1/testdata.yaml",
            "on_reject: break\naccept_score: 30\nrange: 0 30\ngrader_flags: min\n",
        )
        .write(
            "data/secret/2/testdata.yaml",
            "on_reject: break\naccept_score: 70\nrange: 0 70\ngrader_flags: min\n",
        )
        .cases(&["secret/1/a", "secret/1/b", "secret/2/a"]);
    std::fs::remove_file(package.path().join("data/secret/01.in")).unwrap();
    std::fs::remove_file(package.path().join("data/secret/01.ans")).unwrap();
    let package = package.read_clean();
    assert_eq!(
        scores(&package),
        [
            ("sample/1", 0.0, Some("sample")),
            ("secret/1/a", 30.0, Some("secret/1")),
            ("secret/1/b", 30.0, Some("secret/1")),
            ("secret/2/a", 70.0, Some("secret/2")),
        ]
    );
    let scoring: Vec<_> = package.groups.values().copied().collect();
    assert_eq!(scoring, [GroupScoring::Sum, GroupScoring::Min, GroupScoring::Min]);
    assert_eq!(package.stop, StopRule::Never);
}

#[test]
fn sums_averages_and_nested_minima_are_flat_groups() {
    let flags = |secret: &str, inner: &str| {
        PackageFixture::new("type: scoring\ngrading:\n  on_reject: worst_error\n  accept_score: 6\n")
            .write("data/testdata.yaml", "grader_flags: ignore_sample\n")
            .write("data/secret/testdata.yaml", &format!("grader_flags: {secret}\n"))
            .write(
                "data/secret/in/testdata.yaml",
                &format!("grader_flags: {inner}\n"),
            )
            .cases(&["secret/in/a", "secret/in/b"])
            .read()
    };
    let package = flags("sum", "avg").unwrap();
    let points: Vec<_> = package.cases.iter().map(|case| case.points.as_f64()).collect();
    assert_eq!(points, [0.0, 6.0, 3.0, 3.0]);
    let package = flags("min", "min").unwrap();
    let groups: Vec<_> = package
        .cases
        .iter()
        .map(|case| case.group.clone().unwrap().to_string())
        .collect();
    assert_eq!(groups, ["sample", "secret", "secret", "secret"]);
    for (secret, inner) in [("max", "sum"), ("avg", "sum"), ("min", "sum")] {
        let error = flags(secret, inner).unwrap_err().to_string();
        assert!(
            error.contains("testdata.yaml") && error.contains("not supported"),
            "{error}"
        );
    }
}

#[test]
fn scores_of_a_validator_are_bounded_by_the_range() {
    let settings = "type: scoring\nvalidation: custom score\n";
    let package = |range: &str| {
        PackageFixture::new(settings)
            .write("output_validators/v.py", "")
            .write(
                "data/testdata.yaml",
                &format!("grader_flags: ignore_sample\n{range}"),
            )
    };
    let bounded = package("range: 0 50\n").read_clean();
    assert_eq!(bounded.cases[1].points.as_f64(), 50.0);
    let unbounded = package("");
    assert_eq!(
        unbounded.warnings(),
        ["data/testdata.yaml: no range bounds the scores of the validator, they are cut at 1000000"]
    );
}

#[test]
fn every_case_runs_if_a_group_continues_after_a_failure() {
    for (settings, expected) in [
        ("on_reject: break", StopRule::FirstFailure),
        ("on_reject: continue", StopRule::Never),
    ] {
        let package = PackageFixture::new("")
            .write("data/secret/testdata.yaml", settings)
            .read_clean();
        assert_eq!(package.stop, expected, "{settings}");
    }
}

#[test]
fn flags_of_groups_must_be_the_same_everywhere() {
    let package =
        PackageFixture::new("").write("data/testdata.yaml", "output_validator_flags: case_sensitive\n");
    let tokens = TokenCheck {
        case_sensitive: true,
        ..TokenCheck::default()
    };
    assert_eq!(package.read_clean().check, PackageCheck::Tokens(tokens));
    let package = package.write(
        "data/secret/testdata.yaml",
        "output_validator_flags: space_change_sensitive\n",
    );
    assert_eq!(
        package.error(),
        "data/secret/01.in: the output validator has other arguments than for sample/1: not supported"
    );
}
