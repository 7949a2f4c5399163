//! A whole node on cgroup v2, as root and as an ordinary user: limits of tasks, measurements, and clean-up after a kill.

use std::time::Duration;

use cluster_tests::{GuestCommand, GuestMachine, GuestOutputs};
use serde_json::{Value, json};

use crate::cell_view;
use crate::limit_cases::{self, DEFAULT_LIMITS, LIMIT_CASES};

/// Just below the timeout of the test runner: there are many commands, and the machine may be busy.
const DONE: Duration = Duration::from_secs(450);

/// Restarts the node whenever it has ended, in the same control group, like a service manager.
const KEEPER: &str = r#"#!/bin/sh
cd /tmp
while :; do
    conclave up --isolation cell --slots 1 --data node SETTINGS >serving 2>>log &
    echo $! >pid
    wait
done
"#;

const AWAIT_SERVING: &str = r#"
tries=600
until grep -q 'is serving' /tmp/serving; do
    tries=$((tries - 1))
    [ $tries != 0 ] || exit 1
    sleep 0.1
done 2>/dev/null
"#;

/// Lists pid and name of all processes but kernel threads.
const PROCESSES: &str = r#"#!/bin/sh
for stat in /proc/[0-9]*/stat; do
    read -r pid name state parent rest <$stat && [ $pid != 2 ] && [ $parent != 2 ] && echo $pid $name
done 2>/dev/null
"#;

