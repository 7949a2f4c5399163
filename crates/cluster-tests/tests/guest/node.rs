//! A whole node where the kernel has cgroup v2: the animals through its executor, as root and as an ordinary user, and
//! what is left of them and of a life that was killed.

use std::time::Duration;

use cluster_tests::{Guest, Ran, Step};
use serde_json::Value;

use crate::animals::{self, ANIMALS, USUAL};
use crate::seen;

/// There are many steps, and the machine may be busy. A little later the runner of the tests would end this one.
const DONE: Duration = Duration::from_secs(450);

/// As a service manager does: whenever the node has ended it is started again, in the same group.
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

/// Number and name of everybody in the guest but the kernel's own.
const PROCESSES: &str = r#"#!/bin/sh
for stat in /proc/[0-9]*/stat; do
    read -r pid name state parent rest <$stat && [ $pid != 2 ] && [ $parent != 2 ] && echo $pid $name
done 2>/dev/null
"#;

/// Who there is, the executor's groups with those who are in them, and files of tasks. Asks again until there is what is
/// expected, for after each task a cell is made anew.
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

/// For the one slot there are two wardens, each with a cell that waits for a task: its first process, and the one that
/// is in the group already.
const AT_REST: &str = "1 (conclave)
6 (conclave-warden)
1 (init)
1 (keeper)
slot-0: conclave-warden
slot-1: conclave-warden
";

/// The task has taken the place of one that waited.
const AT_WORK: &str = "1 (conclave)
5 (conclave-warden)
2 (sleep)
";

/// At work when the node is killed, with somebody in a session of their own.
const INTERRUPTED: &str = r#"
conclave add --wall 600s --shell 'setsid sleep 600 & sleep 600' >/tmp/id
until [ "$(processes | grep -c '(sleep)')" = 2 ]; do sleep 0.1; done
"#;

const KILL: &str = r#"
processes | grep -E '[(](conclave|conclave-warden|sleep)[)]' >/tmp/old
cut -d' ' -f2 /tmp/old | sort | uniq -c | sed 's/^ *//'
rm /tmp/serving
kill -9 $(cat /tmp/pid)
"#;

/// It runs again in the new life, and would be in the way of others.
const CANCEL: &str = "conclave cancel $(cat /tmp/id)";

const OLD_LIFE: &str = "while read -r pid name; do [ ! -e /proc/$pid ] || echo $pid $name; done </tmp/old";

/// In order, this time. The group that an ordinary user's node was moved into is the keeper's as well, and stays.
const STOP: &str = r#"
kill -9 $(pidof keeper)
kill $(cat /tmp/pid)
while [ -e /proc/$(cat /tmp/pid) ]; do sleep 0.1; done
processes | grep conclave
find /sys/fs/cgroup -name 'conclave*' ! -name conclave-main
"#;

/// Reads more than it may hold, which was there before it.
const READER: &str = "conclave run --json --compile 'dd if=/dev/zero of=big bs=1M count=24' --memory 16MiB \
    --shell 'dd if=big of=/dev/null bs=64K 2>/dev/null && stat -c %s big'";

const NEXT: &str = "conclave run --json --shell 'echo $((6 * 7)); ls -A /box /tmp /dev/shm'";
const RIGHT: &str = "42\n/box:\n\n/dev/shm:\n\n/tmp:\n";

#[tokio::test]
async fn of_root_keeps_every_limit() {
    judge_limits(&guest().run(&limits(Step::root), DONE).await);
}

#[tokio::test]
async fn of_an_ordinary_user_keeps_every_limit() {
    judge_limits(&guest().run(&limits(Step::user), DONE).await);
}

#[tokio::test]
async fn of_root_measures_and_leaves_nothing_when_killed() {
    let ran = guest().run(&lives(Step::root), DONE).await;
    // Each of the two wardens has a user of its own.
    judge_lives(&ran, &[1_900_000_000, 1_900_000_001].map(seen::by_root));
}

#[tokio::test]
async fn of_an_ordinary_user_measures_and_leaves_nothing_when_killed() {
    let ran = guest().run(&lives(Step::user), DONE).await;
    judge_lives(&ran, &[seen::by_user()]);
}

#[tokio::test]
async fn with_subordinate_ids_measures_and_leaves_nothing_when_killed() {
    let ran = guest().subordinate_ids().run(&lives(Step::user), DONE).await;
    judge_lives(&ran, &[165_534, 165_535].map(seen::by_subordinate));
}

