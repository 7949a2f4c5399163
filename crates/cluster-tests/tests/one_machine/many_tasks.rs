//! Calls about all tasks that match a search: their language, retries, exports.

use cluster_tests::{HttpResponse, TestSystem};
use serde_json::{Value, json};

use crate::harness::{SingleNode, text};

const TOKENS: [(&str, &str); 2] = [("ada-has-a-long-token", "ada"), ("bob-has-another-token", "bob")];

async fn add(node: &SingleNode, task: &Value) -> String {
    let answer = node.web.post("/api/v1/tasks", task).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().expect("an id").to_string()
}

async fn retry(node: &SingleNode, filter: &str) -> HttpResponse {
    let path = format!("/api/v1/tasks/retry{filter}");
    HttpResponse::of(node.web.request("POST", &path)).await
}

fn ids(list: &Value) -> Vec<String> {
    let tasks = list["tasks"].as_array().expect("tasks");
    let id = |task: &Value| task["id"].as_str().or(task.as_str()).expect("an id").to_string();
    tasks.iter().map(id).collect()
}

#[tokio::test]
async fn tasks_are_found_and_cancelled_by_their_language() {
    let node = SingleNode::up(&["--slots", "0"]);
    let task = |language: &str, source: &str| json!({"user": "ada", "language": language, "source_code": source, "wait_for_executor": true});
    let python = add(&node, &task("python", "print(1)")).await;
    // An alias in another case.
    let cpp = add(&node, &task("C++", "int main(){}")).await;
    add(&node, &json!({"execute": {"command": "true"}})).await;
    let found = async |language: &str| {
        let list = node.web.get(&format!("/api/v1/tasks?language={language}")).await;
        assert_eq!(list.status, 200, "{}", list.text());
        list.json()
    };
    let of_python = found("python").await;
    assert_eq!(ids(&of_python), std::slice::from_ref(&python));
    assert_eq!(of_python["tasks"][0]["language"], "python");
    for name in ["cpp", "c%2B%2B", "C%2B%2B"] {
        assert_eq!(ids(&found(name).await), std::slice::from_ref(&cpp), "{name}");
    }
    assert_eq!(ids(&found("go").await), Vec::<String>::new());
    node.web
        .get("/api/v1/tasks?language=a%20b")
        .await
        .assert_problem_at(422, "language", "letters, digits");

    let listed = node
        .cli
        .run(&["search", "--language", "c++", "--json"])
        .await
        .assert_success();
    assert_eq!(listed.json_lines()[0]["id"], json!(cpp));
    let cancelled = node.cli.run(&["cancel", "--language", "python", "--yes"]).await;
    assert_eq!(cancelled.assert_success().text(), "1 cancelled\n");
    let cancelled = node.web.delete("/api/v1/tasks?language=c%2B%2B").await;
    assert_eq!(cancelled.json(), json!({"cancelled": 1}));
    let left = node.web.get("/api/v1/tasks?status=pending").await.json();
    assert_eq!(ids(&left).len(), 1, "{left:#}");
}

#[tokio::test]
async fn all_that_match_and_did_not_succeed_are_retried_once() {
    let node = SingleNode::up(&["--slots", "2"]);
    let task = |label: &str, command: &str| json!({"user": "ada", "labels": {"hw": label}, "execute": {"command": command}});
    let mut failed = vec![];
    for (label, command) in [("1", "exit 1"), ("1", "true"), ("1", "exit 2"), ("2", "exit 3")] {
        let done = node.web.run(&task(label, command)).await;
        if label == "1" && command != "true" {
            failed.push(done["id"].clone());
        }
    }
    let answer = retry(&node, "?label=hw:1").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let retried = answer.json();
    assert_eq!(retried.get("more"), None, "{retried}");
    let new = ids(&retried);
    assert_eq!(new.len(), 2, "{retried}");
    for (id, old) in new.iter().zip(&failed) {
        let task = node.web.get(&format!("/api/v1/tasks/{id}?wait=60")).await.json();
        assert_eq!((&task["retry_of"], &task["status"]), (old, &json!("run_failed")));
    }
    // The old ones were retried; the new ones have failed again.
    let again = retry(&node, "?label=hw:1").await.json();
    assert_eq!(ids(&again).len(), 2, "{again}");
    for nothing in ["?status=success", "?user=nobody", "?retried=true&user=ada"] {
        assert_eq!(
            retry(&node, nothing).await.json(),
            json!({"tasks": []}),
            "{nothing}"
        );
    }
    retry(&node, "")
        .await
        .assert_problem_at(422, "query", "give at least one of");
    retry(&node, "?order=newest")
        .await
        .assert_problem_at(422, "order", "not a known parameter");
    node.web.get("/api/v1/tasks/retry").await.assert_problem(405);
}

