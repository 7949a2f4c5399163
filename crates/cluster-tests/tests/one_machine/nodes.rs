//! Statistics, lists of nodes, metrics and health.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster_tests::wait_until;
use serde_json::json;

use crate::harness::SingleNode;

const TIMEOUT: Duration = Duration::from_secs(10);
const READY: Duration = Duration::from_secs(30);

#[tokio::test]
async fn stats_and_lists_of_nodes_are_correct() {
    let node = SingleNode::up(&["--slots", "3", "--name", "exec-1"]);
    let web = &node.web;
    node.system.ready(1).await;
    let gate = node.gate("gate");
    for command in ["true", "true", "false", "kill -9 $$"] {
        web.run(&json!({"execute": {"command": command}})).await;
    }
    let running = web
        .post(
            "/api/v1/tasks?wait=0",
            &json!({"execute": {"command": gate.wait()}}),
        )
        .await;
    let running = running.json();
    let events = node
        .system
        .client
        .events(running["id"].as_str().unwrap().parse().unwrap());
    let mut events = events.await.unwrap();
    use futures::StreamExt;
    while events.next().await.unwrap().unwrap().status != model::TaskStatus::Running {}

    let stats = web.get("/api/v1/stats").await.json();
    assert_eq!(
        stats["counts"],
        json!({
            "pending": 0, "compiling": 0, "running": 1, "retrying": 0, "success": 2,
            "compile_failed": 0, "run_failed": 2, "cancelled": 0, "system_error": 0,
        })
    );
    assert_eq!(
        (&stats["executors"], &stats["slots"], &stats["held"]),
        (&json!(1), &json!(3), &json!(1))
    );
    assert!(stats["tasks_per_second"].as_f64().unwrap() > 0.0, "{stats}");
    assert!(stats["window_seconds"].as_f64().unwrap() > 0.0, "{stats}");

    let executors = web.get("/api/v1/executors").await.json()["executors"].clone();
    assert_eq!(executors.as_array().unwrap().len(), 1);
    let executor = &executors[0];
    for (name, expected) in [
        ("name", json!("exec-1")),
        ("health", json!("alive")),
        ("slots", json!(3)),
        ("tasks", json!(1)),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
    ] {
        assert_eq!(executor[name], expected, "{executor}");
    }
    for name in ["session", "host", "since", "report_time"] {
        assert!(!executor[name].as_str().unwrap().is_empty(), "{executor}");
    }
    let task = web
        .get(&format!("/api/v1/tasks/{}", running["id"].as_str().unwrap()))
        .await
        .json();
    assert_eq!(task["executor"], executor["name"]);

    let judicators = web.get("/api/v1/judicators").await.json()["judicators"].clone();
    assert_eq!(judicators.as_array().unwrap().len(), 1);
    let judicator = &judicators[0];
    assert_eq!(
        (&judicator["leader"], &judicator["store"]),
        (&json!(true), &json!("sqlite"))
    );
    assert_eq!(judicator["address"], node.up.address("rpc"));
    assert!(
        judicator["name"].is_string() && judicator["since"].is_string(),
        "{judicator}"
    );
    gate.open();
}

/// Parses a Prometheus page: samples by name and labels. Panics at an invalid line.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    for line in page
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (name, value) = line
            .rsplit_once(' ')
            .unwrap_or_else(|| panic!("no sample: {line}"));
        let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        assert!(
            samples.insert(name.to_string(), value).is_none(),
            "{name} comes twice"
        );
    }
    samples
}

