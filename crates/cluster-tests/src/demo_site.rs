//! A node with something to see on every page: tasks of all outcomes, a group in progress, two executors.

mod judging;

use anyhow::Result;
use model::TaskId;
use serde_json::{Value, json};

use crate::{Browser, Gate, NodeProcess, RawHttpClient, TestSystem, wait_until};

/// A program whose output has colours, and which keeps a picture, a table, a log and a page.
const REPORT: &str = r#"
import struct, zlib, sys, time
for step in range(1, 6):
    print(f"\x1b[36mstep {step}\x1b[0m of 5: loss \x1b[1m{1 / step:.3f}\x1b[0m", flush=True)
print("\x1b[42;30m PASS \x1b[0m \x1b[32mall checks\x1b[0m  \x1b[38;5;208morange\x1b[0m \x1b[4munderlined\x1b[0m")
print("\x1b[33mwarning:\x1b[0m the last step was slow", file=sys.stderr)
width, height = 240, 120
def pixel(x, y):
    wave = abs((x * x // 97 + y * 3) % 120 - 60) * 4
    return bytes((wave, 255 - wave // 2, 160))
rows = b"".join(b"\0" + b"".join(pixel(x, y) for x in range(width)) for y in range(height))
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
with open("loss.png", "wb") as image:
    image.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
with open("loss.csv", "w") as table:
    table.write("epoch,loss,note\n")
    for epoch in range(1, 13):
        table.write(f'{epoch},{1 / epoch:.4f},"step {epoch}, of 12"\n')
open("notes.txt", "w").write("Trained for 12 epochs.\nThe last one was slow.\n")
"#;

const FIBONACCI: &str = "#include <iostream>\nint main() {\n    long a = 0, b = 1;\n    for (int i = 0; i < 50; i++) {\n        \
                         std::cout << a << '\\n';\n        long next = a + b;\n        a = b;\n        b = next;\n    }\n}\n";

/// The name of the group that is in progress.
pub const GROUP: &str = "sweep-17";

/// A running `conclave up` and a second executor, with tasks to look at.
pub struct DemoSite {
    pub web: RawHttpClient,
    pub ids: DemoTasks,
    gate: Gate,
    // Dropped before the folder that they use.
    _nodes: Vec<NodeProcess>,
    pub system: TestSystem,
}

/// The tasks that have pages of their own.
pub struct DemoTasks {
    pub report: TaskId,
    pub compile_failed: TaskId,
    pub exited: TaskId,
    pub time_limit: TaskId,
    pub running: TaskId,
    pub waiting: TaskId,
    /// A task with cases, of which some were not accepted.
    pub judged: TaskId,
}

impl DemoSite {
    /// Starts the nodes and waits until the tasks are as the pages should show them.
    pub async fn start() -> Result<DemoSite> {
        let system = TestSystem::new()?;
        let flags = [
            "--set",
            "executor.self_kill=20s",
            "--set",
            "judicator.lease=30s",
            "--judge-without-cells",
        ];
        let up = system.up(&[&flags[..], &["--slots", "3"]].concat())?;
        let second = system.executor("quiet-shelf", &[&flags[..], &["--slots", "2"]].concat())?;
        system.ready(2).await;
        let web = RawHttpClient::new(&system.url(""));
        let gate = system.gate("demo");
        judging::put_problem(&web).await;
        let ids = add_tasks(&system, &gate).await;
        let drained = json!({"reason": "its disk is replaced on Friday"});
        let answer = web.post("/api/v1/executors/quiet-shelf/drain", &drained).await;
        assert!(matches!(answer.status, 200 | 404), "{}", answer.text());
        Ok(DemoSite {
            web,
            ids,
            gate,
            _nodes: vec![up, second],
            system,
        })
    }

    /// Visits the site with a new browser.
    pub async fn visit(&self, story: impl AsyncFnOnce(&Browser)) {
        Browser::visit(&self.system.url(""), story).await;
    }

    /// Every page of the site: a short name and the path.
    pub fn pages(&self) -> Vec<(&'static str, String)> {
        let task = |id: TaskId| format!("/tasks/{id}");
        vec![
            ("run", "/run?language=python".to_string()),
            ("run-again", format!("/run?from={}", self.ids.report)),
            ("tasks", "/".to_string()),
            ("tasks-filtered", "/?user=ada&status=run_failed".to_string()),
            ("tasks-none", "/?user=nobody".to_string()),
            ("task", task(self.ids.report)),
            ("task-compile-failed", task(self.ids.compile_failed)),
            ("task-exited", task(self.ids.exited)),
            ("task-time-limit", task(self.ids.time_limit)),
            ("task-running", task(self.ids.running)),
            ("task-waiting", task(self.ids.waiting)),
            ("task-judged", task(self.ids.judged)),
            (
                "case-wrong",
                format!("/tasks/{}/cases/{}", self.ids.judged, judging::WRONG_CASE),
            ),
            ("run-judged", format!("/run?from={}", self.ids.judged)),
            ("problems", "/problems".to_string()),
            ("problem", format!("/problems/{}", judging::PROBLEM)),
            ("problem-case", format!("/problems/{}/cases/0", judging::PROBLEM)),
            (
                "results",
                format!("/groups/{}/results?user=ada", judging::HOMEWORK),
            ),
            ("groups", "/groups".to_string()),
            ("group", format!("/groups/{GROUP}?user=bob")),
            ("executors", "/executors".to_string()),
            ("executor", "/executors/quiet-shelf".to_string()),
            ("judicators", "/judicators".to_string()),
            ("overview", "/overview".to_string()),
            ("languages", "/languages".to_string()),
            ("api", "/api/docs".to_string()),
        ]
    }
}

impl Drop for DemoSite {
    fn drop(&mut self) {
        // The tasks that wait for it end by themselves.
        self.gate.open();
    }
}

async fn add_tasks(system: &TestSystem, gate: &Gate) -> DemoTasks {
    let sh = |command: &str| json!({"command": command});
    let report = json!({
        "user": "ada", "labels": {"experiment": "loss", "seed": "7"}, "language": "python", "source": {"main.py": REPORT},
        "execute": {"limits": {"wall": "30s", "memory": "256MiB"}}, "keep": ["*.png", "*.csv", "*.txt"],
    });
    let cpp =
        json!({"user": "bob", "language": "cpp", "source_code": FIBONACCI, "labels": {"assignment": "hw3"}});
    let broken = json!({"user": "bob", "language": "cpp", "source_code": "int main() { return missing; }\n",
                        "labels": {"assignment": "hw3"}});
    let failing =
        json!({"user": "ada", "language": "python", "source_code": "values = [1, 2]\nprint(values[2])\n"});
    let endless =
        json!({"user": "ada", "execute": {"command": "while :; do :; done", "limits": {"wall": "500ms"}}});
    let tree = json!({"user": "eve", "execute": sh("for i in $(seq 1 40); do echo line $i of the log; done; kill -9 $$")});
    let report = system.run(report).await.id;
    system.run(cpp).await;
    let compile_failed = system.run(broken).await.id;
    let exited = system.run(failing).await.id;
    let time_limit = system.run(endless).await.id;
    system.run(tree).await;
    let judged = judging::add_submissions(system).await;
    let in_group = |number: u32, command: &str| -> Value {
        json!({"user": "bob", "group": GROUP, "labels": {"number": number.to_string()}, "execute": {"command": command}})
    };
    for number in 1..=7 {
        system.run(in_group(number, "echo $((RANDOM % 100))")).await;
    }
    for number in 8..=9 {
        system
            .run(in_group(number, "echo 'no convergence' >&2; exit 4"))
            .await;
    }
    let following = format!("echo 'epoch 1: 0.91'; echo 'epoch 2: 0.84'; {}", gate.wait());
    let running = system.add(in_group(10, &following)).await.id;
    for number in 11..=16 {
        system.add(in_group(number, &gate.wait())).await;
    }
    let waiting = json!({"user": "ada", "root": "gpu-2027", "wait_for_executor": true, "execute": sh("train --epochs 50")});
    let waiting = system.add(waiting).await.id;
    wait_until("a task to run", crate::test_system::DONE, async || {
        let task = system.client.get(running, None).await.ok()?;
        (task.status == model::TaskStatus::Running).then_some(())
    })
    .await;
    DemoTasks {
        report,
        compile_failed,
        exited,
        time_limit,
        running,
        waiting,
        judged,
    }
}
