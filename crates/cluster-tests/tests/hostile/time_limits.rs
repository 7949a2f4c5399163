//! Programs that exceed time limits, and programs that resist being killed.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use cluster_tests::{shell, wait_until};
use nix::fcntl::OFlag;
use serde_json::json;

use crate::harness::{HostileProgram, HostileTestNode, ProgramSource, default_limits, executed};
use crate::node_inventory::cell_processes;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn time_limits_end_programs() {
    let node = HostileTestNode::start().await;
    for (name, program, reason) in [
        (
            "busy loop",
            ProgramSource::C("int main() { for (;;); }"),
            "time_limit",
        ),
        (
            "busy loop that does not listen",
            ProgramSource::C(
                "#include <signal.h>\nint main() { for (int s = 1; s < 65; s++) signal(s, SIG_IGN); for (;;); }",
            ),
            "time_limit",
        ),
        (
            "burning threads",
            ProgramSource::C(
                "#include <pthread.h>\nvoid *f(void *x) { for (;;); }\nint main() { pthread_t t; for (int i = 0; i < 8; i++) pthread_create(&t, 0, f, 0); f(0); }",
            ),
            "time_limit",
        ),
        (
            // Each process stays below the limit.
            "children that burn for a while",
            ProgramSource::C(
                "#include <sys/wait.h>\n#include <time.h>\n#include <unistd.h>\nint main() { for (int i = 0; i < 8; i++) if (fork() == 0) { while (clock() < CLOCKS_PER_SEC / 5); _exit(0); }\
                 while (wait(0) > 0); return 0; }",
            ),
            "time_limit",
        ),
        (
            "burning children, too many",
            ProgramSource::C(
                "#include <unistd.h>\nint main() { for (int i = 0; i < 8; i++) fork(); for (;;); }",
            ),
            "process_limit",
        ),
        ("sleep", ProgramSource::Shell("sleep 600"), "wall_limit"),
        (
            "stops itself",
            ProgramSource::Shell("kill -STOP $$"),
            "wall_limit",
        ),
        (
            "ignores being asked",
            ProgramSource::Shell("trap '' TERM INT HUP XCPU; while :; do sleep 1; done"),
            "wall_limit",
        ),
    ] {
        // On a busy machine it takes longer to use this much CPU time.
        let wall = if reason == "wall_limit" { "3s" } else { "60s" };
        let hostile_program = HostileProgram::new(name, program)
            .with("cpu", json!("500ms"))
            .with("wall", json!(wall));
        let outcome = node.assert_reason(reason, hostile_program).await;
        let cpu = outcome["cpu_seconds"].as_f64().unwrap();
        assert!(reason != "time_limit" || cpu >= 0.5, "{name}: {outcome:#}");
    }
}

#[tokio::test]
async fn descendants_end_with_the_first_process() {
    let node = HostileTestNode::start().await;
    for (name, text, expected) in [
        (
            "double-fork daemon",
            "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\ntime.sleep(600)",
            "",
        ),
        (
            "child that keeps stdout",
            "import os, time\nif os.fork() == 0:\n    time.sleep(600)\nprint('done', flush=True)",
            "done\n",
        ),
    ] {
        let said = node
            .output_of(HostileProgram::new(name, ProgramSource::Python(text)))
            .await;
        assert_eq!(said, expected, "{name}");
    }
}

const KILLER: &str = r#"
import os, signal
children = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        while True: signal.pause()
    children.append(child)
os.kill(-1, 9)
print([os.WTERMSIG(os.waitpid(child, 0)[1]) for child in children])
"#;

/// Opens the pipe for writing; `None` if no process reads from it.
fn open_if_read(pipe: &Path) -> Option<File> {
    let flags = OFlag::O_NONBLOCK.bits();
    File::options().write(true).custom_flags(flags).open(pipe).ok()
}

#[tokio::test]
async fn kill_all_reaches_only_the_tasks_own_processes() {
    let node = HostileTestNode::start().await;
    let other = node.system.add(shell("mkfifo /tmp/word && cat /tmp/word")).await;
    let mut word = wait_until("another to listen", SOON, async || {
        let mut cell_processes = cell_processes().into_iter();
        cell_processes.find_map(|inmate| open_if_read(&inmate.path("tmp/word")))
    })
    .await;
    let killer = json!({
        "source": {"main.py": KILLER},
        "execute": {"command": ["python3", "-S", "main.py"], "limits": default_limits()},
    });
    let killer = node.system.run(killer).await;
    assert_eq!(killer.attempt, 1, "{killer:?}");
    let outcome = executed(killer);
    assert_eq!(outcome.stdout, "[9, 9, 9, 9, 9]\n", "{outcome:?}");

    word.write_all(b"alive").expect("somebody who listens");
    drop(word);
    let other = node.system.done(other.id).await;
    assert_eq!(other.attempt, 1, "{other:?}");
    let outcome = executed(other);
    assert_eq!(outcome.stdout, "alive", "{outcome:?}");
    node.assert_clean().await;
}

#[tokio::test]
async fn the_init_of_the_cell_cannot_be_attacked() {
    let node = HostileTestNode::start().await;
    let program = r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def errno(result):
    return ctypes.get_errno() if result == -1 else 'ok'
for signal in (9, 19, 15, 11):
    try:
        os.kill(1, signal); print('sent')
    except PermissionError:
        print('refused')
print(errno(libc.ptrace(16, 1, 0, 0)))
print(errno(libc.syscall(311, 1, 0, 0, 0, 0, 0)))
for name in ('mem', 'environ', 'maps', 'fd'):
    print(os.path.exists('/proc/1/' + name))
"#;
    let said = node
        .output_of(HostileProgram::new(
            "attack on process 1",
            ProgramSource::Python(program),
        ))
        .await;
    assert_eq!(
        said,
        "refused\nrefused\nrefused\nrefused\n1\n1\nFalse\nFalse\nFalse\nFalse\n"
    );
}
