//! Problems: cases that are kept under a name. Who submits a program learns its verdicts and nothing of the cases.

use cluster_tests::{HttpResponse, RawHttpClient, ReceivedEvent, TestSystem};
use serde_json::{Value, json};

use crate::harness::{ECHO, JudgedTask, JudgingNode, text};

const ADA: &str = "ada-has-a-long-token";
const BOB: &str = "bob-has-another-token";
const EVE: &str = "eve-operates-with-it";

/// What only the owner may see. Each appears in another part of the problem.
const SECRETS: [&str; 7] = [
    "INPUT-9f31",
    "ANSWER-77ac",
    "ARGUMENT-51b0",
    "FILE-0d42",
    "CHECKER-c8e6",
    "JUDGEMESSAGE-3b19",
    "CHECKARGUMENT-e210",
];

/// Accepts a sum. Its message for the owner repeats what it was given.
const CHECKER: &str = "import sys\n# CHECKER-c8e6\nfeedback = sys.argv[3]\n\
    words = [open(path).read() for path in sys.argv[1:3]]\n\
    open(feedback + 'judgemessage.txt', 'w').write('JUDGEMESSAGE-3b19 ' + ' '.join(words))\n\
    open(feedback + 'teammessage.txt', 'w').write('add the numbers')\n\
    sys.exit(42 if sys.stdin.read().split()[0] == words[1].split()[0] else 43)";

fn problem() -> Value {
    json!({
        "title": "Add two numbers",
        "limits": {"cpu": "2s", "memory": "128MiB"},
        "cases": [
            {"name": "sample", "input": "1 2 sample\n", "answer": "3 sample\n", "points": 0, "sample": true},
            {"name": "secret 1", "input": "20 22 INPUT-9f31\n", "answer": "42 ANSWER-77ac\n", "points": 40,
             "args": ["ARGUMENT-51b0"], "files": {"hint": "FILE-0d42"}},
            {"name": "secret 2", "input": "5 6 INPUT-9f31\n", "answer": "11 ANSWER-77ac\n", "points": 60},
        ],
        "check": {
            "kind": "program", "protocol": "icpc", "language": "python", "source": {"check.py": CHECKER}, "args": ["CHECKARGUMENT-e210"],
        },
    })
}

/// Adds the numbers, and repeats all that it gets.
const TELLER: &str = "import os, sys\na, b, rest = sys.stdin.read().split(maxsplit=2)\n\
    hint = open('hint').read() if os.path.exists('hint') else ''\n\
    print(int(a) + int(b), rest, hint, *sys.argv)\nprint(rest, hint, *sys.argv, file=sys.stderr)\n";

/// A node whose users have tokens, and what they do there.
struct Users {
    node: JudgingNode,
}

impl Users {
    fn start() -> Users {
        let system = TestSystem::new().expect("a folder");
        let tokens = system.folder.path().join("tokens");
        std::fs::write(&tokens, format!("{ADA} ada\n{BOB} bob\n{EVE} eve\n")).expect("a file");
        let tokens = tokens.to_str().expect("a path in UTF-8").to_string();
        let flags = ["--tokens-file", &tokens, "--set", "gateway.operators=eve"];
        Users {
            node: JudgingNode::start_with(system, &flags),
        }
    }

    async fn send(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> HttpResponse {
        let request = self.node.web.request(method, path).bearer_auth(token);
        HttpResponse::of(match body {
            Some(body) => request.json(body),
            None => request,
        })
        .await
    }

    async fn put(&self, token: &str, name: &str, problem: &Value) -> HttpResponse {
        self.send(token, "PUT", &format!("/api/v1/problems/{name}"), Some(problem))
            .await
    }

    async fn get(&self, token: &str, path: &str) -> HttpResponse {
        self.send(token, "GET", path, None).await
    }

    /// Adds a task, waits until it is done, and returns it as this user sees it.
    async fn judge(&self, token: &str, task: &Value) -> JudgedTask {
        let added = self
            .send(token, "POST", "/api/v1/tasks?wait=60", Some(task))
            .await;
        assert_eq!(added.status, 201, "{}", added.text());
        let task = added.json();
        assert_eq!(task["done"], true, "{task:#}");
        JudgedTask(task)
    }
}

fn submission() -> Value {
    json!({"language": "python", "source_code": TELLER, "problem": "add", "group": "contest"})
}

fn assert_tells_nothing(what: &str, shown: &str) {
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{what} shows {secret}:\n{shown}");
    }
}