#[tokio::test]
async fn metrics_count_events() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    for command in ["true", "true", "false"] {
        web.run(&json!({"execute": {"command": command}})).await;
    }
    let batch = json!({"tasks": [{"execute": {"command": "true"}}, {"execute": {"command": "true"}}]});
    let added = web.post("/api/v1/tasks/batch", &batch).await.json();
    for task in added["tasks"].as_array().unwrap() {
        let id = task["id"].as_str().unwrap();
        web.get(&format!("/api/v1/tasks/{id}?wait=60")).await;
    }
    web.get("/api/v1/tasks/no-id").await.assert_problem(422);
    web.get("/no/such/page").await.assert_problem(404);
    let expected = [
        ("conclave_adds_total", 5.0),
        ("conclave_claims_total", 5.0),
        ("conclave_finishes_total{status=\"success\"}", 4.0),
        ("conclave_finishes_total{status=\"run_failed\"}", 1.0),
        ("conclave_tasks{status=\"success\"}", 4.0),
        ("conclave_tasks{status=\"run_failed\"}", 1.0),
        ("conclave_tasks{status=\"pending\"}", 0.0),
        ("conclave_tasks{status=\"running\"}", 0.0),
        ("conclave_task_queue_seconds_count", 5.0),
        ("conclave_task_run_seconds_count", 5.0),
        (
            "conclave_http_requests_total{route=\"/api/v1/tasks\",method=\"POST\",status=\"201\"}",
            3.0,
        ),
        (
            "conclave_http_requests_total{route=\"/api/v1/tasks/{id}\",method=\"GET\",status=\"200\"}",
            2.0,
        ),
        (
            "conclave_http_requests_total{route=\"/api/v1/tasks/{id}\",method=\"GET\",status=\"422\"}",
            1.0,
        ),
        (
            "conclave_http_requests_total{route=\"unknown\",method=\"GET\",status=\"404\"}",
            1.0,
        ),
    ];
    // The end of a task is counted shortly after its waiters are answered.
    let deadline = Instant::now() + TIMEOUT;
    let page = wait_until("a page of metrics", 2 * TIMEOUT, async || {
        let answer = web.get("/metrics").await;
        assert!(answer.header("content-type").starts_with("text/plain"));
        let page = answer.text();
        let samples = samples(&page);
        let is_complete = expected
            .iter()
            .all(|(name, value)| samples.get(*name) == Some(value));
        (is_complete || Instant::now() > deadline).then_some(page)
    })
    .await;
    let samples = samples(&page);
    let sample = |name: &str| {
        *samples
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in\n{page}"))
    };
    for (name, value) in expected {
        assert_eq!(sample(name), value, "{name}");
    }
    assert!(sample("conclave_report_seconds_count") >= 1.0);
    for histogram in [
        "conclave_task_queue_seconds",
        "conclave_task_run_seconds",
        "conclave_report_seconds",
    ] {
        let all = sample(&format!("{histogram}_bucket{{le=\"+Inf\"}}"));
        assert_eq!(all, sample(&format!("{histogram}_count")), "{histogram}");
    }
    // A label for each task would be unbounded.
    let id = added["tasks"][0]["id"].as_str().unwrap();
    assert!(!page.contains(id), "{page}");
    for name in samples.keys() {
        let family = name.split(['{', ' ']).next().unwrap();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .fold(family, |family, end| family.strip_suffix(end).unwrap_or(family));
        assert!(page.contains(&format!("# TYPE {family} ")), "no type of {family}");
        assert!(page.contains(&format!("# HELP {family} ")), "no help on {family}");
    }
}

#[tokio::test]
async fn health_endpoints_answer() {
    let node = SingleNode::up(&[]);
    for path in ["/healthz", "/readyz"] {
        let answer = wait_until(&format!("200 from {path}"), READY, async || {
            let answer = node.web.get(path).await;
            (answer.status == 200).then_some(answer)
        })
        .await;
        assert!(!answer.body.is_empty());
    }
    // A gateway without a judicator is alive, but not ready.
    let alone = cluster_tests::TestSystem::new().unwrap();
    let judicator = node.up.address("rpc");
    let data = alone.data();
    let args = [
        "gateway",
        "--listen",
        alone.http(),
        "--judicator",
        &judicator,
        "--data",
        data.to_str().unwrap(),
    ];
    let gateway = cluster_tests::NodeProcess::start("gateway", alone.folder.path(), &args).unwrap();
    let web = cluster_tests::RawHttpClient::new(&alone.url(""));
    wait_until("the gateway to be ready", READY, async || {
        (web.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    let SingleNode { up, .. } = node;
    up.kill();
    assert_eq!(web.get("/healthz").await.status, 200);
    for path in ["/readyz", "/api/v1/stats", "/api/v1/tasks"] {
        let answer = web.get(path).await;
        answer.assert_problem(503);
        assert!(answer.header("retry-after").parse::<u32>().is_ok());
    }
    assert!(
        web.get("/metrics")
            .await
            .text()
            .contains("conclave_http_requests_total")
    );
    let page = web.get("/").await;
    assert_eq!(page.status, 503);
    assert!(
        page.header("content-type").starts_with("text/html"),
        "{}",
        page.text()
    );
    drop(gateway);
}
