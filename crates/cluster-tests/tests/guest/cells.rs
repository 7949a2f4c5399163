//! Cells where the kernel has cgroup v2: the same limits, measures and walls, as root and as an ordinary user.

use std::time::Duration;

use cluster_tests::{Guest, Ran, Step, conclave};
use serde_json::Value;

const DONE: Duration = Duration::from_secs(240);

const HOG: &str =
    "#include <stdlib.h>\n#include <string.h>\nint main() { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }";
const FORKS: &str = "#include <unistd.h>\nint main() { for (;;) fork(); }";
const BURN: &str = "int main() { for (;;); }";
const HOLD: &str = "#include <stdlib.h>\n#include <string.h>\nint main() { volatile char *p = malloc(24 << 20); for (int i = 0; i < 24 << 20; i += 512) p[i] = 1; return p[512] != 1; }";

/// Says how much of it the kernel took. An ordinary user's commands have their user in common with the first process.
const ATTACK: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
int main() {
    struct rlimit one = {1, 1};
    struct sched_param idle = {0};
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    int taken = 0;
    taken += prlimit(1, RLIMIT_CPU, &one, 0) == 0;
    taken += prlimit(1, RLIMIT_NOFILE, 0, &one) == 0;
    taken += setpriority(PRIO_PROCESS, 1, 19) == 0;
    taken += sched_setaffinity(1, sizeof first, &first) == 0;
    taken += sched_setscheduler(1, SCHED_IDLE, &idle) == 0;
    taken += ptrace(PTRACE_ATTACH, 1, 0, 0) == 0;
    kill(1, SIGKILL);
    kill(1, SIGSTOP);
    return taken;
}
"#;

/// Name, limits, command, reason.
const CELLS: [(&str, &str, &str, &str); 9] = [
    ("attack", "--wall 60s", "attack", "exited"),
    ("true", "--wall 60s", "true", "exited"),
    ("hog", "--wall 60s --memory 48MiB", "hog", "memory_limit"),
    ("forks", "--wall 60s --processes 16", "forks", "process_limit"),
    ("burn", "--wall 60s --cpu 300ms", "burn", "time_limit"),
    ("sleep", "--wall 1s", "sleep 600", "wall_limit"),
    ("flood", "--wall 60s --output 64KiB", "yes", "output_limit"),
    (
        "fill",
        "--wall 60s --space 4MiB",
        "dd if=/dev/zero of=x bs=1M count=64",
        "disk_limit",
    ),
    ("hold", "--wall 60s --memory 64MiB", "hold", "exited"),
];

fn steps(step: fn(&str, &str) -> Step, who: &str) -> Vec<Step> {
    let cells = CELLS.map(|(name, limits, command, _)| {
        step(
            &format!("{name} {who}"),
            &format!("conclave sandbox --json {limits} -- {command} </dev/null"),
        )
    });
    let look = "conclave sandbox --check --json </dev/null";
    let seen = "conclave sandbox --json -- sh -c 'id -u; hostname; ls /proc | grep -c ^[0-9]; grep -E \"CapEff|NoNewPrivs|Seccomp:\" /proc/self/status; cat /proc/self/cgroup; cat /etc/shadow /root 2>/dev/null; ls /home /root 2>/dev/null; echo x 2>/dev/null > /usr/x; mount -t tmpfs none /tmp 2>/dev/null || echo refused' </dev/null";
    cells
        .into_iter()
        .chain([
            step(&format!("check {who}"), look),
            step(&format!("seen {who}"), seen),
        ])
        .collect()
}

fn judge(ran: &Ran, who: &str, user: &str) {
    for (name, _, _, reason) in CELLS {
        let said = &ran[&format!("{name} {who}") as &str];
        let outcome: Value = said.json();
        assert_eq!(outcome["reason"], reason, "{name} {who}: {outcome:#}");
    }
    let attack: Value = ran[&format!("attack {who}") as &str].json();
    assert_eq!(attack["exit_code"], 0, "{who}: {attack:#}");
    let hold: Value = ran[&format!("hold {who}") as &str].json();
    let memory = hold["memory_bytes"].as_u64().unwrap();
    assert!((24 << 20..32 << 20).contains(&memory), "{who}: {hold:#}");
    let burn: Value = ran[&format!("burn {who}") as &str].json();
    assert!(burn["cpu_seconds"].as_f64().unwrap() >= 0.3, "{who}: {burn:#}");

    let walls: Value = ran[&format!("check {who}") as &str].json();
    for wall in ["memory", "processes", "cpu"] {
        let by = walls.as_array().unwrap().iter().find(|said| said["wall"] == wall);
        assert_eq!(by.unwrap()["by"], "cgroup v2", "{who}: {walls:#}");
    }
    let seen: Value = ran[&format!("seen {who}") as &str].json();
    let lines: Vec<&str> = seen["stdout"].as_str().unwrap().lines().collect();
    assert_eq!(lines[0], user, "{seen:#}");
    assert_eq!(lines[1], "cell", "{seen:#}");
    for expected in [
        "CapEff:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        "0::/",
        "refused",
    ] {
        assert!(lines.contains(&expected), "{expected}: {seen:#}");
    }
}

#[tokio::test]
async fn root_has_every_wall() {
    let ran = guest().run(&steps(Step::root, "as root"), DONE).await;
    judge(&ran, "as root", "1900000000");
}

#[tokio::test]
async fn an_ordinary_user_with_a_delegated_group_has_every_wall() {
    let ran = guest().run(&steps(Step::user, "as user"), DONE).await;
    judge(&ran, "as user", "1000");
}

/// Without a group of their own, a user is told what is missing and what to do; and may do without it by name.
#[tokio::test]
async fn a_missing_wall_is_named() {
    let refused = "su user -c 'conclave sandbox --check </dev/null'";
    let weaker = "su user -c 'conclave sandbox --allow-weaker memory --allow-weaker processes --allow-weaker cpu --json -- true </dev/null'";
    let ran = guest()
        .run(
            &[Step::root("refused", refused), Step::root("weaker", weaker)],
            DONE,
        )
        .await;
    ran["refused"].fails(1, &["memory", "Delegate=yes", "--allow-weaker memory"]);
    let outcome: Value = ran["weaker"].json();
    assert_eq!(outcome["exit_code"], 0, "{outcome:#}");
}

fn guest() -> Guest {
    Guest::new()
        .program("conclave", &conclave())
        .c_program("hog", HOG)
        .c_program("forks", FORKS)
        .c_program("burn", BURN)
        .c_program("attack", ATTACK)
        .c_program("hold", HOLD)
}
