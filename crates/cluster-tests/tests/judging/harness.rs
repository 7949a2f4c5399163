//! A node that judges in cells, and judged tasks in JSON.

use std::time::{Duration, Instant};

use cluster_tests::{HttpResponse, NodeProcess, RawHttpClient, TestSystem, is_alive, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// On a busy machine a node may pause for seconds. With the default lease its tasks would run again, which other tests cover.
const LONG_LEASE_FLAGS: [&str; 4] = ["--set", "executor.self_kill=20s", "--set", "judicator.lease=30s"];
const STOPS: Duration = Duration::from_secs(20);
/// Long, because the machine may be busy with other tests.
const DONE: Duration = Duration::from_secs(180);

/// Writes its standard input to its standard output, so that a test chooses the output of each case.
pub(crate) const ECHO: [&str; 1] = ["/bin/cat"];

/// A running `conclave up` that judges in cells. It is stopped in order when it is dropped.
pub(crate) struct JudgingNode {
    pub(crate) up: NodeProcess,
    pub(crate) web: RawHttpClient,
    /// Dropped last, because the node uses the folder.
    pub(crate) system: TestSystem,
}

/// A judged task that is done, as JSON.
pub(crate) struct JudgedTask(pub(crate) Value);

impl JudgingNode {
    pub(crate) fn start() -> JudgingNode {
        JudgingNode::start_with(TestSystem::new().expect("a folder"), &[])
    }

    pub(crate) fn start_with(system: TestSystem, flags: &[&str]) -> JudgingNode {
        let cells = ["--isolation", "cell", "--slots", "2"];
        let flags = [&LONG_LEASE_FLAGS, &cells, flags].concat();
        let up = system.up(&flags).expect("conclave up serves");
        let web = RawHttpClient::new(&system.url(""));
        JudgingNode { up, web, system }
    }

    /// Adds the task, and waits until it is judged.
    pub(crate) async fn judge(&self, task: &Value) -> JudgedTask {
        let answer = self.web.post("/api/v1/tasks?wait=60", task).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        self.judged(answer.json()).await
    }

    /// Waits until this task is done.
    pub(crate) async fn judged(&self, mut task: Value) -> JudgedTask {
        let path = format!("/api/v1/tasks/{}?wait=60", task["id"].as_str().expect("an id"));
        let deadline = Instant::now() + DONE;
        while task["done"] != true {
            assert!(Instant::now() < deadline, "the task is not done: {task:#}");
            task = self.web.get(&path).await.json();
        }
        // A task that ends its warden or its executor runs again.
        assert_eq!(task["attempt"], 1, "{task:#}");
        JudgedTask(task)
    }

    /// The value of a counter in `/metrics`; 0 if there is none.
    pub(crate) async fn counter(&self, name: &str) -> u64 {
        let metrics = self.web.get("/metrics").await.text();
        let line = metrics
            .lines()
            .find(|line| line.split([' ', '{']).next() == Some(name));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        value.unwrap_or(0)
    }

    /// Asserts that nothing is left of any task, and that the node judges the next one.
    pub(crate) async fn assert_healthy(&self) {
        let task = self
            .judge(
                &json!({"execute": {"command": ECHO}, "cases": [{"name": "1", "input": "1", "answer": "1"}]}),
            )
            .await;
        assert_eq!(task.verdict(), "accepted", "{:#}", task.0);
        self.system.leftovers().wait_until_clean().await;
        wait_until("all slots of the executor to be free", STOPS, async || {
            let stats = self.web.get("/api/v1/stats").await.json();
            (stats["held"] == 0 && stats["executors"] == 1).then_some(())
        })
        .await;
    }

    /// Asserts that the task is refused with this field and these words.
    pub(crate) async fn assert_refused(&self, task: &Value, field: &str, words: &str) {
        let answer: HttpResponse = self.web.post("/api/v1/tasks", task).await;
        assert_eq!(answer.status, 422, "{task}: {}", answer.text());
        answer.assert_problem_at(422, field, words);
    }
}

impl Drop for JudgingNode {
    fn drop(&mut self) {
        if !is_alive(self.up.pid()) {
            return;
        }
        self.up.signal(Signal::SIGTERM);
        let deadline = Instant::now() + STOPS;
        while is_alive(self.up.pid()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl JudgedTask {
    pub(crate) fn verdict(&self) -> &str {
        self.0["result"]["verdict"].as_str().unwrap_or_default()
    }

    pub(crate) fn cases(&self) -> &[Value] {
        let cases = self.0["result"]["cases"].as_array();
        cases.unwrap_or_else(|| panic!("no cases in {:#}", self.0))
    }

    pub(crate) fn case(&self, name: &str) -> &Value {
        let case = self.cases().iter().find(|case| case["name"] == name);
        case.unwrap_or_else(|| panic!("no case '{name}' in {:#}", self.0))
    }

    /// The verdicts of all cases, in order.
    pub(crate) fn verdicts(&self) -> Vec<&str> {
        let verdicts = self.cases().iter().map(|case| case["verdict"].as_str());
        verdicts.map(Option::unwrap_or_default).collect()
    }

    /// The score, and the most that it could be.
    pub(crate) fn score(&self) -> (f64, f64) {
        let number = |name: &str| {
            let number = self.0["result"][name].as_f64();
            number.unwrap_or_else(|| panic!("no {name} in {:#}", self.0))
        };
        (number("score"), number("max_score"))
    }

    pub(crate) fn points(&self) -> Vec<f64> {
        let points = self.cases().iter().map(|case| case["points"].as_f64());
        points.map(|points| points.expect("points")).collect()
    }

    pub(crate) fn assert_status(&self, status: &str, verdict: &str) {
        let found = (&self.0["status"], self.verdict());
        assert_eq!(found, (&json!(status), verdict), "{:#}", self.0);
    }

    /// Asserts the verdict of each case by its name, in order.
    pub(crate) fn assert_cases(&self, expected: &[(&str, &str)]) {
        let cases = self.cases().iter();
        let found: Vec<_> = cases
            .map(|case| (text(&case["name"]), text(&case["verdict"])))
            .collect();
        assert_eq!(found, expected, "{:#}", self.0);
    }
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A case for each pair of input and answer, named by its place from 1.
pub(crate) fn numbered_cases(cases: &[(&str, &str)]) -> Value {
    let case = |(index, (input, answer)): (usize, &(&str, &str))| json!({"name": (index + 1).to_string(), "input": input, "answer": answer});
    cases.iter().enumerate().map(case).collect()
}