/// More than one, of which one has to be right: while the emulator stands still, time runs on for whoever is at work
/// there. If that is after the program has counted its own, it is told to have used more.
const OWN_TIMES: [&str; 3] = ["own time", "own time again", "own time once more"];

fn guest() -> Guest {
    let usual = USUAL.map(|limit| format!("--set limits.default.{limit}"));
    // A million would take minutes to make.
    let settings = format!("--set sandbox.files=2048 {}", usual.join(" "));
    seen::put(animals::guest())
        .file("/usr/bin/keeper", KEEPER.replace("SETTINGS", &settings), 0o755)
        .file("/usr/bin/processes", PROCESSES, 0o755)
        .file("/usr/bin/look", LOOK, 0o755)
}

fn limits(step: fn(&str, &str) -> Step) -> Vec<Step> {
    let mut steps = vec![start(step), look("at first")];
    steps.extend(ANIMALS.map(|animal| step(animal.name, &run(animal.limits, animal.command))));
    steps.extend([
        step("next", NEXT),
        look("after all"),
        Step::root("log", "cat /tmp/log"),
    ]);
    steps
}

fn lives(step: fn(&str, &str) -> Step) -> Vec<Step> {
    let mut steps = vec![start(step), step("seen", &run("", "checker"))];
    steps.extend(OWN_TIMES.map(|name| step(name, &run("", "own_time"))));
    steps.extend([
        step("hold", &run("", "hold")),
        step("reader", READER),
        look("old life at rest"),
        step("interrupted", INTERRUPTED),
        Step::root("kill", KILL),
        step("start again", &format!("{AWAIT_SERVING}{CANCEL}")),
        step("next", NEXT),
        Step::root("old life", OLD_LIFE),
        look("new life at rest"),
        Step::root("stop", STOP),
        Step::root("log", "cat /tmp/log"),
    ]);
    steps
}

fn start(step: fn(&str, &str) -> Step) -> Step {
    step("start", &format!("keeper &{AWAIT_SERVING}"))
}

fn run(limits: &str, command: &str) -> String {
    format!("conclave run --json {limits} -- {command}")
}

fn look(name: &str) -> Step {
    Step::root(name, &format!("exec look '{}'", AT_REST.trim_end()))
}

/// What a step wrote, word for word.
fn says(ran: &Ran, step: &str, expected: &str) {
    let log = ran["log"].text();
    assert_eq!(ran[step].text(), expected, "{step}\n---- log\n{log}");
}

fn judge_limits(ran: &Ran) {
    says(ran, "at first", AT_REST);
    for animal in ANIMALS {
        let outcome = outcome(ran, animal.name);
        assert_eq!(outcome["reason"], animal.reason, "{}: {outcome:#}", animal.name);
        match animal.reason {
            // The kernel lets those who are about to die have a little more.
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
    assert_eq!(outcome(ran, "next")["stdout"], RIGHT);
    says(ran, "after all", AT_REST);
}

fn judge_lives(ran: &Ran, seen: &[String]) {
    let said = outcome(ran, "seen");
    assert!(
        seen.iter().any(|expected| said["stdout"] == expected.as_str()),
        "{said:#}\nexpected: {seen:#?}"
    );
    measures(ran);
    says(ran, "old life at rest", AT_REST);
    // All of them were there, and none of them is.
    says(ran, "kill", AT_WORK);
    says(ran, "old life", "");
    assert_eq!(outcome(ran, "next")["stdout"], RIGHT);
    says(ran, "new life at rest", AT_REST);
    says(ran, "stop", "");
}

/// Against what the program knows of itself.
fn measures(ran: &Ran) {
    let own = OWN_TIMES.map(|name| outcome(ran, name));
    assert!(own.iter().any(is_right), "{own:#?}");
    let hold = outcome(ran, "hold");
    assert!((24 << 20..26 << 20).contains(&memory(&hold)), "{hold:#}");
    let reader = outcome(ran, "reader");
    assert_eq!(reader["stdout"], "25165824\n", "{reader:#}");
    assert!(memory(&reader) < 8 << 20, "{reader:#}");
}

/// Whether it is told what it has counted itself.
fn is_right(own: &Value) -> bool {
    let told: f64 = own["stdout"]
        .as_str()
        .and_then(|said| said.trim().parse().ok())
        .expect("seconds");
    (told - seconds(own)).abs() <= told * 0.02
}

fn outcome(ran: &Ran, name: &str) -> Value {
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
