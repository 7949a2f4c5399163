//! The formats 2023-07-draft and 2025-09: `test_group.yaml` and settings of cases.

use model::{GroupScoring, StopRule};
use problems::{PackageFormat, TimeLimitRule};

use crate::fixtures::{DATA, PackageFixture, program, scores};

const V2025: &str = "problem_format_version: 2025-09\nname:\n  en: Hello\n  de: Hallo\n";

/// A scoring package with these files and a sample.
fn scoring(files: &[(&str, &str)], cases: &[&str]) -> PackageFixture {
    PackageFixture::empty()
        .write("problem.yaml", &format!("{V2025}type: scoring\n"))
        .write("submissions/accepted/a.py", "")
        .cases(&["sample/1"])
        .cases(cases)
        .write_all(files)
}

#[test]
fn both_formats_are_read() {
    let package = PackageFixture::new(V2025).read_clean();
    assert_eq!(
        (package.format, package.title.as_str()),
        (PackageFormat::V2025, "Hello")
    );
    assert_eq!(package.limits.time_rule, TimeLimitRule::MULTIPLE);
    assert_eq!(package.stop, StopRule::FirstFailure);
    assert_eq!(
        scores(&package),
        [("sample/1", 1.0, None), ("secret/01", 1.0, None)]
    );
    let draft = PackageFixture::new("problem_format_version: 2023-07-draft\nname: x\n")
        .write("data/testdata.yaml", "output_validator_flags: case_sensitive\n")
        .read_clean();
    assert_eq!(draft.format, PackageFormat::Draft2023);
}

#[test]
fn arguments_and_files_of_cases_are_read() {
    let package = PackageFixture::new(V2025)
        .write("data/secret/test_group.yaml", "args: [--fast, 'a b']\n")
        .write("data/secret/02.in", "")
        .write("data/secret/02.ans", "")
        .write("data/secret/02.yaml", "args: []\nhint: small\n")
        .write("data/secret/02.files/map.txt", "x")
        .write("data/secret/01.png", "no part of a case")
        .read_clean();
    let args: Vec<_> = package.cases.iter().map(|case| case.args.join(",")).collect();
    assert_eq!(args, ["", "--fast,a b", ""]);
    let files: Vec<_> = package.cases[2]
        .files
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(files, ["map.txt"]);
    assert!(package.cases[1].files.is_empty());
}

#[test]
fn groups_are_scored_as_they_say() {
    let package = scoring(
        &[
            ("data/secret/1/test_group.yaml", "max_score: 20\n"),
            (
                "data/secret/2/test_group.yaml",
                "max_score: 30\nscore_aggregation: min\n",
            ),
            (
                "data/secret/3/test_group.yaml",
                "max_score: 50\nscore_aggregation: sum\n",
            ),
        ],
        &[
            "secret/1/a",
            "secret/1/b",
            "secret/2/a",
            "secret/2/b",
            "secret/3/a",
            "secret/3/x/b",
        ],
    )
    .read_clean();
    assert_eq!(
        scores(&package),
        [
            ("sample/1", 0.0, Some("sample")),
            ("secret/1/a", 10.0, Some("secret/1")),
            ("secret/1/b", 10.0, Some("secret/1")),
            ("secret/2/a", 30.0, Some("secret/2")),
            ("secret/2/b", 30.0, Some("secret/2")),
            ("secret/3/a", 25.0, Some("secret/3")),
            ("secret/3/x/b", 25.0, Some("secret/3")),
        ]
    );
    let scoring: Vec<_> = package.groups.values().copied().collect();
    use GroupScoring::{Min, PassAll, Sum};
    assert_eq!(scoring, [Sum, PassAll, Min, Sum]);
    assert_eq!(package.stop, StopRule::Never);
}