#[tokio::test]
async fn who_submits_sees_verdicts_and_samples_only() {
    let users = Users::start();
    let kept = users.put(ADA, "add", &problem()).await;
    assert!(kept.status == 200 || kept.status == 201, "{}", kept.text());
    let task = users.judge(BOB, &submission()).await;
    task.assert_status("success", "accepted");
    assert_eq!(task.score(), (100.0, 100.0));
    assert_eq!(task.verdicts(), ["accepted"; 3]);
    let sample = task.case("sample");
    assert!(
        text(&sample["execute"]["stdout"]).starts_with("3 sample"),
        "{sample:#}"
    );
    assert_eq!(sample["check"]["message"], "add the numbers");
    assert!(text(&sample["check"]["judge_message"]).is_empty(), "{sample:#}");
    // The figures of a secret case are no secret.
    let secret = task.case("secret 1");
    assert!(secret["execute"]["cpu_seconds"].is_number(), "{secret:#}");
    assert_eq!(
        (&secret["check"]["exit_code"], secret["points"].as_f64()),
        (&json!(42), Some(40.0))
    );
    assert_eq!(task.0["problem"], "add", "{:#}", task.0);

    let wrong = json!({
        "language": "python", "problem": "add", "group": "contest",
        "source_code": TELLER.replace("int(a) + int(b)", "0 if a == '5' else int(a) + int(b)"),
    });
    let wrong = users.judge(BOB, &wrong).await;
    wrong.assert_status("run_failed", "wrong_answer");
    assert_eq!(wrong.verdicts(), ["accepted", "accepted", "wrong_answer"]);
    for task in [&task, &wrong] {
        let id = text(&task.0["id"]);
        for path in [
            format!("/api/v1/tasks/{id}"),
            "/api/v1/tasks".to_string(),
            "/api/v1/tasks/export".to_string(),
            format!("/api/v1/tasks/{id}/events"),
            format!("/api/v1/tasks/{id}/events?output=true"),
            format!("/api/v1/tasks/{id}/execute/stdout"),
            format!("/api/v1/tasks/{id}/execute/stderr"),
            "/api/v1/groups/contest".to_string(),
            "/api/v1/problems".to_string(),
            "/api/v1/problems/add".to_string(),
            "/".to_string(),
            format!("/tasks/{id}"),
            format!("/tasks/{id}/fragment"),
            format!("/tasks/{id}/cases/0"),
            format!("/tasks/{id}/cases/1"),
            format!("/tasks/{id}/cases/2"),
            "/groups/contest".to_string(),
            "/groups/contest/results".to_string(),
            "/groups/contest/results.csv".to_string(),
            "/problems".to_string(),
            "/problems/add".to_string(),
            "/problems/add/cases/0".to_string(),
            "/problems/add/cases/1".to_string(),
        ] {
            let answer = users.get(BOB, &path).await;
            assert!(answer.status < 500, "{path}: {} {}", answer.status, answer.text());
            assert_tells_nothing(&path, &answer.text());
        }
        // A retry is the user's own task, of the same problem.
        let again = users
            .send(BOB, "POST", &format!("/api/v1/tasks/{id}/retry"), None)
            .await;
        assert_eq!(again.status, 201, "{}", again.text());
        let path = format!("/api/v1/tasks/{}?wait=60", text(&again.json()["id"]));
        let again = users.get(BOB, &path).await;
        assert_tells_nothing("a retry", &again.text());
        assert_eq!(again.json()["result"]["verdict"], task.verdict());
    }
    let public = users.get(BOB, "/api/v1/problems/add").await.json();
    let names: Vec<_> = public["cases"]
        .as_array()
        .expect("cases")
        .iter()
        .map(|case| text(&case["name"]))
        .collect();
    assert_eq!(names, ["sample", "secret 1", "secret 2"]);
    assert_eq!(public["cases"][0]["input"], "1 2 sample\n", "{public:#}");
    assert_eq!(public["limits"]["cpu"], 2.0, "{public:#}");
    assert_eq!(
        (&public["title"], &public["owner"]),
        (&json!("Add two numbers"), &json!("ada"))
    );
}

/// While the task still runs, too.
#[tokio::test]
async fn marks_of_a_secret_case_say_its_verdict_only() {
    let users = Users::start();
    users.put(ADA, "add", &problem()).await;
    let added = users
        .send(BOB, "POST", "/api/v1/tasks", Some(&submission()))
        .await
        .json();
    let id = text(&added["id"]);
    let events = users
        .get(BOB, &format!("/api/v1/tasks/{id}/events?output=true"))
        .await;
    assert_tells_nothing("events", &events.text());
    let events = ReceivedEvent::parse_all(&events.body);
    let last = events.last().expect("events");
    assert_eq!(last.data["status"], "success", "{events:#?}");
}

