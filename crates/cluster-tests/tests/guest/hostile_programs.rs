//! Each hostile program of the list where the kernel has cgroup v2, with a task of a known result in the other slot: both
//! ends are right, the whole guest has given little, and its kernel has started no helper.

use std::time::Duration;

use cluster_tests::{Guest, HostUsage, Ran, Step, conclave};
use hostile::{EMULATED_MEASURING, HOSTILE, Measuring};
use serde_json::{Deserializer, Value, json};

const DONE: Duration = Duration::from_secs(450);
/// How long a program goes on that no limit ends. Little enough gets done in that time where it is emulated.
const ATTACK_SECONDS: u64 = 3;

/// What the guest may have given at the worst time, beyond what it had when the program began. It has 1 GiB in all.
const PEAK: HostUsage = HostUsage {
    memory_bytes: 400 << 20,
    slab_bytes: 200 << 20,
    fixed_slab_bytes: 200 << 20,
    socket_bytes: 160 << 20,
    open_files: 50_000,
    processes: 700,
};

/// Writes down what the kernel starts it for: to load a module, or for a core dump.
const HELPER: &str = "#!/bin/sh\necho \"$@\" >>/run/asked\n";

/// The kernel's own bound of all open files is lifted, as systemd does: at a tenth of the memory, a program that pays for its
/// files with memory would reach it.
const PREPARE: &str = r#"
touch /run/asked
echo /usr/bin/helper >/proc/sys/kernel/modprobe
echo '|/usr/bin/helper crash %h' >/proc/sys/kernel/core_pattern
echo 9223372036854775807 >/proc/sys/fs/file-max
"#;

/// Outside of a cell the same programs have it started.
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

/// The program, and the measuring task beside it, which is added later and so starts later. Figures of the guest all the
/// time, each after a mark of its own. In the end both tasks, and then the figures.
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
async fn programs_take_little_from_a_guest_of_root() {
    judge(&guest().run(&steps(Step::root), DONE).await);
}

#[tokio::test]
async fn programs_take_little_from_a_guest_of_an_ordinary_user() {
    judge(&guest().run(&steps(Step::user), DONE).await);
}

#[tokio::test]
async fn programs_take_little_from_a_guest_of_a_user_with_subordinate_ids() {
    judge(&guest().subordinate_ids().run(&steps(Step::user), DONE).await);
}

fn guest() -> Guest {
    let usage = USAGE.replace("FILES", &HostUsage::FILES.join(" "));
    let guest = Guest::new()
        .program("conclave", &conclave())
        .file("/usr/bin/usage", usage, 0o755)
        .file("/usr/bin/helper", HELPER, 0o755)
        .c_program("measuring", Measuring::source());
    HOSTILE.iter().fold(guest, |guest, hostile| {
        guest.c_program(&format!("hostile_{}", hostile.name), &hostile.source())
    })
}

fn steps(step: fn(&str, &str) -> Step) -> Vec<Step> {
    let mut steps = vec![Step::root("prepare", PREPARE), step("start", START)];
    for hostile in HOSTILE {
        let network = hostile.network.map(|name| format!("--network {name}"));
        let text = BESIDE
            .replace("NETWORK", &network.unwrap_or_default())
            .replace("NAME", hostile.name)
            .replace("SECONDS", &ATTACK_SECONDS.to_string())
            .replace("ROUNDS", &EMULATED_MEASURING.argument());
        steps.push(step(hostile.name, &text));
    }
    steps.extend([
        Step::root("asked", "cat /run/asked"),
        Step::root("asked outside", ASK_OUTSIDE),
        Step::root("log", "cat /tmp/log"),
    ]);
    steps
}

fn judge(ran: &Ran) {
    let log = ran["log"].text();
    assert_eq!(ran["prepare"].code, 0, "{:?}", ran["prepare"]);
    assert_eq!(ran["asked"].text(), "", "what the kernel started its helper for");
    assert_eq!(
        ran["asked outside"].text(),
        "asked\n",
        "{:?}",
        ran["asked outside"]
    );
    for hostile in HOSTILE {
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
        assert_eq!(said, EMULATED_MEASURING.right, "beside {name}: {measured:#}");
        assert!(
            ended["status"] == "success" || ended["status"] == "run_failed",
            "{name}: {ended:#}\n{log}"
        );
        let outcome = &ended["result"]["execute"];
        if let Some(refused) = hostile.refused {
            assert_eq!(outcome["stdout"], refused, "{name}: {outcome:#}");
        }
        let peak = peak(samples);
        let bound = HostUsage {
            open_files: hostile.files_by_memory.unwrap_or(PEAK.open_files),
            ..PEAK
        };
        assert!(peak.is_within(&bound), "{name} took {peak:#?}");
    }
}

/// How much more than in the first sample. The last one may have been cut off.
fn peak(samples: &str) -> HostUsage {
    let mut samples = samples.split("sample\n").filter_map(HostUsage::parse);
    let first = samples.next().expect("a sample");
    samples.fold(first, |most, sample| most.max(&sample)).over(&first)
}