#[test]
fn secret_without_groups_has_a_hundred_points() {
    let package = scoring(&[], &["secret/1", "secret/2", "secret/3", "secret/4"]).read_clean();
    let points: Vec<_> = package.cases.iter().map(|case| case.points.as_f64()).collect();
    assert_eq!(points, [0.0, 25.0, 25.0, 25.0, 25.0]);
    let pass_all = [(
        "data/secret/test_group.yaml",
        "score_aggregation: pass-fail\nmax_score: 10\n",
    )];
    let package = scoring(&pass_all, &["secret/1/a", "secret/2/a"]).read_clean();
    let secret = package.groups.iter().find(|(name, _)| name.as_str() == "secret");
    assert_eq!(secret.unwrap().1, &GroupScoring::PassAll);
    assert_eq!(package.cases[1].points.as_f64(), 5.0);
}

#[test]
fn what_is_not_done_is_a_warning() {
    let package = scoring(
        &[
            ("data/secret/1/test_group.yaml", "max_score: 90\n"),
            (
                "data/secret/2/test_group.yaml",
                "max_score: 20\nrequire_pass: [sample, secret/1]\n",
            ),
        ],
        &["secret/1/a", "secret/2/a"],
    );
    assert_eq!(
        package.warnings(),
        [
            "data/secret/2/test_group.yaml:2: require_pass: is not done, the group is scored by its own cases alone",
            "data/secret: the groups have more points together than max_score, 100",
        ]
    );
    let unbounded = scoring(
        &[("data/secret/test_group.yaml", "max_score: unbounded\n")],
        &["secret/1"],
    );
    let warning = "no max_score bounds the scores of the validator, they are cut at 1000000";
    assert_eq!(
        unbounded.warnings(),
        [format!("data/secret/test_group.yaml: {warning}")]
    );
}

#[test]
fn what_cannot_be_scored_is_an_error() {
    for (path, settings, cases, expected) in [
        (
            "data/secret/test_group.yaml",
            "score_aggregation: min\n",
            &["secret/1/a", "secret/2/a"][..],
            "data/secret/test_group.yaml: score_aggregation: min of groups; only of cases it is possible: not supported",
        ),
        (
            "data/secret/1/test_group.yaml",
            "score_aggregation: pass-fail\n",
            &["secret/1/a"],
            "data/secret/1/test_group.yaml: max_score is missing: a group that is pass-fail needs it",
        ),
        (
            "data/secret/1/test_group.yaml",
            "score_aggregation: most\n",
            &["secret/1/a"],
            "data/secret/1/test_group.yaml:1: score_aggregation must be pass-fail, sum or min, not 'most'",
        ),
        (
            "data/secret/1/test_group.yaml",
            "max_score: -1\n",
            &["secret/1/a"],
            "data/secret/1/test_group.yaml:1: max_score must be 'unbounded' or a number from 0 to 1000000",
        ),
        (
            "data/secret/test_group.yaml",
            "static_validation_score: 5\n",
            &["secret/1"],
            "data/secret/test_group.yaml:1: static_validation_score is not supported; max_score and score_aggregation are",
        ),
        (
            "data/secret/test_group.yaml",
            "",
            &["secret/0", "secret/1/a"],
            "data/secret: has cases beside groups; put all cases into groups, or none",
        ),
    ] {
        assert_eq!(scoring(&[(path, settings)], cases).error(), expected);
    }
}

#[test]
fn interactive_problems_have_their_validator_beside_the_data() {
    let package = PackageFixture::empty()
        .write(
            "problem.yaml",
            &format!("{V2025}type: [pass-fail, interactive]\n"),
        )
        .write_all(&DATA)
        .write("submissions/accepted/a.py", "")
        .write("output_validator/judge.py", "")
        .write("data/secret/test_group.yaml", "output_validator_args: ['1']\n")
        .write("data/sample/test_group.yaml", "output_validator_args: ['1']\n")
        .read_clean();
    assert!(matches!(package.check, problems::PackageCheck::Interactive(_)));
    assert_eq!(program(&package).args, ["1"]);
}
