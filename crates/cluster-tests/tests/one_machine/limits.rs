//! Every limit ends the step that exceeds it, with that reason.

use cluster_tests::RawHttpClient;
use serde_json::{Value, json};

use crate::harness::SingleNode;

async fn execute(web: &RawHttpClient, command: &str, limits: Value) -> Value {
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

/// Asserts that the command ends by this reason. Without the limit none of the commands ends during the test.
async fn assert_reason(web: &RawHttpClient, reason: &str, command: &str, limits: Value) -> Value {
    let outcome = execute(web, command, limits).await;
    assert_eq!(outcome["reason"], reason, "{command}: {outcome:#}");
    assert_eq!(outcome["exit_code"], Value::Null, "{command}: {outcome:#}");
    // If the warden does not sample in time, the kernel ends the process by SIGXCPU.
    let signals = match reason {
        "time_limit" => &[9, 24][..],
        _ => &[9],
    };
    let signal = outcome["signal"].as_i64().expect("a signal");
    assert!(signals.contains(&signal), "{command}: {outcome:#}");
    outcome
}

/// Children that run one after another and use half a second in total.
const SPENT: &str = r#"python3 -c '
import os, resource, time
while resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime < 0.5:
    if os.fork() == 0:
        sum(range(300000))
        os._exit(0)
    os.wait()
time.sleep(600)'"#;

#[tokio::test]
async fn wall_and_cpu_time_are_limited() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    // On a busy machine even a short command takes a while.
    let mut said = Value::Null;
    for millis in [300, 1_000, 3_000, 10_000] {
        let limits = json!({"wall": format!("{millis}ms")});
        let outcome = assert_reason(web, "wall_limit", "echo before; sleep 600", limits).await;
        let wall = outcome["wall_seconds"].as_f64().unwrap();
        assert!(wall >= f64::from(millis) / 1e3, "{outcome:#}");
        said = outcome["stdout"].clone();
        if said != "" {
            break;
        }
    }
    assert_eq!(said, "before\n");
    // Output does not change the reason.
    assert_reason(
        web,
        "wall_limit",
        "trap '' TERM INT HUP XCPU; while :; do sleep 1; done",
        json!({"wall": 0.3}),
    )
    .await;
    assert_reason(web, "wall_limit", "kill -STOP $$", json!({"wall": 0.3})).await;

    let spin = "while :; do :; done";
    for command in [
        spin.to_string(),
        // Several processes at once, each below the limit.
        format!("({spin}) & ({spin}) & ({spin}) & wait"),
        // One process after another, each shorter than the sampling interval.
        "while :; do /bin/true; done".to_string(),
        // The CPU time of a child counts after its end, too.
        SPENT.to_string(),
        format!("trap '' XCPU; {spin}"),
    ] {
        let outcome = assert_reason(web, "time_limit", &command, json!({"cpu": "400ms", "wall": "1m"})).await;
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
async fn memory_of_all_processes_together_is_limited() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let fill = |mib: u32| format!("x=$(head -c {mib}M /dev/zero | tr '\\0' x)");
    let limits = json!({"memory": "96MiB", "wall": "1m"});
    let one = assert_reason(
        web,
        "memory_limit",
        &format!("{}; sleep 600", fill(300)),
        limits.clone(),
    )
    .await;
    assert!(one["memory_bytes"].as_u64().unwrap() > 96 << 20, "{one:#}");
    // None of the four processes alone exceeds the limit.
    let four = format!("for i in 1 2 3 4; do ({}; sleep 600) & done; wait", fill(40));
    assert_reason(web, "memory_limit", &four, limits.clone()).await;
    let fits = execute(web, &format!("{}; echo ${{#x}}", fill(20)), limits).await;
    assert_eq!(
        (&fits["reason"], &fits["stdout"]),
        (&json!("exited"), &json!("20971520\n"))
    );
}

#[tokio::test]
async fn output_and_processes_are_limited() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    for flood in [
        "yes",
        "yes >&2",
        "while :; do echo x; done",
        "yes & yes >&2 & wait",
    ] {
        let outcome = assert_reason(
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
    assert_reason(web, "process_limit", many, limits.clone()).await;
    // Threads count as processes.
    let threads = "python3 -c 'import threading, time; [threading.Thread(target=time.sleep, args=[600]).start() for _ in range(40)]'";
    assert_reason(web, "process_limit", threads, limits.clone()).await;
    // Processes that run one after another are within the limit.
    let outcome = execute(web, "for i in $(seq 40); do /bin/true; done; echo ok", limits).await;
    assert_eq!(
        (&outcome["reason"], &outcome["stdout"]),
        (&json!("exited"), &json!("ok\n"))
    );
}

#[tokio::test]
async fn file_size_open_files_and_stack_are_limited() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    // The kernel sends SIGXFSZ to a process that writes too much.
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
    // A program can start with the smallest allowed limits.
    let outcome = execute(web, "echo ok", json!({"open_files": 4, "stack": "64KiB"})).await;
    assert_eq!(outcome["stdout"], "ok\n", "{outcome:#}");
}

#[tokio::test]
async fn the_operators_defaults_and_maxima_apply() {
    let node = SingleNode::up(&[
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
    let web = &node.web;
    let task = web.run(&json!({"execute": {"command": "sleep 600"}})).await;
    assert_eq!(task["result"]["execute"]["reason"], "wall_limit");
    // A limit that is not set is the default or, without one, the maximum.
    assert_eq!(
        task["execute"]["limits"],
        json!({
            "wall": 0.5, "cpu": "none", "memory": 1 << 30, "output": 10, "processes": 100,
            "file_size": 1 << 20, "open_files": 64, "stack": 16 << 20, "space": 8 << 20,
        })
    );
    assert_reason(web, "output_limit", "yes", json!({"wall": "1m"})).await;
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
            let problem = web.post("/api/v1/tasks", &task).await.assert_problem(422);
            assert_eq!(problem["field"], format!("{step}.limits.{field}"));
            assert_eq!(
                (&problem["limit"], &problem["actual"]),
                (&json!(limit), &json!(actual))
            );
        }
    }
}

/// Reads its own output back before the warden does, and then writes nothing more, so that the warden would wait for it.
const OUTPUT_THIEF: &str = r#"
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
async fn limits_hold_when_a_command_reads_back_its_own_output() {
    let node = SingleNode::up(&[]);
    let task = json!({
        "source": {"main.py": OUTPUT_THIEF},
        "execute": {"command": ["python3", "-S", "main.py"], "limits": {"wall": "5s"}},
    });
    let task = node.web.run(&task).await;
    assert_eq!(task["result"]["execute"]["reason"], "wall_limit", "{task:#}");
}
