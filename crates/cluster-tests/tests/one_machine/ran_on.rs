//! Where and how each attempt of a task ran, the limits that applied, and the attempts that a task may use.

use std::time::Duration;

use cluster_tests::{NodeProcess, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::SingleNode;
use crate::system_call_fault::SystemCallFault;

const TIMEOUT: Duration = Duration::from_secs(60);

async fn add(node: &SingleNode, task: &Value) -> String {
    let answer = node.web.post("/api/v1/tasks", task).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().expect("an id").to_string()
}

async fn get(node: &SingleNode, id: &str) -> Value {
    node.web.get(&format!("/api/v1/tasks/{id}")).await.json()
}

async fn runs(node: &SingleNode, id: &str, attempt: u64) -> Value {
    wait_until(&format!("attempt {attempt} to run"), TIMEOUT, async || {
        let task = get(node, id).await;
        (task["status"] == "running" && task["attempt"] == attempt).then_some(task)
    })
    .await
}

/// How each attempt ended. Asserts that they are numbered and their times are in order.
fn ends(task: &Value) -> Vec<Value> {
    let attempts = task["ran_on"].as_array();
    let attempts = attempts.unwrap_or_else(|| panic!("no ran_on in {task:#}"));
    let mut last = task["add_time"].as_str().expect("a time").to_string();
    let mut number = 0;
    for attempt in attempts {
        let next = attempt["attempt"].as_u64().expect("a number");
        assert!(next > number, "{task:#}");
        number = next;
        for time in ["start_time", "end_time"] {
            if let Some(time) = attempt[time].as_str() {
                assert!(last.as_str() <= time, "{task:#}");
                last = time.to_string();
            }
        }
        assert_eq!(
            attempt["end"].is_null(),
            attempt["end_time"].is_null(),
            "{task:#}"
        );
    }
    attempts.iter().map(|attempt| attempt["end"].clone()).collect()
}

async fn stop(node: SingleNode) -> cluster_tests::TestSystem {
    let SingleNode { mut up, system, .. } = node;
    up.signal(Signal::SIGTERM);
    let end: &mut NodeProcess = &mut up;
    assert!(end.wait_for_end(TIMEOUT).await.success());
    system
}

#[tokio::test]
async fn a_finished_task_shows_where_it_ran() {
    let node = SingleNode::up(&["--name", "solo", "--slots", "1"]);
    let gate = node.gate("gate");
    let id = add(&node, &json!({"execute": {"command": gate.wait()}})).await;
    let pending = add(&node, &json!({"execute": {"command": "true"}})).await;
    let running = runs(&node, &id, 1).await;
    assert_eq!(running["executor"], "solo");
    let attempt = &running["ran_on"][0];
    assert_eq!(
        (
            &attempt["executor"],
            &attempt["attempt"],
            &attempt["end_time"],
            &attempt["end"]
        ),
        (&json!("solo"), &json!(1), &Value::Null, &Value::Null),
        "{running:#}"
    );
    assert_eq!(ends(&running), [Value::Null]);
    assert_eq!(get(&node, &pending).await["ran_on"], json!([]));
    gate.open();
    let done = node.web.get(&format!("/api/v1/tasks/{id}?wait=60")).await.json();
    assert_eq!(
        (&done["executor"], ends(&done)),
        (&Value::Null, vec![json!("finished")])
    );
    assert_eq!(done["ran_on"][0]["executor"], "solo");
    assert_eq!(done["ran_on"][0]["start_time"], attempt["start_time"]);
    // A failure of the program is not one of the attempt.
    let failed = node.web.run(&json!({"execute": {"command": "false"}})).await;
    assert_eq!(ends(&failed), ["finished"]);
    let failed = json!({"compile": {"command": "false"}, "execute": {"command": "true"}});
    assert_eq!(ends(&node.web.run(&failed).await), ["finished"]);
}

#[tokio::test]
async fn attempts_that_are_cancelled_given_back_or_killed_are_shown() {
    let flags = [
        "--name",
        "solo",
        "--slots",
        "1",
        "--set",
        "executor.stop_grace=100ms",
    ];
    let node = SingleNode::up(&flags);
    let gate = node.gate("gate");
    let cancelled = add(&node, &json!({"execute": {"command": "sleep 600"}})).await;
    runs(&node, &cancelled, 1).await;
    node.web.delete(&format!("/api/v1/tasks/{cancelled}")).await;
    assert_eq!(ends(&get(&node, &cancelled).await), ["cancelled"]);
    // One that never began has no attempt.
    let never = add(&node, &json!({"execute": {"command": gate.wait()}})).await;
    let queued = add(&node, &json!({"execute": {"command": "true"}})).await;
    runs(&node, &never, 1).await;
    node.web.delete(&format!("/api/v1/tasks/{queued}")).await;
    assert_eq!(get(&node, &queued).await["ran_on"], json!([]));

    let node = SingleNode::on(stop(node).await, &flags);
    let task = runs(&node, &never, 2).await;
    assert_eq!(ends(&task), [json!("given_back"), Value::Null]);
    // The node is killed with its executor: the next session reports that the attempt was lost.
    let node = node.again(&flags);
    let task = runs(&node, &never, 3).await;
    assert_eq!(ends(&task), [json!("given_back"), json!("lost"), Value::Null]);
    gate.open();
    let done = node
        .web
        .get(&format!("/api/v1/tasks/{never}?wait=60"))
        .await
        .json();
    assert_eq!(ends(&done), ["given_back", "lost", "finished"]);
}

/// Kills the node while the task runs, so often, and returns the task when it is done.
async fn killed(attempts: Value, kills: u64) -> Value {
    let flags = ["--name", "solo", "--slots", "1"];
    let mut node = SingleNode::up(&flags);
    let gate = node.gate("gate");
    let mut task = json!({"execute": {"command": gate.wait()}});
    if !attempts.is_null() {
        task["attempts"] = attempts;
    }
    let id = add(&node, &task).await;
    for kill in 1..=kills {
        runs(&node, &id, kill).await;
        node = node.again(&flags);
    }
    gate.open();
    let done = node.web.get(&format!("/api/v1/tasks/{id}?wait=60")).await.json();
    assert_eq!(done["done"], true, "{done:#}");
    done
}

#[tokio::test]
async fn a_task_outlives_as_many_kills_as_it_asks_for() {
    let survivor = killed(json!(5), 4).await;
    assert_eq!(
        (&survivor["status"], &survivor["attempts"]),
        (&json!("success"), &json!(5))
    );
    assert_eq!(ends(&survivor), ["lost", "lost", "lost", "lost", "finished"]);
    let fragile = killed(json!(1), 1).await;
    assert_eq!(
        (&fragile["status"], ends(&fragile)),
        (&json!("system_error"), vec![json!("lost")])
    );
    // The operator's default is stored with the task.
    let usual = killed(Value::Null, 3).await;
    assert_eq!(
        (&usual["status"], &usual["attempts"]),
        (&json!("system_error"), &json!(3))
    );
    assert_eq!(ends(&usual), ["lost"; 3]);
}

/// The executor records an attempt on its disk for its next session. That takes long here.
#[tokio::test]
async fn an_attempt_is_recorded_before_it_is_reported_as_running() {
    let flags = ["--name", "solo", "--slots", "1"];
    let node = SingleNode::up(&flags);
    // Before that the executor may not have created the file, whose path strace looks for.
    node.web.run(&json!({"execute": {"command": "true"}})).await;
    let record = node.system.data().join("executor/work/0/attempt");
    assert!(record.exists(), "{record:?}");
    let pid = node.up.pid().to_string();
    let fault = SystemCallFault::inject("pwrite64:delay_enter=2000000", Some(&record), &[pid]);
    let gate = node.gate("gate");
    let id = add(&node, &json!({"execute": {"command": gate.wait()}})).await;
    runs(&node, &id, 1).await;
    let node = node.again(&flags);
    drop(fault);
    gate.open();
    let done = node.web.get(&format!("/api/v1/tasks/{id}?wait=60")).await.json();
    assert_eq!(ends(&done), ["lost", "finished"], "{done:#}");
}

#[tokio::test]
async fn the_newest_twenty_attempts_are_shown() {
    let task = killed(json!(100), 22).await;
    assert_eq!(
        (&task["status"], &task["attempt"]),
        (&json!("success"), &json!(23))
    );
    let attempts = task["ran_on"].as_array().expect("attempts");
    let numbers: Vec<_> = attempts
        .iter()
        .map(|attempt| attempt["attempt"].as_u64())
        .collect();
    assert_eq!(numbers, (4..=23).map(Some).collect::<Vec<_>>());
    assert_eq!(ends(&task).last(), Some(&json!("finished")));
}

#[tokio::test]
async fn attempts_are_bounded_by_the_operator() {
    let node = SingleNode::up(&[
        "--slots",
        "0",
        "--set",
        "judicator.max_attempts=10",
        "--set",
        "judicator.attempts=4",
    ]);
    for (attempts, words) in [(json!(11), "10"), (json!(0), "1")] {
        let task = json!({"attempts": attempts, "execute": {"command": "true"}});
        let answer = node.web.post("/api/v1/tasks", &task).await;
        answer.assert_problem_at(422, "attempts", words);
    }
    for attempts in [json!(-1), json!(1.5), json!("3"), json!(1_u64 << 40)] {
        let task = json!({"attempts": attempts, "execute": {"command": "true"}});
        node.web.post("/api/v1/tasks", &task).await.assert_problem(422);
    }
    for (attempts, expected) in [(json!(10), 10), (json!(1), 1), (Value::Null, 4)] {
        let task = json!({"attempts": attempts, "execute": {"command": "true"}});
        let id = add(&node, &task).await;
        assert_eq!(get(&node, &id).await["attempts"], expected);
    }
}

/// A task shows the limits with which it runs. A limit that does not exist is `none`, which a request accepts, too.
#[tokio::test]
async fn the_limits_that_apply_are_shown() {
    let flags = [
        "--isolation",
        "cell",
        "--set",
        "limits.default.wall=33s",
        "--set",
        "sandbox.memory=128MiB",
        "--set",
        "sandbox.processes=77",
        "--set",
        "sandbox.space=55MiB",
    ];
    let node = SingleNode::up(&flags);
    let task = json!({
        "compile": {"command": "true", "limits": {"wall": "11s"}},
        "execute": {"command": "true", "limits": {"processes": 5, "cpu": "none"}},
    });
    let task = node.web.run(&task).await;
    assert_eq!(task["status"], "success", "{task:#}");
    let (compile, execute) = (&task["compile"]["limits"], &task["execute"]["limits"]);
    assert_eq!((&compile["wall"], &execute["wall"]), (&json!(11), &json!(33)));
    assert_eq!(
        (&compile["processes"], &execute["processes"]),
        (&json!(77), &json!(5))
    );
    for limits in [compile, execute] {
        assert_eq!(limits["memory"], 128 << 20, "{limits}");
        assert_eq!(limits["space"], 55 << 20, "{limits}");
        assert_eq!(limits["cpu"], "none", "{limits}");
        let open_files = limits["open_files"].as_u64();
        assert!(open_files >= Some(16), "{limits}");
        for (name, limit) in limits.as_object().expect("limits") {
            assert!(!limit.is_null(), "{name} is null: {task:#}");
        }
    }
    // What is shown can be sent again.
    let again = json!({"compile": task["compile"], "execute": {"command": "true", "limits": execute}});
    let again = node.web.run(&again).await;
    assert_eq!(again["execute"]["limits"], *execute);
    assert_eq!(again["compile"]["limits"], *compile);
}
