//! Runs each hostile program on cgroup v2, with a task of a known result in the other slot: both end as expected, the usage of
//! the whole guest stays bounded, and the kernel starts no helper.

use std::time::Duration;

use cluster_tests::{GuestCommand, GuestMachine, GuestOutputs, HostUsage, conclave};
use hostile::{EMULATED_MEASURING_TASK, HOSTILE_TASKS, MeasuringTask};
use serde_json::{Deserializer, Value, json};

const DONE: Duration = Duration::from_secs(450);
/// How long a program runs if no limit ends it. Short, although the emulated CPU is slow.
const ATTACK_SECONDS: u64 = 3;

/// The largest allowed increase of the guest's usage while a program runs. The guest has 1 GiB.
const PEAK: HostUsage = HostUsage {
    memory_bytes: 400 << 20,
    slab_bytes: 200 << 20,
    fixed_slab_bytes: 200 << 20,
    socket_bytes: 160 << 20,
    open_files: 50_000,
    processes: 700,
};

/// A helper that records why the kernel started it: to load a module, or for a core dump.
const HELPER: &str = "#!/bin/sh\necho \"$@\" >>/run/asked\n";

/// Raises the kernel's limit of open files, as systemd does. A program whose files are bounded by memory only would reach it.
const PREPARE: &str = r#"
touch /run/asked
echo /usr/bin/helper >/proc/sys/kernel/modprobe
echo '|/usr/bin/helper crash %h' >/proc/sys/kernel/core_pattern
echo 9223372036854775807 >/proc/sys/fs/file-max
"#;

/// Outside of a cell the same programs do start the helper.
const ASK_OUTSIDE: &str = r#"
hostile_module_requests 1
hostile_crashes 1 >/dev/null
until grep -q -- '-- ' /run/asked && grep -q 'crash guest' /run/asked; do sleep 0.1; done
echo asked
"#;

const USAGE: &str = r#"#!/bin/sh
exec grep -hE '^(Mem|S|T|U|[0-9])' FILES
"#;

const START: &str = r#"
cd /tmp
conclave up --isolation cell --slots 2 --data node --set executor.self_kill=40s --set judicator.lease=60s >serving 2>log &
until grep -q 'is serving' serving; do sleep 0.1; done
"#;

/// Runs the program and, beside it, the measuring task, while it samples the guest's usage. Prints both tasks, and then the
/// samples.
const BESIDE: &str = r#"
sample() { echo sample; usage; }
sample >/tmp/samples
(while sleep 0.2; do sample; done >>/tmp/samples) &
sampler=$!
conclave add --wall 100s --memory 128MiB --processes 512 --output 1MiB --space 64MiB NETWORK -- hostile_NAME SECONDS >/tmp/id
conclave run --json --wall 100s --memory 64MiB -- measuring ROUNDS
conclave get --json --wait 100s $(cat /tmp/id)
kill $sampler
cat /tmp/samples
"#;

#[tokio::test]
async fn usage_is_bounded_as_root() {
    assert_bounded(&guest().run(&steps(GuestCommand::root), DONE).await);
}

#[tokio::test]
async fn usage_is_bounded_as_an_ordinary_user() {
    assert_bounded(&guest().run(&steps(GuestCommand::user), DONE).await);
}

#[tokio::test]
async fn usage_is_bounded_as_a_user_with_subordinate_ids() {
    assert_bounded(
        &guest()
            .subordinate_ids()
            .run(&steps(GuestCommand::user), DONE)
            .await,
    );
}

fn guest() -> GuestMachine {
    let usage = USAGE.replace("FILES", &HostUsage::FILES.join(" "));
    let guest = GuestMachine::new()
        .program("conclave", &conclave())
        .file("/usr/bin/usage", usage, 0o755)
        .file("/usr/bin/helper", HELPER, 0o755)
        .c_program("measuring", MeasuringTask::source());
    HOSTILE_TASKS.iter().fold(guest, |guest, hostile| {
        guest.c_program(&format!("hostile_{}", hostile.name), &hostile.source())
    })
}

fn steps(step: fn(&str, &str) -> GuestCommand) -> Vec<GuestCommand> {
    let mut steps = vec![GuestCommand::root("prepare", PREPARE), step("start", START)];
    for hostile in HOSTILE_TASKS {
        let network = hostile.network.map(|name| format!("--network {name}"));
        let text = BESIDE
            .replace("NETWORK", &network.unwrap_or_default())
            .replace("NAME", hostile.name)
            .replace("SECONDS", &ATTACK_SECONDS.to_string())
            .replace("ROUNDS", &EMULATED_MEASURING_TASK.argument());
        steps.push(step(hostile.name, &text));
    }
    steps.extend([
        GuestCommand::root("asked", "cat /run/asked"),
        GuestCommand::root("asked outside", ASK_OUTSIDE),
        GuestCommand::root("log", "cat /tmp/log"),
    ]);
    steps
}

fn assert_bounded(ran: &GuestOutputs) {
    let log = ran["log"].text();
    assert_eq!(ran["prepare"].code, 0, "{:?}", ran["prepare"]);
    assert_eq!(ran["asked"].text(), "", "the kernel started its helper");
    assert_eq!(
        ran["asked outside"].text(),
        "asked\n",
        "{:?}",
        ran["asked outside"]
    );
    for hostile in HOSTILE_TASKS {
        let name = hostile.name;
        let (tasks, samples) = ran[name].text().split_once("sample\n").expect("a sample");
        let tasks: Vec<Value> = Deserializer::from_str(tasks)
            .into_iter()
            .collect::<Result<_, _>>()
            .unwrap_or_else(|error| panic!("{name}: {error}: {:?}", ran[name]));
        let [measured, ended] = &tasks[..] else {
            panic!("{name}: {:?}\n{log}", ran[name]);
        };
        assert_eq!(
            measured["status"], "success",
            "beside {name}: {measured:#}\n{log}"
        );
        assert_eq!(
            (&measured["attempt"], &ended["attempt"]),
            (&json!(1), &json!(1)),
            "{name}: {ended:#}\n{log}"
        );
        let said = &measured["result"]["execute"]["stdout"];
        assert_eq!(
            said, EMULATED_MEASURING_TASK.expected_output,
            "beside {name}: {measured:#}"
        );
        assert!(
            ended["status"] == "success" || ended["status"] == "run_failed",
            "{name}: {ended:#}\n{log}"
        );
        let outcome = &ended["result"]["execute"];
        if let Some(refused) = hostile.expected_refusal {
            assert_eq!(outcome["stdout"], refused, "{name}: {outcome:#}");
        }
        let peak = peak(samples);
        let bound = HostUsage {
            open_files: hostile.max_files_by_memory.unwrap_or(PEAK.open_files),
            ..PEAK
        };
        assert!(peak.is_within(&bound), "{name} used {peak:#?}");
    }
}

/// The largest increase since the first sample. The last sample may be incomplete.
fn peak(samples: &str) -> HostUsage {
    let mut samples = samples.split("sample\n").filter_map(HostUsage::parse);
    let first = samples.next().expect("a sample");
    samples
        .fold(first, |most, sample| most.max(&sample))
        .increase_since(&first)
}