#[tokio::test]
async fn the_owner_and_operators_see_everything() {
    let users = Users::start();
    users.put(ADA, "add", &problem()).await;
    let of_bob = users.judge(BOB, &submission()).await;
    let path = format!("/api/v1/tasks/{}", text(&of_bob.0["id"]));
    // Tasks of others are no business of the owner, but of an operator.
    assert_eq!(users.get(ADA, &path).await.status, 404);
    let seen = users.get(EVE, &path).await;
    let own = users.judge(ADA, &submission()).await;
    let of_problem = users.get(ADA, "/api/v1/problems/add").await;
    for secret in [
        "INPUT-9f31",
        "ANSWER-77ac",
        "ARGUMENT-51b0",
        "FILE-0d42",
        "CHECKARGUMENT-e210",
    ] {
        assert!(
            of_problem.text().contains(secret),
            "no {secret} in {}",
            of_problem.text()
        );
    }
    for (who, task) in [("the operator", seen.json()), ("the owner", own.0)] {
        let task = JudgedTask(task);
        let case = task.case("secret 1");
        let judge = text(&case["check"]["judge_message"]);
        assert!(
            judge.contains("JUDGEMESSAGE-3b19") && judge.contains("ANSWER-77ac"),
            "{who}: {case:#}"
        );
        let stdout = text(&case["execute"]["stdout"]);
        for secret in ["INPUT-9f31", "FILE-0d42", "ARGUMENT-51b0"] {
            assert!(stdout.contains(secret), "{who}: no {secret} in {case:#}");
        }
    }
}

#[tokio::test]
async fn only_the_owner_and_operators_change_a_problem() {
    let users = Users::start();
    assert!(users.put(ADA, "add", &problem()).await.status < 300);
    let own = users.judge(BOB, &submission()).await;
    let mut theirs = problem();
    theirs["title"] = json!("Mine");
    let refused = users.put(BOB, "add", &theirs).await.assert_problem(403);
    assert!(text(&refused["detail"]).contains("ada"), "{refused}");
    users
        .send(BOB, "DELETE", "/api/v1/problems/add", None)
        .await
        .assert_problem(403);
    theirs["owner"] = json!("bob");
    assert!(users.put(BOB, "add", &theirs).await.status >= 400);
    assert_eq!(
        users.get(BOB, "/api/v1/problems/add").await.json()["title"],
        "Add two numbers"
    );

    // Replacing it changes what later tasks are judged by.
    let mut easier = problem();
    easier["cases"].as_array_mut().expect("cases").truncate(1);
    assert!(users.put(ADA, "add", &easier).await.status < 300);
    assert_eq!(users.judge(BOB, &submission()).await.cases().len(), 1);
    let path = format!("/api/v1/tasks/{}", text(&own.0["id"]));
    assert_eq!(
        users.get(BOB, &path).await.json()["result"]["cases"]
            .as_array()
            .map(Vec::len),
        Some(3)
    );

    assert!(
        users
            .send(ADA, "DELETE", "/api/v1/problems/add", None)
            .await
            .status
            < 300
    );
    users.get(ADA, "/api/v1/problems/add").await.assert_problem(404);
    let refused = users
        .send(BOB, "POST", "/api/v1/tasks", Some(&submission()))
        .await;
    refused.assert_problem_at(422, "problem", "add");
    let again = users.send(BOB, "POST", &format!("{path}/retry"), None).await;
    assert_eq!(again.status, 201, "a task keeps its cases: {}", again.text());
    let again = users
        .get(
            BOB,
            &format!("/api/v1/tasks/{}?wait=60", text(&again.json()["id"])),
        )
        .await;
    assert_eq!(again.json()["result"]["verdict"], "accepted");
    assert_tells_nothing("a retry", &again.text());
    // The name is free again.
    assert!(users.put(BOB, "add", &problem()).await.status < 300);
    assert!(
        users
            .send(EVE, "DELETE", "/api/v1/problems/add", None)
            .await
            .status
            < 300
    );
}

