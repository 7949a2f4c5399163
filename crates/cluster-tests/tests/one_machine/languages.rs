//! Tasks that name a language, and the table of languages.

use std::time::Duration;

use cluster_tests::{LanguagePrograms, wait_until};
use serde_json::{Value, json};

use crate::harness::{SingleNode, text};

/// These are on every machine that runs the tests.
const USUAL: [&str; 6] = ["c", "python", "perl", "bash", "sed", "text"];

async fn language(node: &SingleNode, name: &str) -> Value {
    let answer = node.web.get("/api/v1/languages").await.json();
    let list = answer["languages"].as_array().expect("a list");
    let found = list.iter().find(|language| language["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {answer:#}")).clone()
}

#[tokio::test]
async fn a_language_and_its_source_are_a_whole_task() {
    for isolation in ["none", "cell"] {
        let node = SingleNode::up(&["--isolation", isolation]);
        let run = async |task: Value| node.web.run(&task).await;
        let task =
            run(json!({"language": "python", "source_code": "print(input())", "execute": {"input": "hi"}}))
                .await;
        assert_eq!(task["status"], "success", "{task:#}");
        assert_eq!(task["result"]["execute"]["stdout"], "hi\n");
        assert_eq!(task["language"], "python");
        assert_eq!(task["root"], Value::Null);
        assert_eq!(task["source"]["main.py"], "print(input())");
        assert_eq!(task["execute"]["command"], "python3 main.py");
        let main = "int two(void); int main(void) { return two(); }";
        let files = json!({"main.c": main, "two.c": "int two(void) { return 2; }"});
        let task = run(json!({"language": "C", "source": files})).await;
        assert_eq!(task["result"]["execute"]["exit_code"], 2, "{task:#}");
        // What the task says itself wins, and an alias is the language.
        let task = run(json!({
            "language": "py",
            "source": {"other.py": "import sys; print(sys.argv[1:])"},
            "execute": {"args": ["a b"], "env": {"PYTHONHASHSEED": "1"}, "limits": {"cpu": "5s"}},
        }))
        .await;
        assert_eq!(task["result"]["execute"]["stdout"], "['a b']\n", "{task:#}");
        assert_eq!(task["language"], "python");
        assert_eq!(task["execute"]["limits"]["cpu"], 5.0);
        let task =
            run(json!({"language": "python", "source_code": "", "execute": {"command": "echo mine"}})).await;
        assert_eq!(task["result"]["execute"]["stdout"], "mine\n");
        // A retry repeats the commands.
        let retry = format!("/api/v1/tasks/{}/retry", task["id"].as_str().unwrap());
        let again = node.web.post(&retry, &json!(null)).await.json();
        assert_eq!(again["language"], "python");
        assert_eq!(again["execute"]["command"], "echo mine");
    }
}

#[tokio::test]
async fn every_usual_language_ends_its_programs_for_the_right_reason() {
    let node = SingleNode::up(&["--isolation", "cell"]);
    let programs = LanguagePrograms {
        web: &node.web,
        root: None,
    };
    let mut wrong = Vec::new();
    for name in USUAL {
        wrong.extend(programs.check(&language(&node, name).await).await);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    node.system.leftovers().wait_until_clean().await;
}

#[tokio::test]
async fn the_table_tells_versions_and_executors() {
    let node = SingleNode::up(&[]);
    for name in USUAL {
        wait_until(name, Duration::from_secs(60), async || {
            (language(&node, name).await["executors"] == 1).then_some(())
        })
        .await;
    }
    let python = wait_until("versions", Duration::from_secs(60), async || {
        let python = language(&node, "python").await;
        let is_known = python["versions"]
            .as_object()
            .is_some_and(|versions| !versions.is_empty());
        is_known.then_some(python)
    })
    .await;
    let (version, executors) = python["versions"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(*executors, 1);
    let said = std::process::Command::new("/usr/bin/python3")
        .arg("--version")
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&said.stdout).trim(),
        format!("Python {version}")
    );
    let short: Vec<_> = version.split('.').take(2).collect();
    assert_eq!(python["title"], format!("Python 3 (CPython {})", short.join(".")));
    let executors = node.web.get("/api/v1/executors").await.json();
    let offered = &executors["executors"][0]["languages"];
    let expected = json!({"name": "python", "version": version, "root": null});
    assert!(offered.as_array().unwrap().contains(&expected), "{offered:#}");
    assert_eq!(node.web.get("/api/v1/roots").await.json(), json!({"roots": []}));
    let page = node.web.get("/languages").await;
    assert_eq!(page.status, 200);
    let name = executors["executors"][0]["name"].as_str().unwrap();
    for part in [
        "<code>python</code>",
        &format!("{version}: {name}"),
        "No executor has a named root.",
    ] {
        assert!(page.text().contains(part), "no {part} in {}", page.text());
    }
}