/// Prints the processes, the executor's control groups with their members, and files of tasks. Repeats until that is as expected,
/// because a new cell is prepared after each task.
const LOOK: &str = r#"#!/bin/sh
look() {
    # Before anybody is started to count them.
    all=$(processes)
    echo "$all" | grep -vE '(look|processes)' | cut -d' ' -f2 | sort | uniq -c | sed 's/^ *//'
    find /sys/fs/cgroup -type d -path '*/conclave-*/*' | sort | while read -r group; do
        echo ${group##*/}: $(for pid in $(cat $group/cgroup.procs); do cat /proc/$pid/comm; done)
    done
    find /tmp/node/executor/work -type f ! -name attempt
}
tries=100
until seen=$(look); [ "$seen" = "$1" ] || [ $tries = 0 ]; do
    tries=$((tries - 1))
    sleep 0.1
done
echo "$seen"
"#;

/// The one slot has two wardens, each with a ready cell: its init, and the stub, which is already in the control group. The
/// warden that looks for languages has ended, and its control group waits for the next search.
const IDLE_STATE: &str = "1 (conclave)
6 (conclave-warden)
1 (init)
1 (keeper)
slot-0: conclave-warden
slot-1: conclave-warden
slot-8:
";

/// A task runs in place of a waiting stub.
const RUNNING_STATE: &str = "1 (conclave)
5 (conclave-warden)
2 (sleep)
";

/// A task with a daemonised child that runs when the node is killed.
const INTERRUPTED: &str = r#"
conclave add --wall 600s --shell 'setsid sleep 600 & sleep 600' >/tmp/id
until [ "$(processes | grep -c '(sleep)')" = 2 ]; do sleep 0.1; done
"#;

/// Kills the node when its processes are as expected: for a moment, another warden may look for languages.
const KILL: &str = r#"
tries=100
until
    processes | grep -E '[(](conclave|conclave-warden|sleep)[)]' >/tmp/old
    seen=$(cut -d' ' -f2 /tmp/old | sort | uniq -c | sed 's/^ *//')
    [ "$seen" = "EXPECTED" ] || [ $tries = 0 ]
do
    tries=$((tries - 1))
    sleep 0.1
done
echo "$seen"
rm /tmp/serving
kill -9 $(cat /tmp/pid)
"#;

/// The task runs again after the restart, and would occupy the slot.
const CANCEL: &str = "conclave cancel $(cat /tmp/id)";

const REMAINING_PROCESSES: &str =
    "while read -r pid name; do [ ! -e /proc/$pid ] || echo $pid $name; done </tmp/old";

/// Stops the node in order. The control group of an ordinary user's node stays, because the keeper uses it, too.
const STOP: &str = r#"
kill -9 $(pidof keeper)
kill $(cat /tmp/pid)
while [ -e /proc/$(cat /tmp/pid) ]; do sleep 0.1; done
processes | grep conclave
find /sys/fs/cgroup -name 'conclave*' ! -name conclave-main
"#;

/// A program that does what each case says, judged: its time and memory are those of one case. The guest counts the time in which
/// its machine does not let it run, so the limit is far above what the others need.
const JUDGED: &str = r#"
mkdir /tmp/cases
for name in add burn hog wrong; do
    echo $name >/tmp/cases/$name.in
    echo 3 >/tmp/cases/$name.ans
done
conclave run --json --cases /tmp/cases --cpu 5s \
    --shell 'read name; case $name in add) echo 3;; wrong) echo 4;; *) exec $name;; esac'
"#;
const VERDICTS: [&str; 4] = ["accepted", "time_limit", "memory_limit", "wrong_answer"];

/// Reads a file that is larger than its memory limit and was written by the compile step.
const READER: &str = "conclave run --json --compile 'dd if=/dev/zero of=big bs=1M count=24' --memory 16MiB \
    --shell 'dd if=big of=/dev/null bs=64K 2>/dev/null && stat -c %s big'";

/// Leaves files that may belong to another user than the executor's, and that nobody else may read, list or search; and links.
const UNREADABLE: &str = "umask 077; mkdir -p out/closed; echo kept >out/file; echo none >out/none; \
    echo deep >out/closed/deep; ln -s /etc/passwd out/link; ln -s /etc outside; echo tool >tool; chmod 755 tool; \
    chmod 000 out/none out/closed/deep out/closed";
/// Name, patterns, how many links match.
const KEEPS: [(&str, &str, u64); 2] = [
    ("keeps all", "--keep '**'", 2),
    (
        "keeps paths",
        "--keep out/closed/deep --keep out/file --keep out/none --keep tool --keep out/link --keep outside/passwd",
        1,
    ),
];

const NEXT: &str = "conclave run --json --shell 'echo $((6 * 7)); ls -A /box /tmp /dev/shm'";
const EXPECTED_OUTPUT: &str = "42\n/box:\n\n/dev/shm:\n\n/tmp:\n";

#[tokio::test]
async fn limits_are_enforced_as_root() {
    assert_limits(&guest().run(&limits(GuestCommand::root), DONE).await);
}

#[tokio::test]
async fn limits_are_enforced_as_an_ordinary_user() {
    assert_limits(&guest().run(&limits(GuestCommand::user), DONE).await);
}

#[tokio::test]
async fn a_killed_node_leaves_nothing_as_root() {
    let ran = guest().run(&restart_commands(GuestCommand::root), DONE).await;
    // Each of the two wardens has its own user id.
    assert_restarts(&ran, &[1_900_000_000, 1_900_000_001].map(cell_view::by_root));
}

#[tokio::test]
async fn a_killed_node_leaves_nothing_as_an_ordinary_user() {
    let ran = guest().run(&restart_commands(GuestCommand::user), DONE).await;
    assert_restarts(&ran, &[cell_view::by_user()]);
}

#[tokio::test]
async fn a_killed_node_leaves_nothing_with_subordinate_ids() {
    let ran = guest()
        .subordinate_ids()
        .run(&restart_commands(GuestCommand::user), DONE)
        .await;
    assert_restarts(&ran, &[165_527, 165_528].map(cell_view::by_subordinate));
}

/// Several measurements, of which one has to be right: a pause of the emulator counts as CPU time, also after the program has
/// printed its own count.
const OWN_TIMES: [&str; 3] = ["own time", "own time again", "own time once more"];

fn guest() -> GuestMachine {
    let usual = DEFAULT_LIMITS.map(|limit| format!("--set limits.default.{limit}"));
    // A million files would take minutes.
    let settings = format!("--set sandbox.files=2048 {}", usual.join(" "));
    cell_view::add_files(limit_cases::guest())
        .file("/usr/bin/keeper", KEEPER.replace("SETTINGS", &settings), 0o755)
        .file("/usr/bin/processes", PROCESSES, 0o755)
        .file("/usr/bin/look", LOOK, 0o755)
}

fn limits(step: fn(&str, &str) -> GuestCommand) -> Vec<GuestCommand> {
    let mut steps = vec![start(step), look("at first")];
    steps.extend(
        LIMIT_CASES.map(|limit_case| step(limit_case.name, &run(limit_case.limits, limit_case.command))),
    );
    steps.extend([
        step("judged", JUDGED),
        step("next", NEXT),
        look("after all"),
        GuestCommand::root("log", "cat /tmp/log"),
    ]);
    steps
}

fn restart_commands(step: fn(&str, &str) -> GuestCommand) -> Vec<GuestCommand> {
    let mut steps = vec![start(step), step("seen", &run("", "checker"))];
    steps.extend(OWN_TIMES.map(|name| step(name, &run("", "own_time"))));
    steps.extend([step("hold", &run("", "hold")), step("reader", READER)]);
    steps.extend(KEEPS.map(|(name, patterns, _)| {
        step(
            name,
            &format!("conclave run --json {patterns} --shell '{UNREADABLE}'"),
        )
    }));
    steps.extend([
        look("old life at rest"),
        step("interrupted", INTERRUPTED),
        GuestCommand::root("kill", &KILL.replace("EXPECTED", RUNNING_STATE.trim_end())),
        step("start again", &format!("{AWAIT_SERVING}{CANCEL}")),
        step("next", NEXT),
        GuestCommand::root("old life", REMAINING_PROCESSES),
        look("new life at rest"),
        GuestCommand::root("stop", STOP),
        GuestCommand::root("log", "cat /tmp/log"),
    ]);
    steps
}

fn start(step: fn(&str, &str) -> GuestCommand) -> GuestCommand {
    step("start", &format!("keeper &{AWAIT_SERVING}"))
}

fn run(limits: &str, command: &str) -> String {
    format!("conclave run --json {limits} -- {command}")
}

fn look(name: &str) -> GuestCommand {
    GuestCommand::root(name, &format!("exec look '{}'", IDLE_STATE.trim_end()))
}

/// Asserts the output of a command.
fn assert_output(ran: &GuestOutputs, step: &str, expected: &str) {
    let log = ran["log"].text();
    assert_eq!(ran[step].text(), expected, "{step}\n---- log\n{log}");
}

fn assert_limits(ran: &GuestOutputs) {
    assert_output(ran, "at first", IDLE_STATE);
    for limit_case in LIMIT_CASES {
        let outcome = outcome(ran, limit_case.name);
        assert_eq!(
            outcome["reason"], limit_case.reason,
            "{}: {outcome:#}",
            limit_case.name
        );
        match limit_case.reason {
            // The kernel allows processes that are being killed to exceed the limit slightly.
            "memory_limit" => assert!((64 << 20..66 << 20).contains(&memory(&outcome)), "{outcome:#}"),
            "time_limit" => assert!(seconds(&outcome) >= 0.3, "{outcome:#}"),
            "exited" => assert_eq!(outcome["exit_code"], 0, "{outcome:#}"),
            _ => {}
        }
    }
    let flood = outcome(ran, "stdout flood");
    assert_eq!(flood["stdout"], "y\n".repeat(8 << 10), "{flood:#}");
    assert_eq!(outcome(ran, "large file")["signal"], 25);
    assert_eq!(outcome(ran, "open files")["stdout"], "24 253\n");
    assert_eq!(outcome(ran, "endless recursion")["signal"], 11);
    let judged: Value = ran["judged"].json();
    let verdicts: Vec<_> = judged["result"]["cases"]
        .as_array()
        .expect("cases")
        .iter()
        .map(|case| &case["verdict"])
        .collect();
    assert_eq!(verdicts, VERDICTS, "{judged:#}");
    assert_eq!(outcome(ran, "next")["stdout"], EXPECTED_OUTPUT);
    assert_output(ran, "after all", IDLE_STATE);
}

fn assert_restarts(ran: &GuestOutputs, seen: &[String]) {
    let said = outcome(ran, "seen");
    assert!(
        seen.iter().any(|expected| said["stdout"] == expected.as_str()),
        "{said:#}\nexpected: {seen:#?}"
    );
    assert_measurements(ran);
    for (name, _, links) in KEEPS {
        assert_kept_files(ran, name, links);
    }
    assert_output(ran, "old life at rest", IDLE_STATE);
    // All of them existed before the kill, and none of them afterwards.
    assert_output(ran, "kill", RUNNING_STATE);
    assert_output(ran, "old life", "");
    assert_eq!(outcome(ran, "next")["stdout"], EXPECTED_OUTPUT);
    assert_output(ran, "new life at rest", IDLE_STATE);
    assert_output(ran, "stop", "");
}

fn assert_kept_files(ran: &GuestOutputs, name: &str, links: u64) {
    let task: Value = ran[name].json();
    let result = &task["result"];
    let kept: Vec<_> = result["files"]
        .as_array()
        .expect("files")
        .iter()
        .map(|file| (&file["path"], &file["size"], &file["executable"]))
        .collect();
    assert_eq!(
        json!(kept),
        json!([
            ["out/closed/deep", 5, false],
            ["out/file", 5, false],
            ["out/none", 5, false],
            ["tool", 5, true]
        ]),
        "{task:#}"
    );
    let left_out = &result["files_left_out"];
    assert_eq!(
        (&left_out["count"], &left_out["why"]),
        (&json!(links), &json!("not_regular")),
        "{task:#}"
    );
}

/// Asserts the measurements against what the program prints of itself.
fn assert_measurements(ran: &GuestOutputs) {
    let own = OWN_TIMES.map(|name| outcome(ran, name));
    assert!(own.iter().any(is_right), "{own:#?}");
    let hold = outcome(ran, "hold");
    assert!((24 << 20..26 << 20).contains(&memory(&hold)), "{hold:#}");
    let reader = outcome(ran, "reader");
    assert_eq!(reader["stdout"], "25165824\n", "{reader:#}");
    assert!(memory(&reader) < 8 << 20, "{reader:#}");
}

/// Whether the reported CPU time is what the program has counted.
fn is_right(own: &Value) -> bool {
    let told: f64 = own["stdout"]
        .as_str()
        .and_then(|said| said.trim().parse().ok())
        .expect("seconds");
    (told - seconds(own)).abs() <= told * 0.02
}

fn outcome(ran: &GuestOutputs, name: &str) -> Value {
    let task: Value = ran[name].json();
    let outcome = task["result"]["execute"].clone();
    assert!(outcome.is_object(), "{name}: {task:#}");
    assert_eq!(task["attempt"], 1, "{name}: {task:#}");
    outcome
}

fn seconds(outcome: &Value) -> f64 {
    outcome["cpu_seconds"].as_f64().expect("seconds")
}

fn memory(outcome: &Value) -> u64 {
    outcome["memory_bytes"].as_u64().expect("bytes")
}
