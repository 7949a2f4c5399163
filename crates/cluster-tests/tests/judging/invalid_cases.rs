//! Judged tasks that make no sense. Each is refused with the place and the reason, and nothing is added.

use serde_json::{Value, json};

use crate::harness::{ECHO, JudgingNode};

/// A valid task, with these fields instead of its own.
fn with(fields: Value) -> Value {
    let mut task = json!({
        "execute": {"command": ECHO},
        "cases": [{"name": "1", "input": "1", "answer": "1"}, {"name": "2", "input": "2", "answer": "2"}],
    });
    for (name, value) in fields.as_object().expect("fields") {
        task[name] = value.clone();
    }
    task
}

fn program(fields: Value) -> Value {
    let mut check =
        json!({"kind": "program", "protocol": "icpc", "language": "python", "source": {"check.py": ""}});
    for (name, value) in fields.as_object().expect("fields") {
        match value {
            Value::Null => check.as_object_mut().expect("a check").remove(name),
            value => check
                .as_object_mut()
                .expect("a check")
                .insert(name.clone(), value.clone()),
        };
    }
    json!({"check": check})
}

#[tokio::test]
async fn invalid_cases_and_checks_are_refused_with_their_place() {
    let node = JudgingNode::start();
    let interact = json!({"protocol": "icpc", "language": "python", "source": {"interact.py": ""}});
    for (task, field, words) in [
        (
            with(json!({"cases": [{"name": "1", "answer": "1"}, {"name": "2"}]})),
            "cases[1].answer",
            "answer",
        ),
        (
            with(json!({"cases": [{"name": "1"}], "check": {"kind": "exact"}})),
            "cases[0].answer",
            "'1'",
        ),
        (
            with(json!({"cases": [{"name": "1"}], "check": {"kind": "tokens"}})),
            "cases[0].answer",
            "'1'",
        ),
        (
            with(
                json!({"cases": [{"name": "a", "answer": ""}, {"name": "b", "answer": ""}, {"name": "a", "answer": ""}]}),
            ),
            "cases[2].name",
            "'a'",
        ),
        (with(json!({"cases": []})), "cases", "at least one"),
        (
            with(json!({"cases": {"1.in": "1"}, "check": {"kind": "exact"}})),
            "cases[0].answer",
            "'1'",
        ),
        (with(json!({"cases": [{"name": ""}]})), "cases[0].name", "empty"),
        (with(json!({"cases": [{"input": "1"}]})), "cases[0]", "name"),
        (
            with(json!({"cases": [{"name": "1", "limits": {"cpu": "0s"}}]})),
            "cases[0].limits.cpu",
            "",
        ),
        (
            with(json!({"cases": [{"name": "1", "limits": {"cpu": 0}}]})),
            "cases[0].limits.cpu",
            "",
        ),
        (
            with(json!({"execute": {"command": ECHO, "limits": {"cpu": "0s"}}})),
            "execute.limits.cpu",
            "",
        ),
        (
            with(json!({"cases": [{"name": "1", "points": -1}]})),
            "cases[0].points",
            "",
        ),
        (
            with(json!({"cases": [{"name": "1", "points": 1e12}]})),
            "cases[0].points",
            "",
        ),
        (
            with(json!({"cases": [{"name": "1", "files": {"../x": ""}}]})),
            "cases[0].files",
            "",
        ),
        (
            with(json!({"cases": [{"name": "1", "files": {"a": "x", "a/b": "y"}}]})),
            "cases[0].files",
            "'a' is a file and also the folder of 'a/b'",
        ),
        (
            with(program(json!({"source": {"check.py": "", "check.py/x": ""}}))),
            "check.source",
            "the folder of 'check.py/x'",
        ),
        (
            with(json!({"cases": [{"name": "1", "anwser": "1"}]})),
            "cases[0]",
            "anwser",
        ),
        (with(json!({"check": {"kind": "fuzzy"}})), "check", "fuzzy"),
        (
            with(json!({"check": {"kind": "tokens", "float_tolerance": -1}})),
            "check.float_tolerance",
            "",
        ),
        (
            with(json!({"check": {"kind": "tokens", "float_tolerance": "much"}})),
            "check.float_tolerance",
            "",
        ),
        (
            with(json!({"check": {"kind": "exact", "float_tolerance": 1}})),
            "check",
            "float_tolerance",
        ),
        (with(json!({"check": {}})), "check", "kind"),
        (
            with(program(json!({"protocol": "spoj"}))),
            "check.protocol",
            "spoj",
        ),
        (with(program(json!({"protocol": null}))), "check", "protocol"),
        (
            with(program(json!({"language": "klingon"}))),
            "check.language",
            "klingon",
        ),
        (with(program(json!({"source": null}))), "check", "source"),
        (
            with(json!({"interact": interact, "check": {"kind": "exact"}})),
            "check",
            "interact",
        ),
        (with(json!({"stop": "sometimes"})), "stop", "sometimes"),
        (
            with(json!({"groups": {"nobody": {"score": "sum"}}})),
            "groups.nobody",
            "case",
        ),
        (
            with(json!({"cases": [{"name": "1", "group": "g"}], "groups": {"g": {"score": "max"}}})),
            "groups.g",
            "max",
        ),
        (
            with(json!({"execute": {"command": ECHO, "input": "1"}})),
            "execute.input",
            "case",
        ),
        (with(json!({"keep": ["*"]})), "keep", "case"),
        (
            json!({"execute": {"command": ECHO}, "check": {"kind": "exact"}}),
            "check",
            "cases",
        ),
        (
            json!({"execute": {"command": ECHO}, "stop": "never"}),
            "stop",
            "cases",
        ),
        (
            json!({"execute": {"command": ECHO}, "interact": interact}),
            "interact",
            "cases",
        ),
        (with(json!({"problem": "hello"})), "cases", "hello"),
        (
            json!({"execute": {"command": ECHO}, "problem": "no-such-problem"}),
            "problem",
            "no-such-problem",
        ),
        (
            json!({"execute": {"command": ECHO}, "problem": "../etc"}),
            "problem",
            "",
        ),
    ] {
        let answer = node.web.post("/api/v1/tasks", &task).await;
        assert!(
            answer.status == 422,
            "{task}: {} {}",
            answer.status,
            answer.text()
        );
        let problem = answer.assert_problem(422);
        let found = problem["field"].as_str().unwrap_or_default();
        assert!(found.starts_with(field), "{field} of {task}: {problem:#}");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(words), "no '{words}' for {task}: {problem:#}");
    }
    let tasks = json!({"tasks": [with(json!({})), with(json!({"cases": [{"name": "1"}], "check": {"kind": "exact"}}))]});
    node.web
        .post("/api/v1/tasks/batch", &tasks)
        .await
        .assert_problem_at(422, "tasks[1].cases[0].answer", "'1'");
    assert_eq!(
        node.web.get("/api/v1/tasks").await.json()["tasks"],
        json!([]),
        "something was added"
    );
    let task = node.judge(&with(json!({}))).await;
    task.assert_status("success", "accepted");
}