#[tokio::test]
async fn what_no_executor_has_is_refused_or_waits() {
    let node = SingleNode::up(&[]);
    let file = node.system.folder.path().join("languages.toml");
    let table = "[nowhere]\ntitle = 'Nowhere'\nsource = 'main.no'\nexecute = 'nowhere {source}'\nprograms = ['no-such-program']\n\
                 [python]\nexecute = 'python3 -B {source}'\n";
    std::fs::write(&file, table).unwrap();
    let flags = ["--set", &format!("judicator.languages={}", text(&file))];
    let node = node.again(&flags);
    let refused = async |task: Value, field: &str, part: &str| {
        node.web
            .post("/api/v1/tasks", &task)
            .await
            .assert_problem_at(422, field, part);
    };
    let nowhere = json!({"language": "nowhere", "source_code": ""});
    refused(
        nowhere.clone(),
        "language",
        "no executor has 'nowhere'; choose one of these: ",
    )
    .await;
    refused(
        json!({"language": "klingon", "source_code": ""}),
        "language",
        "'klingon' is unknown",
    )
    .await;
    refused(
        json!({"root": "moon", "execute": {"command": "true"}}),
        "root",
        "no executor has the root 'moon'",
    )
    .await;
    refused(
        json!({"source_code": "x", "execute": {"command": "true"}}),
        "source_code",
        "needs a language",
    )
    .await;
    refused(json!({"language": "python"}), "source", "has no file").await;
    refused(
        json!({}),
        "execute.command",
        "is missing or empty; give the command to run, or a language",
    )
    .await;
    refused(
        json!({"language": "python", "source_code": "", "compile": {}}),
        "compile.command",
        "no compile step",
    )
    .await;
    // Tasks that wait do not stand in the way of others.
    let mut waiting = nowhere;
    (waiting["wait_for_executor"], waiting["priority"]) = (json!(true), json!(10));
    let waiting = node.web.post("/api/v1/tasks", &waiting).await.json();
    let task = node
        .web
        .run(&json!({"language": "python", "source_code": "print(1)"}))
        .await;
    assert_eq!(task["execute"]["command"], "python3 -B main.py");
    assert_eq!(task["result"]["execute"]["stdout"], "1\n");
    let path = format!("/api/v1/tasks/{}", waiting["id"].as_str().unwrap());
    assert_eq!(node.web.get(&path).await.json()["status"], "pending");
}

#[tokio::test]
async fn the_command_line_runs_a_file_by_its_extension() {
    let node = SingleNode::up(&[]);
    let folder = node.system.folder.path();
    let program = folder.join("greet.py");
    std::fs::write(&program, "import sys\nprint('Hello,', input(), sys.argv[1:])\n").unwrap();
    let program = text(&program);
    let said = node
        .cli
        .run_with_input(&["run", program, "--", "x y"], b"you\n")
        .await
        .assert_success();
    assert_eq!(said.text(), "Hello, you ['x y']\n");
    let said = node
        .cli
        .run_with_input(&["run", "--language", "py", program], b"you\n")
        .await
        .assert_success();
    assert_eq!(said.text(), "Hello, you []\n");
    node.cli
        .run(&["run", "no-such-file"])
        .await
        .assert_failure(125, &["there is no file no-such-file", "run -- no-such-file"]);
    // Its languages are known from the tasks before.
    let said = node.cli.run(&["languages"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let line = said
        .text()
        .lines()
        .find(|line| line.starts_with("python "))
        .map(String::from);
    assert!(
        line.is_some_and(|line| line.contains("python3")),
        "{}",
        said.text()
    );
}
