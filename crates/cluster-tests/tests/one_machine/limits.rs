//! Every limit ends what exceeds it, and is told as the reason.

use cluster_tests::Web;
use serde_json::{Value, json};

use crate::stage::Stage;

async fn execute(web: &Web, command: &str, limits: Value) -> Value {
    let task = web
        .run(&json!({"execute": {"command": command, "limits": limits}}))
        .await;
    let outcome = task["result"]["execute"].clone();
    let expected = match outcome["reason"] == "exited" && outcome["exit_code"] == 0 {
        true => "success",
        false => "run_failed",
    };
    assert_eq!(task["status"], expected, "{task:#}");
    outcome
}

/// Without the limit none of these would end before the test does.
async fn ends_by(web: &Web, reason: &str, command: &str, limits: Value) -> Value {
    let outcome = execute(web, command, limits).await;
    assert_eq!(outcome["reason"], reason, "{command}: {outcome:#}");
    assert_eq!(outcome["exit_code"], Value::Null, "{command}: {outcome:#}");
    // Where nobody had the time to look, it is the kernel that ends whoever computes on, by SIGXCPU.
    let signals = match reason {
        "time_limit" => &[9, 24][..],
        _ => &[9],
    };
    let signal = outcome["signal"].as_i64().expect("a signal");
    assert!(signals.contains(&signal), "{command}: {outcome:#}");
    outcome
}

/// One child after the other, until they have used half a second; each of them is gone by then.
const SPENT: &str = r#"python3 -c '
import os, resource, time
while resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime < 0.5:
    if os.fork() == 0:
        sum(range(300000))
        os._exit(0)
    os.wait()
time.sleep(600)'"#;

#[tokio::test]
async fn time_on_the_clock_and_on_the_cpu() {
    let stage = Stage::up(&[]);
    let web = &stage.web;
    // On a busy machine even a word takes its time.
    let mut said = Value::Null;
    for millis in [300, 1_000, 3_000, 10_000] {
        let limits = json!({"wall": format!("{millis}ms")});
        let outcome = ends_by(web, "wall_limit", "echo before; sleep 600", limits).await;
        let wall = outcome["wall_seconds"].as_f64().unwrap();
        assert!(wall >= f64::from(millis) / 1e3, "{outcome:#}");
        said = outcome["stdout"].clone();
        if said != "" {
            break;
        }
    }
    assert_eq!(said, "before\n");
    // Nobody talks their way out of it.
    ends_by(
        web,
        "wall_limit",
        "trap '' TERM INT HUP XCPU; while :; do sleep 1; done",
        json!({"wall": 0.3}),
    )
    .await;
    ends_by(web, "wall_limit", "kill -STOP $$", json!({"wall": 0.3})).await;

    let spin = "while :; do :; done";
    for command in [
        spin.to_string(),
        // Several at once, each below the limit for itself.
        format!("({spin}) & ({spin}) & ({spin}) & wait"),
        // One after the other, each over before anyone looks.
        "while :; do /bin/true; done".to_string(),
        // What a child used counts when it is gone.
        SPENT.to_string(),
        format!("trap '' XCPU; {spin}"),
    ] {
        let outcome = ends_by(web, "time_limit", &command, json!({"cpu": "400ms", "wall": "1m"})).await;
        assert!(
            outcome["cpu_seconds"].as_f64().unwrap() > 0.4,
            "{command}: {outcome:#}"
        );
    }
    // Sleeping costs no CPU time.
    let outcome = execute(web, "sleep 0.5", json!({"cpu": "400ms"})).await;
    assert_eq!(outcome["reason"], "exited", "{outcome:#}");
}

#[tokio::test]
async fn memory_of_all_processes_together() {
    let stage = Stage::up(&[]);
    let web = &stage.web;
    let fill = |mib: u32| format!("x=$(head -c {mib}M /dev/zero | tr '\\0' x)");
    let limits = json!({"memory": "96MiB", "wall": "1m"});
    let one = ends_by(
        web,
        "memory_limit",
        &format!("{}; sleep 600", fill(300)),
        limits.clone(),
    )
    .await;
    assert!(one["memory_bytes"].as_u64().unwrap() > 96 << 20, "{one:#}");
    // None of the four would be too large alone.
    let four = format!("for i in 1 2 3 4; do ({}; sleep 600) & done; wait", fill(40));
    ends_by(web, "memory_limit", &four, limits.clone()).await;
    let fits = execute(web, &format!("{}; echo ${{#x}}", fill(20)), limits).await;
    assert_eq!(
        (&fits["reason"], &fits["stdout"]),
        (&json!("exited"), &json!("20971520\n"))
    );
}

#[tokio::test]
async fn output_and_processes() {
    let stage = Stage::up(&[]);
    let web = &stage.web;
    for flood in [
        "yes",
        "yes >&2",
        "while :; do echo x; done",
        "yes & yes >&2 & wait",
    ] {
        let outcome = ends_by(
            web,
            "output_limit",
            flood,
            json!({"output": "64KiB", "wall": "1m"}),
        )
        .await;
        let kept = |stream: &str| outcome[stream].as_str().unwrap().len();
        assert_eq!(kept("stdout").max(kept("stderr")), 64 << 10, "{flood}");
        assert!(
            outcome["stdout_truncated"] == true || outcome["stderr_truncated"] == true,
            "{flood}"
        );
    }
    let limits = json!({"processes": 8, "wall": "1m"});
    let many = "for i in $(seq 40); do sleep 600 & done; wait";
    ends_by(web, "process_limit", many, limits.clone()).await;
    // Threads are as good as processes.
    let threads = "python3 -c 'import threading, time; [threading.Thread(target=time.sleep, args=[600]).start() for _ in range(40)]'";
    ends_by(web, "process_limit", threads, limits.clone()).await;
    // One after the other is not at one time.
    let outcome = execute(web, "for i in $(seq 40); do /bin/true; done; echo ok", limits).await;
    assert_eq!(
        (&outcome["reason"], &outcome["stdout"]),
        (&json!("exited"), &json!("ok\n"))
    );
}

