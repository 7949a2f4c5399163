use super::*;
use crate::{NewJudgeProblem, NewTask, ParseError, parse_json};

const TASK: &str = r#"{
    "language": "cpp", "source": {"main.cpp": "..."}, "execute": {"limits": {"cpu": "1s", "memory": "256MiB"}},
    "cases": [
        {"name": "1", "input": "1 2\n", "answer": "3\n", "points": 10, "group": "small"},
        {"name": "2", "input": {"base64": "//8="}, "answer": "", "args": ["-v"], "files": {"a": "b"}, "limits": {"cpu": 2}}
    ],
    "check": {"kind": "tokens", "float_tolerance": 1e-6},
    "groups": {"small": {"score": "min"}},
    "stop": "first_failure"
}"#;

#[test]
fn a_judged_task_is_read_and_written() {
    let new: NewTask = parse_json(TASK.as_bytes()).unwrap();
    let Some(CasesOrFiles::Listed(cases)) = &new.cases else {
        panic!("the cases are a list");
    };
    assert_eq!(cases[0].points, Points::from_f64(10.0).unwrap());
    assert_eq!(cases[1].points, Points::ONE);
    assert_eq!(cases[1].answer, Some(Content::empty()));
    assert_eq!(new.stop, Some(model::StopRule::FirstFailure));
    let written = serde_json::to_string(&new).unwrap();
    assert_eq!(parse_json::<NewTask>(written.as_bytes()).unwrap(), new);
}

