//! Those that take their time, and those that will not go.

use serde_json::json;

use crate::stage::{Animal, Program, Zoo};

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
            "burning children",
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
        let animal = Animal::new(name, program)
            .with("cpu", json!("500ms"))
            .with("wall", json!("3s"));
        let outcome = zoo.ends_by(reason, animal).await;
        let cpu = outcome["cpu_seconds"].as_f64().unwrap();
        assert!(reason != "time_limit" || cpu >= 0.5, "{name}: {outcome:#}");
    }
}

#[tokio::test]
async fn nobody_outlives_the_first() {
    let zoo = Zoo::open().await;
    for (name, text) in [
        (
            "double-fork daemon",
            "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\ntime.sleep(600)",
        ),
        (
            "child that keeps stdout",
            "import os, time\nif os.fork() == 0:\n    time.sleep(600)\nprint('done', flush=True)",
        ),
        (
            "kills all that it can",
            "import os, signal\nfor _ in range(5):\n    if os.fork() == 0: signal.pause()\ntry:\n    os.kill(-1, 9)\nexcept OSError: pass\nos.kill(os.getpid(), 0)",
        ),
    ] {
        let outcome = zoo
            .ends_by("exited", Animal::new(name, Program::Python(text)))
            .await;
        assert_eq!(outcome["exit_code"], 0, "{name}: {outcome:#}");
    }
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