#[tokio::test]
async fn files_and_stack() {
    let stage = Stage::up(&[]);
    let web = &stage.web;
    // The kernel tells the one who writes too much by SIGXFSZ.
    let write = "exec python3 -c 'import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL); \
                 open(\"f\", \"wb\").write(bytes(1 << 20))'";
    let outcome = execute(web, write, json!({"file_size": "64KiB"})).await;
    assert_eq!(
        (&outcome["reason"], &outcome["signal"]),
        (&json!("output_limit"), &json!(25)),
        "{outcome:#}"
    );
    let outcome = execute(web, write, json!({"file_size": "1MiB"})).await;
    assert_eq!(outcome["reason"], "exited", "{outcome:#}");

    let outcome = execute(
        web,
        "ulimit -n; ulimit -s",
        json!({"open_files": 77, "stack": "1MiB"}),
    )
    .await;
    assert_eq!(outcome["stdout"], "77\n1024\n");
    let recurse = "f() { f; }; f";
    let outcome = execute(web, recurse, json!({"stack": "256KiB", "wall": "1m"})).await;
    assert_eq!(
        (&outcome["reason"], &outcome["signal"]),
        (&json!("signalled"), &json!(11)),
        "{outcome:#}"
    );
    // The least that may be asked for lets a program start.
    let outcome = execute(web, "echo ok", json!({"open_files": 4, "stack": "64KiB"})).await;
    assert_eq!(outcome["stdout"], "ok\n", "{outcome:#}");
}

#[tokio::test]
async fn the_operator_has_the_last_word() {
    let stage = Stage::up(&[
        "--set",
        "limits.default.wall=500ms",
        "--set",
        "limits.default.output=10",
        "--set",
        "limits.max.wall=1m",
        "--set",
        "limits.max.memory=1GiB",
        "--set",
        "limits.max.processes=100",
        "--set",
        "limits.max.file_size=1MiB",
        "--set",
        "limits.default.open_files=64",
        "--set",
        "limits.max.open_files=128",
        "--set",
        "limits.max.stack=16MiB",
        "--set",
        "limits.default.space=8MiB",
        "--set",
        "limits.max.space=32MiB",
    ]);
    let web = &stage.web;
    let task = web.run(&json!({"execute": {"command": "sleep 600"}})).await;
    assert_eq!(task["result"]["execute"]["reason"], "wall_limit");
    // What is not asked for gets the default; where there is none, the most that may be asked for.
    assert_eq!(
        task["execute"]["limits"],
        json!({
            "wall": 0.5, "cpu": null, "memory": 1 << 30, "output": 10, "processes": 100,
            "file_size": 1 << 20, "open_files": 64, "stack": 16 << 20, "space": 8 << 20,
        })
    );
    ends_by(web, "output_limit", "yes", json!({"wall": "1m"})).await;
    for (limits, field, limit, actual) in [
        (json!({"wall": "2m"}), "wall", "60s", "120s"),
        (
            json!({"memory": "2GiB"}),
            "memory",
            "1073741824 bytes",
            "2147483648 bytes",
        ),
        (json!({"processes": 101}), "processes", "100", "101"),
        (
            json!({"file_size": "2MiB"}),
            "file_size",
            "1048576 bytes",
            "2097152 bytes",
        ),
        (json!({"open_files": 129}), "open_files", "128", "129"),
        (
            json!({"stack": "17MiB"}),
            "stack",
            "16777216 bytes",
            "17825792 bytes",
        ),
        (
            json!({"space": "33MiB"}),
            "space",
            "33554432 bytes",
            "34603008 bytes",
        ),
    ] {
        for (step, task) in [
            (
                "execute",
                json!({"execute": {"command": "true", "limits": limits}}),
            ),
            (
                "compile",
                json!({"compile": {"command": "true", "limits": limits}, "execute": {"command": "true"}}),
            ),
        ] {
            let problem = web.post("/api/v1/tasks", &task).await.problem(422);
            assert_eq!(problem["field"], format!("{step}.limits.{field}"));
            assert_eq!(
                (&problem["limit"], &problem["actual"]),
                (&json!(limit), &json!(actual))
            );
        }
    }
}

/// Takes back what it has written, a moment before its warden reads it. Once that waits for what is not there any more,
/// nothing is written again.
const THIEF: &str = r#"
import os, random, signal
thief = os.open('/proc/self/fd/1', os.O_RDONLY | os.O_NONBLOCK)
def reads():
    # The numbers of read on the two kinds of machines.
    return open(f'/proc/{os.getppid()}/syscall').read().split()[0] in ('0', '63')
while True:
    os.write(1, b'x')
    for _ in range(random.randrange(4000)): pass
    try:
        os.read(thief, 1)
    except BlockingIOError:
        continue
    if all(reads() for _ in range(100)):
        signal.pause()
"#;

#[tokio::test]
async fn a_warden_that_is_robbed_of_the_output_keeps_the_limits() {
    let stage = Stage::up(&[]);
    let task = json!({
        "source": {"main.py": THIEF},
        "execute": {"command": ["python3", "-S", "main.py"], "limits": {"wall": "5s"}},
    });
    let task = stage.web.run(&task).await;
    assert_eq!(task["result"]["execute"]["reason"], "wall_limit", "{task:#}");
}
