//! A contest's worth of judged tasks, while executors are killed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use api::NewTask;
use cluster_tests::{
    ClusterProcess, ETCD, FormationMethod, GatewayClients, TestCluster, TestSystem, wait_until,
};
use model::TaskId;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const SUBMISSIONS: usize = 200;
const CASES: usize = 20;
const BATCH: usize = 50;
const SOON: Duration = Duration::from_secs(90);
const JUDGED: Duration = Duration::from_secs(240);

/// Programs that add two numbers, right or wrong in their own way. The first number is that of the case.
const PROGRAMS: [&str; 8] = [
    "read a b; echo $((a + b))",
    "read a b; [ $a = 13 ] && b=0; echo $((a + b))",
    "read a b; [ $a = 7 ] && exit 3; echo $((a + b))",
    "read a b",
    "read a b; while [ $a = 5 ]; do :; done; echo $((a + b))",
    "read a b; [ $a = 19 ] && kill -9 $$; echo $((a + b))",
    "read a b; while [ $a = 11 ]; do echo $a; done; echo $((a + b))",
    "read a b; if; then echo $((a + b))",
];

/// As `tokens`, by a program.
const CHECKER: &str = "read sum; read expected < $2; echo $sum > $3/judgemessage.txt; [ \"$sum\" = \"$expected\" ] && exit 42; exit 43";

/// What a judged task says, without times and places.
#[derive(Debug, PartialEq)]
struct Judged {
    status: Value,
    verdict: Value,
    score: Value,
    cases: Vec<(Value, Value, Value)>,
}

impl Judged {
    fn of(task: &api::Task) -> Judged {
        let task = serde_json::to_value(task).unwrap();
        let result = &task["result"];
        let cases = result["cases"]
            .as_array()
            .unwrap_or_else(|| panic!("no cases: {task:#}"));
        let judged = |case: &Value| {
            (
                case["name"].clone(),
                case["verdict"].clone(),
                case["check"]["exit_code"].clone(),
            )
        };
        Judged {
            status: task["status"].clone(),
            verdict: result["verdict"].clone(),
            score: result["score"].clone(),
            cases: cases.iter().map(judged).collect(),
        }
    }
}

/// Submission number `number`; every one with the same remainder is judged alike.
fn submission(number: usize) -> NewTask {
    let case = |a: usize| {
        let group = if a.is_multiple_of(2) { "even" } else { "odd" };
        json!({"name": a.to_string(), "input": format!("{a} 30\n"), "answer": format!("{}\n", a + 30), "points": a, "group": group})
    };
    let variants = PROGRAMS.len();
    let mut task = json!({
        "id": uuid::Uuid::now_v7().to_string(),
        "user": "ada",
        "group": "contest",
        "source": {"main.sh": PROGRAMS[number % variants]},
        "compile": {"command": "sh -n main.sh"},
        "execute": {"command": ["/bin/sh", "main.sh"], "limits": {"cpu": "300ms", "output": "16KiB"}},
        "cases": (1..=CASES).map(case).collect::<Value>(),
        "groups": {"odd": {"score": "pass_all"}},
        "stop": if (number / variants).is_multiple_of(2) { "never" } else { "first_failure" },
    });
    if number / variants % 5 == 4 {
        task["check"] = json!({
            "kind": "program", "protocol": "icpc", "source": {"check.sh": CHECKER},
            "command": ["/bin/sh", "check.sh"],
        });
    }
    serde_json::from_value(task).unwrap()
}

/// How many different submissions there are.
const KINDS: usize = PROGRAMS.len() * 2 * 5;

/// The judgement of each kind, on one machine.
async fn judge_on_one_machine() -> Vec<Judged> {
    let system = TestSystem::new().unwrap();
    let _up = system.up(&["--isolation", "cell", "--slots", "2"]).unwrap();
    let kinds: Vec<_> = (0..KINDS).map(submission).collect();
    let ids: Vec<_> = kinds.iter().map(|task| task.id.unwrap()).collect();
    system.client.add_many(kinds).await.unwrap();
    let mut judged = Vec::new();
    for id in ids {
        judged.push(Judged::of(&system.done(id).await));
    }
    judged
}

async fn done(gateways: &GatewayClients) -> u64 {
    let stats = gateways.stats().await;
    let of = |status: &str| stats.counts.get(status).copied().unwrap_or(0);
    of("success") + of("run_failed") + of("compile_failed") + of("system_error")
}

async fn wait_for_done(gateways: &GatewayClients, count: u64) {
    wait_until(&format!("{count} tasks to be judged"), JUDGED, async || {
        (done(gateways).await >= count).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contest_is_judged_alike_while_executors_are_killed() {
    let begun = Instant::now();
    let expected = judge_on_one_machine().await;
    println!("{KINDS} submissions on one machine after {:?}", begun.elapsed());

    let mut cluster = TestCluster::new();
    cluster.form(FormationMethod::Members, 3);
    let etcd = cluster.node("j1").address_of(ETCD);
    for name in ["e1", "e2", "e3"] {
        cluster.add_executor_by(name, &["--join", &etcd, "--isolation", "cell"]);
    }
    cluster.add_gateway("g1");
    cluster.wait_until_complete(3).await;
    cluster.wait_for_executors(3).await;
    println!("the cluster has formed after {:?}", begun.elapsed());

    let gateways = cluster.gateways();
    let tasks: Vec<_> = (0..SUBMISSIONS).map(submission).collect();
    let kinds: HashMap<TaskId, usize> = tasks
        .iter()
        .enumerate()
        .map(|(number, task)| (task.id.unwrap(), number % KINDS))
        .collect();
    for batch in tasks.chunks(BATCH) {
        wait_until("the tasks to be added", SOON, async || {
            let answer = gateways.call(async |client| client.add_many(batch.to_vec()).await);
            answer.await?.ok()
        })
        .await;
    }
    // One executor that boot starts again, and a machine that is gone for good.
    wait_for_done(&gateways, SUBMISSIONS as u64 / 4).await;
    let process = ClusterProcess::Service("executor");
    cluster.node_mut("e1").signal(process, Signal::SIGKILL).await;
    println!("the executor of e1 is killed after {:?}", begun.elapsed());
    wait_for_done(&gateways, SUBMISSIONS as u64 / 2).await;
    cluster.node_mut("e2").kill_all();
    println!("e2 is gone after {:?}", begun.elapsed());

    let mut repeated = 0;
    for (id, kind) in kinds {
        let task = gateways.done(id).await;
        repeated += usize::from(task.attempt > 1);
        assert_eq!(
            Judged::of(&task),
            expected[kind],
            "kind {kind}, attempt {}",
            task.attempt
        );
    }
    println!(
        "all is judged after {:?}, {repeated} in more than one attempt",
        begun.elapsed()
    );
    assert!(repeated > 0, "no task was running when its executor was killed");
    for name in ["e1", "e3"] {
        cluster.node(name).leftovers().wait_until_clean().await;
    }
}
