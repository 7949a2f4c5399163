//! Those that take their time, and those that will not go.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use cluster_tests::{await_that, shell};
use nix::fcntl::OFlag;
use serde_json::json;

use crate::scene::inmates;
use crate::stage::{Animal, Program, Zoo, executed, usual};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn time_runs_out() {
    let zoo = Zoo::open().await;
    for (name, program, reason) in [
        ("busy loop", Program::C("int main() { for (;;); }"), "time_limit"),
        (
            "busy loop that does not listen",
            Program::C(
                "#include <signal.h>\nint main() { for (int s = 1; s < 65; s++) signal(s, SIG_IGN); for (;;); }",
            ),
            "time_limit",
        ),
        (
            "burning threads",
            Program::C(
                "#include <pthread.h>\nvoid *f(void *x) { for (;;); }\nint main() { pthread_t t; for (int i = 0; i < 8; i++) pthread_create(&t, 0, f, 0); f(0); }",
            ),
            "time_limit",
        ),
        (
            // Each alone stays below the limit.
            "children that burn for a while",
            Program::C(
                "#include <sys/wait.h>\n#include <time.h>\n#include <unistd.h>\nint main() { for (int i = 0; i < 8; i++) if (fork() == 0) { while (clock() < CLOCKS_PER_SEC / 5); _exit(0); }\
                 while (wait(0) > 0); return 0; }",
            ),
            "time_limit",
        ),
        (
            "burning children, too many",
            Program::C("#include <unistd.h>\nint main() { for (int i = 0; i < 8; i++) fork(); for (;;); }"),
            "process_limit",
        ),
        ("sleep", Program::Shell("sleep 600"), "wall_limit"),
        ("stops itself", Program::Shell("kill -STOP $$"), "wall_limit"),
        (
            "ignores being asked",
            Program::Shell("trap '' TERM INT HUP XCPU; while :; do sleep 1; done"),
            "wall_limit",
        ),
    ] {
        // On a busy machine it takes a while to use up CPU time.
        let wall = if reason == "wall_limit" { "3s" } else { "60s" };
        let animal = Animal::new(name, program)
            .with("cpu", json!("500ms"))
            .with("wall", json!(wall));
        let outcome = zoo.ends_by(reason, animal).await;
        let cpu = outcome["cpu_seconds"].as_f64().unwrap();
        assert!(reason != "time_limit" || cpu >= 0.5, "{name}: {outcome:#}");
    }
}

#[tokio::test]
async fn nobody_outlives_the_first() {
    let zoo = Zoo::open().await;
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
        let said = zoo.says(Animal::new(name, Program::Python(text))).await;
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

/// Somebody who reads from this pipe. None where nobody does.
fn speak_to(pipe: &Path) -> Option<File> {
    let flags = OFlag::O_NONBLOCK.bits();
    File::options().write(true).custom_flags(flags).open(pipe).ok()
}

#[tokio::test]
async fn whoever_kills_all_that_it_can_kills_its_own() {
    let zoo = Zoo::open().await;
    let other = zoo.system.add(shell("mkfifo /tmp/word && cat /tmp/word")).await;
    let mut word = await_that("another to listen", SOON, async || {
        let mut inmates = inmates().into_iter();
        inmates.find_map(|inmate| speak_to(&inmate.path("tmp/word")))
    })
    .await;
    let killer = json!({
        "source": {"main.py": KILLER},
        "execute": {"command": ["python3", "-S", "main.py"], "limits": usual()},
    });
    let killer = zoo.system.run(killer).await;
    assert_eq!(killer.attempt, 1, "{killer:?}");
    let outcome = executed(killer);
    assert_eq!(outcome.stdout, "[9, 9, 9, 9, 9]\n", "{outcome:?}");

    word.write_all(b"alive").expect("somebody who listens");
    drop(word);
    let other = zoo.system.done(other.id).await;
    assert_eq!(other.attempt, 1, "{other:?}");
    let outcome = executed(other);
    assert_eq!(outcome.stdout, "alive", "{outcome:?}");
    zoo.look_around().await;
}

#[tokio::test]
async fn the_first_process_of_the_cell_is_out_of_reach() {
    let zoo = Zoo::open().await;
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
    let said = zoo
        .says(Animal::new("attack on process 1", Program::Python(program)))
        .await;
    assert_eq!(
        said,
        "refused\nrefused\nrefused\nrefused\n1\n1\nFalse\nFalse\nFalse\nFalse\n"
    );
}
