//! Descendant processes of a step end with it.

use std::time::Duration;

use cluster_tests::{is_alive, wait_until};
use serde_json::{Value, json};

use crate::harness::SingleNode;

/// Starts children that resist being killed, and continues when all of them have written their pids.
const STAY: &str = r#"
    # In a session of its own.
    setsid sh -c 'echo $$ >> pids; trap "" TERM HUP INT; while :; do sleep 1; done' &
    # Twice forked, its parent gone.
    (setsid sh -c '(echo $(exec sh -c "echo \$PPID") >> pids; exec sleep 600) &' &)
    # Deaf to hang-ups, holding neither stdout nor stderr.
    nohup sh -c 'echo $$ >> pids; exec sleep 600' > /dev/null 2>&1 &
    # Stopped.
    sh -c 'echo $$ >> pids; kill -STOP $$; sleep 600' &
    # Holding our stdout.
    sh -c 'echo $$ >> pids; exec sleep 600' &
    until [ "$(wc -l < pids 2> /dev/null)" = 5 ]; do sleep 0.02; done
    cat pids
"#;

fn pids(outcome: &Value) -> Vec<i32> {
    let stdout = outcome["stdout"].as_str().expect("stdout");
    let pids: Vec<_> = stdout.lines().map(|pid| pid.parse().expect("a pid")).collect();
    assert_eq!(pids.len(), 5, "{outcome:#}");
    pids
}

fn assert_gone(outcome: &Value) {
    let left: Vec<_> = pids(outcome).into_iter().filter(|pid| is_alive(*pid)).collect();
    assert!(left.is_empty(), "{left:?} still live");
}

#[tokio::test]
async fn children_end_with_their_step() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let ends_by = async |reason: &str, rest: &str, wall: &str| {
        let command = format!("{STAY}\n{rest}");
        let limits = json!({"wall": wall, "output": "100k"});
        let task = web
            .run(&json!({"execute": {"command": command, "limits": limits}}))
            .await;
        let outcome = task["result"]["execute"].clone();
        assert_eq!(outcome["reason"], reason, "{outcome:#}");
        outcome
    };
    // A child that keeps stdout open does not delay the end.
    for (rest, reason) in [
        ("exit 0", "exited"),
        ("kill -KILL $$", "signalled"),
        ("yes", "output_limit"),
    ] {
        let mut shown = ends_by(reason, rest, "1m").await;
        let stdout = shown["stdout"].as_str().unwrap();
        shown["stdout"] = json!(stdout.split("y\n").next());
        assert_gone(&shown);
    }
    // A step that is ended before all children have started has not printed their pids, so it gets more time.
    let mut outcome = Value::Null;
    for wall in ["1s", "3s", "10s", "30s"] {
        outcome = ends_by("wall_limit", "sleep 600", wall).await;
        if outcome["stdout"] != "" {
            break;
        }
    }
    assert_gone(&outcome);
    // Children of the compile step are gone before the execute step begins.
    let task = web
        .run(&json!({
            "compile": {"command": STAY},
            "execute": {"command": "for pid in $(cat pids); do ! kill -0 $pid 2> /dev/null || echo $pid lives; done"},
        }))
        .await;
    assert_gone(&task["result"]["compile"]);
    assert_eq!(task["result"]["execute"]["stdout"], "", "{task:#}");
}

#[tokio::test]
async fn a_chain_of_daemonised_processes_ends() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    // Each process starts the next and exits.
    let step = "n=$1; echo $$; [ $n = 0 ] || { setsid sh -c \"$2\" sh $((n - 1)) \"$2\" & }; exec sleep 600";
    let command = format!(
        "sh -c '{step}' sh 60 '{step}' > pids & until [ \"$(wc -l < pids)\" = 61 ]; do sleep 0.02; done; cat pids"
    );
    let task = web.run(&json!({"execute": {"command": command}})).await;
    let stdout = task["result"]["execute"]["stdout"].as_str().unwrap();
    let left: Vec<i32> = stdout
        .lines()
        .map(|pid| pid.parse().expect("a pid"))
        .filter(|pid| is_alive(*pid))
        .collect();
    assert!(left.is_empty(), "{left:?} still live");
    assert_eq!(stdout.lines().count(), 61);
    assert_eq!(task["status"], "success");
}

#[tokio::test]
async fn a_cancel_ends_all_children() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let list = node.system.folder.path().join("list");
    let command = format!("{STAY}\ncp pids {}; sleep 600", list.display());
    let task = web
        .post("/api/v1/tasks", &json!({"execute": {"command": command}}))
        .await
        .json();
    let patience = Duration::from_secs(30);
    let listed = wait_until("the children to be there", patience, async || {
        let text = std::fs::read_to_string(&list).ok()?;
        (text.lines().count() == 5).then_some(text)
    })
    .await;
    let outcome = json!({"stdout": listed});
    assert!(pids(&outcome).into_iter().all(is_alive));
    let path = format!("/api/v1/tasks/{}", task["id"].as_str().unwrap());
    assert_eq!(web.delete(&path).await.status, 200);
    wait_until("the children to end", patience, async || {
        (!pids(&outcome).into_iter().any(is_alive)).then_some(())
    })
    .await;
}