#[test]
fn cases_are_a_list_or_a_folder() {
    let check = |json: &str, written: &str| {
        let task: NewTask = parse_json(format!(r#"{{"cases": {json}}}"#).as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&task.cases).unwrap(), written, "{json}");
    };
    check("null", "null");
    check("[]", "[]");
    check(r#"[{"name": "a"}]"#, r#"[{"name":"a","points":1}]"#);
    check(
        r#"[{"name": "a", "input": null, "answer": null, "group": null, "args": []}]"#,
        r#"[{"name":"a","points":1}]"#,
    );
    check(r#"{"1.in": "x", "1.ans": "y"}"#, r#"{"1.ans":"y","1.in":"x"}"#);
    check(r#"{"zip": {"base64": "aGk="}}"#, r#"{"zip":{"base64":"aGk="}}"#);
}

#[test]
fn errors_name_the_place() {
    let check = |member: &str, field: &str, problem: &str| {
        let json = format!("{{{member}}}");
        match parse_json::<NewTask>(json.as_bytes()) {
            Err(ParseError::Invalid(invalid)) => {
                assert_eq!(invalid.field, field, "{json}: {invalid}");
                assert!(invalid.problem.contains(problem), "{json}: {invalid}");
            }
            other => panic!("{json}: {other:?}"),
        }
    };
    check(r#""cases": 7"#, "cases", "expected a list of cases");
    check(r#""cases": [7]"#, "cases[0]", "expected a case as a JSON object");
    check(r#""cases": [{}]"#, "cases[0].name", "is missing");
    check(r#""cases": [{"name": ""}]"#, "cases[0].name", "empty");
    check(r#""cases": [{"name": "a\nb"}]"#, "cases[0].name", "control");
    check(
        r#""cases": [{"name": 1}]"#,
        "cases[0].name",
        "expected a name as text",
    );
    check(
        r#""cases": [{"name": "a"}, {"name": "b", "anser": "x"}]"#,
        "cases[1].anser",
        "did you mean 'answer'?",
    );
    check(
        r#""cases": [{"name": "a", "input": {"base64": "?"}}]"#,
        "cases[0].input.base64",
        "base64",
    );
    check(
        r#""cases": [{"name": "a", "points": -1}]"#,
        "cases[0].points",
        "from 0 to",
    );
    check(
        r#""cases": [{"name": "a", "points": 1e9}]"#,
        "cases[0].points",
        "from 0 to 1000000",
    );
    check(
        r#""cases": [{"name": "a", "limits": {"cpu": "soon"}}]"#,
        "cases[0].limits.cpu",
        "is not a duration",
    );
    check(
        r#""cases": [{"name": "a", "args": [1]}]"#,
        "cases[0].args[0]",
        "expected a string",
    );
    check(
        r#""cases": {"../1.in": ""}"#,
        "cases.../1.in",
        "inside the workspace",
    );
    check(r#""check": {}"#, "check.kind", "is missing");
    check(r#""check": "tokens""#, "check", "expected a check like");
    check(
        r#""check": {"kind": "tokenz"}"#,
        "check.kind",
        "'tokenz' is not a known kind of check; did you mean 'tokens'?",
    );
    check(
        r#""check": {"kind": "magic"}"#,
        "check.kind",
        "the known ones are none, exact, lines, tokens, program",
    );
    check(
        r#""check": {"kind": "exact", "float_tolerance": 1}"#,
        "check.float_tolerance",
        "is for a check of kind 'tokens'; leave it out",
    );
    check(
        r#""check": {"kind": "lines", "language": "c"}"#,
        "check.language",
        "is for a check of kind 'program'; leave it out",
    );
    check(
        r#""check": {"kind": "tokens", "float_tolerance": -0.5}"#,
        "check.float_tolerance",
        "must not be negative",
    );
    check(
        r#""check": {"kind": "tokens", "case_sensitive": "no"}"#,
        "check.case_sensitive",
        "expected a boolean",
    );
    check(r#""check": {"kind": "program"}"#, "check.protocol", "is missing");
    check(
        r#""check": {"kind": "program", "protocol": "domjudge"}"#,
        "check.protocol",
        "the known ones are icpc, testlib",
    );
    check(
        r#""check": {"kind": "program", "protocol": "icpc", "source": {"a": {"txt": ""}}}"#,
        "check.source.a.txt",
        "did you mean 'text'?",
    );
    check(r#""interact": {}"#, "interact.protocol", "is missing");
    check(
        r#""interact": {"protocol": "icpc", "kind": "program"}"#,
        "interact.kind",
        "is not a known field",
    );
    check(r#""interact": []"#, "interact", "expected a program");
    check(r#""stop": "first_fail""#, "stop", "did you mean 'first_failure'?");
    check(
        r#""groups": {"small": {"score": "max"}}"#,
        "groups.small.score",
        "the known ones are sum, min, pass_all",
    );
    check(r#""groups": {"small": "min"}"#, "groups.small", "like {\"score\"");
    check(r#""groups": null"#, "groups", "expected an object of groups");
    check(r#""problem": "a/b""#, "problem", "may contain only letters");
}

#[test]
fn cases_and_groups_are_counted_while_they_are_parsed() {
    let repeated =
        |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
    let check = |json: &dyn Fn(usize) -> String, limit: usize, field: &str| {
        parse_json::<NewTask>(json(limit).as_bytes()).unwrap();
        let Err(ParseError::Invalid(invalid)) = parse_json::<NewTask>(json(limit + 1).as_bytes()) else {
            panic!("{} items of {field} are accepted", limit + 1);
        };
        assert_eq!(invalid.field, field);
        assert_eq!(invalid.limit, Some(limit.to_string()));
        assert_eq!(invalid.actual, Some((limit + 1).to_string()));
    };
    let cases = |count| repeated(count, &|index| format!(r#"{{"name":"{index}"}}"#));
    check(
        &|count| format!(r#"{{"cases":[{}]}}"#, cases(count)),
        model::Judging::MAX_CASES,
        "cases",
    );
    let groups = |count| repeated(count, &|index| format!(r#""{index}":{{}}"#));
    check(
        &|count| format!(r#"{{"groups":{{{}}}}}"#, groups(count)),
        item_limits::MAX_ITEMS_PER_LIST,
        "groups",
    );
}

#[test]
fn the_title_of_a_problem_is_a_short_line() {
    let check = |title: &str, problem: Option<&str>| {
        let json = serde_json::json!({"title": title, "cases": []}).to_string();
        match (parse_json::<NewJudgeProblem>(json.as_bytes()), problem) {
            (Ok(read), None) => assert_eq!(read.title, title),
            (Err(ParseError::Invalid(invalid)), Some(problem)) => {
                assert_eq!(invalid.field, "title");
                assert!(invalid.to_string().contains(problem), "{invalid}");
            }
            (other, _) => panic!("{title}: {other:?}"),
        }
    };
    check("", None);
    check("Sum of two numbers", None);
    check(&"é".repeat(256), None);
    check(&"é".repeat(257), Some("limit 256, actual 257"));
    check("a\nb", Some("one line"));
}