/// The lines of an export, each as JSON.
fn lines(file: &HttpResponse) -> Vec<Value> {
    let text = file.text();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[tokio::test]
async fn an_export_has_whole_tasks_as_they_are() {
    let node = SingleNode::up(&["--slots", "2"]);
    let hostile = "=cmd|' /C calc'!A0, \"quoted\"\n<script>\u{202e}";
    let first = node
        .web
        .run(&json!({
            "user": "=ada", "group": "g", "labels": {"k": "+1"}, "language": "bash",
            "source_code": "echo out", "execute": {"env": {"X": hostile}},
        }))
        .await;
    let second = node
        .web
        .run(&json!({"user": "bob", "group": "g", "execute": {"command": hostile}}))
        .await;
    node.web
        .run(&json!({"user": "bob", "execute": {"command": "true"}}))
        .await;

    let file = node.web.get("/api/v1/tasks/export?group=g").await;
    assert_eq!(file.status, 200, "{}", file.text());
    assert_eq!(file.header("content-type"), "application/jsonl");
    assert!(
        file.header("content-disposition")
            .starts_with("attachment; filename=\"tasks.jsonl\""),
        "{}",
        file.header("content-disposition")
    );
    assert_eq!(lines(&file), [first.clone(), second.clone()]);
    let newest = node
        .web
        .get("/api/v1/tasks/export?group=g&order=newest&format=")
        .await;
    assert_eq!(lines(&newest), [second.clone(), first.clone()]);
    let chosen = format!(
        "/api/v1/tasks/export?id={}&id={}",
        first["id"].as_str().expect("an id"),
        second["id"].as_str().expect("an id")
    );
    assert_eq!(lines(&node.web.get(&chosen).await).len(), 2);

    let file = node.web.get("/api/v1/tasks/export?group=g&format=csv").await;
    assert!(file.header("content-type").starts_with("text/csv"));
    let text = file.text();
    let heading = text.lines().next().expect("a heading");
    assert!(
        heading.starts_with("id,status,reason,")
            && heading.ends_with(",command,language,verdict,score,max_score")
    );
    // Nothing begins like a formula, and a quoted cell may have commas, quotes and lines.
    assert!(text.contains(",'=ada,g,\"{\"\"k\"\":\"\"+1\"\"}\","), "{text}");
    assert!(
        text.contains(",\"'=cmd|' /C calc'!A0, \"\"quoted\"\"\n<script>\u{202e}\",,,,\r\n"),
        "{text}"
    );
    let head = HttpResponse::of(node.web.request("HEAD", "/api/v1/tasks/export?format=csv")).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    let nothing = node.web.get("/api/v1/tasks/export?user=nobody").await;
    assert_eq!((nothing.status, nothing.text().as_str()), (200, ""));
    for (query, field) in [
        ("format=xlsx", "format"),
        ("limit=7", "limit"),
        ("user=%07", "user"),
    ] {
        let refused = node.web.get(&format!("/api/v1/tasks/export?{query}")).await;
        assert_eq!(refused.assert_problem(422)["field"], field, "{query}");
    }
}

#[tokio::test]
async fn an_export_has_more_tasks_than_a_page_and_only_those_of_the_token() {
    let system = TestSystem::new().expect("a folder");
    let tokens = system.folder.path().join("tokens");
    let list: String = TOKENS.map(|(token, user)| format!("{token} {user}\n")).concat();
    std::fs::write(&tokens, list).expect("a file");
    let node = SingleNode::on(system, &["--slots", "0", "--tokens-file", text(&tokens)]);
    let [(ada, _), (bob, _)] = TOKENS;
    for (token, count) in [(ada, 450), (bob, 3)] {
        let tasks: Vec<_> = (0..count)
            .map(|index| json!({"execute": {"command": format!("echo {index}")}}))
            .collect();
        let request = node.web.request("POST", "/api/v1/tasks/batch").bearer_auth(token);
        let added = HttpResponse::of(request.json(&json!({"tasks": tasks}))).await;
        assert_eq!(added.status, 201, "{}", added.text());
    }
    let export = async |token: &str, query: &str| {
        let request = node.web.request("GET", &format!("/api/v1/tasks/export{query}"));
        HttpResponse::of(request.bearer_auth(token)).await
    };
    let of_ada = lines(&export(ada, "").await);
    let commands = of_ada.iter().map(|task| task["execute"]["command"].clone());
    let expected: Vec<_> = (0..450).map(|index| json!(format!("echo {index}"))).collect();
    assert_eq!(commands.collect::<Vec<_>>(), expected);
    assert_eq!(lines(&export(bob, "?text=ECHO").await).len(), 3);
    assert_eq!(export(bob, "?user=ada").await.status, 422);
    let request = node
        .web
        .request("POST", "/api/v1/tasks/retry?user=ada")
        .bearer_auth(bob);
    HttpResponse::of(request).await.assert_problem(422);
}