#[tokio::test]
async fn a_task_cannot_bend_the_rules_of_its_problem() {
    let users = Users::start();
    users.put(ADA, "add", &problem()).await;
    let with = |name: &str, value: Value| {
        let mut task = submission();
        task[name] = value;
        task
    };
    for (task, field) in [
        (with("check", json!({"kind": "none"})), "check"),
        (with("cases", json!([{"name": "1"}])), "cases"),
        (with("stop", json!("never")), "stop"),
        (with("groups", json!({"g": {"score": "sum"}})), "groups"),
        (with("keep", json!(["*"])), "keep"),
        (
            with("execute", json!({"limits": {"cpu": "10s"}})),
            "execute.limits.cpu",
        ),
        (
            with("execute", json!({"limits": {"memory": "1GiB"}})),
            "execute.limits.memory",
        ),
        (with("execute", json!({"input": "1"})), "execute.input"),
        (with("execute", json!({"network": "loopback"})), "execute.network"),
        (
            with("compile", json!({"command": "true", "network": "loopback"})),
            "compile.network",
        ),
        (with("labels", json!({"problem": "other"})), "labels.problem"),
    ] {
        let answer = users.send(BOB, "POST", "/api/v1/tasks", Some(&task)).await;
        let problem = answer.assert_problem(422);
        assert!(text(&problem["field"]).starts_with(field), "{field}: {problem}");
    }
    let slow = with("source_code", json!("while True: pass"));
    let slow = users.judge(BOB, &slow).await;
    slow.assert_status("run_failed", "time_limit");
}

#[tokio::test]
async fn without_tokens_there_is_one_user_who_sees_everything() {
    let node = JudgingNode::start();
    let put = node.web.request("PUT", "/api/v1/problems/add").json(&problem());
    assert!(HttpResponse::of(put).await.status < 300);
    let task = node.judge(&submission()).await;
    task.assert_status("success", "accepted");
    let judge = text(&task.case("secret 1")["check"]["judge_message"]);
    assert!(judge.contains("ANSWER-77ac"), "{judge:?}");
    let list = node.web.get("/api/v1/problems").await.json();
    assert_eq!(
        (&list["problems"][0]["name"], &list["problems"][0]["cases"]),
        (&json!("add"), &json!(3)),
        "{list}"
    );
    // Submissions of a problem can be found.
    let found = node.web.get("/api/v1/tasks?label=problem:add").await.json();
    assert_eq!(found["tasks"].as_array().map(Vec::len), Some(1), "{found:#}");
}

#[tokio::test]
async fn invalid_problems_are_refused_with_their_place() {
    let node = JudgingNode::start();
    let put = async |web: &RawHttpClient, name: &str, problem: &Value| {
        HttpResponse::of(
            web.request("PUT", &format!("/api/v1/problems/{name}"))
                .json(problem),
        )
        .await
    };
    let case = json!({"name": "1", "input": "1", "answer": "1"});
    for (problem, field, words) in [
        (json!({}), "cases", ""),
        (json!({"cases": []}), "cases", "at least one"),
        (
            json!({"cases": [{"name": "1"}], "check": {"kind": "exact"}}),
            "cases[0].answer",
            "'1'",
        ),
        (json!({"cases": [case, case]}), "cases[1].name", "'1'"),
        (
            json!({"cases": [case], "limits": {"cpu": "0s"}}),
            "limits.cpu",
            "",
        ),
        (
            json!({"cases": [case], "check": {"kind": "fuzzy"}}),
            "check",
            "fuzzy",
        ),
        (json!({"cases": [case], "title": "a\nb"}), "title", "line"),
        (json!({"cases": [case], "time_limit": 1}), "", "time_limit"),
        (json!({"cases": {"readme.txt": ""}}), "cases", "NAME.in"),
    ] {
        let answer = put(&node.web, "p", &problem).await;
        let refused = answer.assert_problem(422);
        assert!(text(&refused["field"]).starts_with(field), "{problem}: {refused}");
        assert!(text(&refused["detail"]).contains(words), "{problem}: {refused}");
    }
    for name in ["..", ".hidden", "a%2Fb", "a%20b", &"x".repeat(65)] {
        let answer = put(&node.web, name, &json!({"cases": [case]})).await;
        assert!((400..500).contains(&answer.status), "{name}: {}", answer.text());
    }
    assert_eq!(
        node.web.get("/api/v1/problems").await.json(),
        json!({"problems": []})
    );
    node.web.get("/api/v1/problems/p").await.assert_problem(404);
    HttpResponse::of(node.web.request("DELETE", "/api/v1/problems/p"))
        .await
        .assert_problem(404);
    assert_eq!(
        put(&node.web, "p", &json!({"cases": [case]})).await.status / 100,
        2
    );
    let task = node
        .judge(&json!({"execute": {"command": ECHO}, "problem": "p"}))
        .await;
    task.assert_status("success", "accepted");
}
