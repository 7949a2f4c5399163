//! A task that allocates kernel memory which no control group counts, on a machine with little memory.

use std::time::Duration;

use cluster_tests::{GuestCommand, GuestMachine, conclave};

const DONE: Duration = Duration::from_secs(450);

/// Takes byte-range locks on many files in several processes, and keeps them. Each file has few locks, so that the program uses
/// some hundred megabytes within seconds.
const LOCKS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main() {
    enum { PROCESSES = 20, FILES = 450, LOCKS = 450 };
    for (int process = 0; process < PROCESSES; process++) {
        if (fork() != 0) continue;
        for (int i = 0; i < FILES; i++) {
            char name[30];
            sprintf(name, "f%d-%d", process, i);
            int file = open(name, O_CREAT | O_RDWR, 0600);
            for (int j = 0; j < LOCKS; j++) {
                struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2 * j, .l_len = 1 };
                if (fcntl(file, F_SETLK, &lock)) return 1;
            }
        }
        for (;;) pause();
    }
    while (wait(0) > 0);
    return 0;
}
"#;

/// Prints the state of the node if it waits for too long.
const START: &str = r#"
cd /tmp
conclave up --isolation cell --slots 2 --data node --set executor.self_kill=40s --set judicator.lease=60s >serving 2>log &
until grep -q 'is serving' serving; do sleep 0.1; done
conclave add --wall 300s --memory 64MiB --processes 24 -- locks >id
tries=2000
until grep -q 'killing a task to free memory' log; do
    tries=$((tries - 1))
    [ $tries != 0 ] || { cat log; conclave get --json $(cat id); grep -E 'MemAvailable|Slab' /proc/meminfo; exit 1; }
    sleep 0.1
done
until conclave get --json $(cat id) | grep -q 'short of memory'; do sleep 0.2; done
conclave get --json $(cat id)
conclave cancel $(cat id)
"#;

const AFTER: &str = "conclave run -- echo goes on";

#[tokio::test]
async fn a_task_with_uncounted_kernel_memory_is_ended_before_the_machine_runs_out() {
    let guest = GuestMachine::new()
        .program("conclave", &conclave())
        .c_program("locks", LOCKS);
    let steps = [
        GuestCommand::user("start", START),
        GuestCommand::user("after", AFTER),
        GuestCommand::root("log", "cat /tmp/log; dmesg | grep -i 'out of memory' || true"),
    ];
    let ran = guest.run(&steps, DONE).await;
    let (lost, log) = (ran["start"].text(), ran["log"].text());
    assert!(lost.contains("short of memory"), "{lost}\n{log}");
    // The task exceeded none of its own limits.
    assert!(
        !lost.contains("memory_limit") && !lost.contains("system_error"),
        "{lost}"
    );
    assert!(
        ran["after"].text().contains("goes on"),
        "{:?}\n{log}",
        ran["after"]
    );
    assert!(!log.to_lowercase().contains("out of memory"), "{log}");
}
