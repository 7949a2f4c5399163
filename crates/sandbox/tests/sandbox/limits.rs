//! A command that goes beyond a limit is ended, and one that stays within is not.

use std::time::Duration;

use sandbox::{Limits, Reason, Spec};

use crate::stage::{limited, python, run, sh};

const MIB: u64 = 1 << 20;

/// When the kernel itself ends one process, with a limit below a second: whoever looks at all of them has to be there
/// before.
const BACKSTOP: Duration = Duration::from_secs(2);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn wall_time() {
    let limits = Limits {
        wall: Some(ms(150)),
        ..Limits::default()
    };
    let outcome = run(&limited(sh("sleep 60"), limits));
    assert_eq!(
        (outcome.reason, outcome.signal),
        (Reason::WallLimit, Some(libc::SIGKILL))
    );
    // Long before it would have ended by itself.
    assert!(
        outcome.wall >= ms(150) && outcome.wall < ms(30_000),
        "{:?}",
        outcome.wall
    );
}

#[test]
fn cpu_time_of_one_process() {
    let limits = Limits {
        cpu: Some(ms(300)),
        ..Limits::default()
    };
    for script in ["while :; do :; done", "trap '' XCPU; while :; do :; done"] {
        let outcome = run(&limited(sh(script), limits));
        assert_eq!(outcome.reason, Reason::TimeLimit);
        assert!(
            outcome.cpu >= ms(290) && outcome.cpu < BACKSTOP,
            "{:?}",
            outcome.cpu
        );
    }
}

#[test]
fn cpu_time_of_several_processes_together() {
    let limits = Limits {
        cpu: Some(ms(400)),
        ..Limits::default()
    };
    let outcome = run(&limited(
        sh("for i in 1 2 3 4; do (while :; do :; done) & done; wait"),
        limits,
    ));
    assert_eq!(outcome.reason, Reason::TimeLimit);
    assert!(
        outcome.cpu >= ms(390) && outcome.cpu < BACKSTOP,
        "{:?}",
        outcome.cpu
    );
}

#[test]
fn cpu_time_that_no_sample_saw() {
    // Processes that each live for less than a look takes, and the last of them ends with the command.
    let limits = Limits {
        cpu: Some(ms(1)),
        ..Limits::default()
    };
    assert_eq!(
        run(&limited(
            sh("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"),
            limits
        ))
        .reason,
        Reason::TimeLimit
    );
    let limits = Limits {
        cpu: Some(ms(5000)),
        ..Limits::default()
    };
    assert_eq!(
        run(&limited(
            sh("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"),
            limits
        ))
        .reason,
        Reason::Exited
    );
}

fn within_memory(limit: u64, script: &str) -> Spec {
    limited(
        python(script),
        Limits {
            memory: Some(limit * MIB),
            ..Limits::default()
        },
    )
}

#[test]
fn memory_of_one_process() {
    let script = "import time\nx = b'x' * (200 << 20)\ntime.sleep(60)";
    let outcome = run(&within_memory(64, script));
    assert_eq!(outcome.reason, Reason::MemoryLimit);
    assert!(outcome.memory > 64 * MIB, "{}", outcome.memory);
    assert_eq!(
        run(&within_memory(64, "x = b'x' * (20 << 20)")).reason,
        Reason::Exited
    );
}

#[test]
fn memory_that_is_given_back_at_once() {
    let outcome = run(&within_memory(40, "x = b'x' * (60 << 20)"));
    assert_eq!(outcome.reason, Reason::MemoryLimit);
    assert!(outcome.memory > 40 * MIB, "{}", outcome.memory);
}

#[test]
fn memory_of_several_processes_together() {
    let script = "import os, time\nfor i in range(4):\n if os.fork() == 0:\n  x = b'x' * (40 << 20); time.sleep(60)\ntime.sleep(60)";
    let outcome = run(&within_memory(120, script));
    assert_eq!(outcome.reason, Reason::MemoryLimit);
    assert!(outcome.memory > 120 * MIB, "{}", outcome.memory);
}

#[test]
fn memory_that_processes_share_counts_once() {
    let script = "import os, time\nx = b'x' * (60 << 20)\nfor i in range(4):\n if os.fork() == 0: time.sleep(0.3); os._exit(0)\nfor i in range(4): os.wait()";
    let outcome = run(&within_memory(120, script));
    assert_eq!(outcome.reason, Reason::Exited, "{outcome:?}");
    assert!(
        outcome.memory > 60 * MIB && outcome.memory < 120 * MIB,
        "{}",
        outcome.memory
    );
}

#[test]
fn memory_of_a_parent_that_waits_for_an_exec_counts_once() {
    let script = "import os\nx = b'x' * (60 << 20)\nfor i in range(300): os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)";
    let outcome = run(&within_memory(100, script));
    assert_eq!(outcome.reason, Reason::Exited, "{outcome:?}");
}

#[test]
fn processes() {
    let limits = Limits {
        processes: Some(8),
        ..Limits::default()
    };
    let outcome = run(&limited(
        sh("i=0; while [ $i -lt 100 ]; do sleep 60 & i=$((i+1)); done; wait"),
        limits,
    ));
    assert_eq!(outcome.reason, Reason::ProcessLimit);
    let few = "sleep 0.1 & sleep 0.1 & wait; for i in 1 2 3 4 5 6 7 8 9 10; do true | true; done";
    assert_eq!(run(&limited(sh(few), limits)).reason, Reason::Exited);
}

#[test]
fn threads_count_as_processes_do() {
    let limits = Limits {
        processes: Some(8),
        ..Limits::default()
    };
    let script =
        "import threading, time\nfor i in range(20): threading.Thread(target=time.sleep, args=(60,)).start()";
    let outcome = run(&limited(python(script), limits));
    assert_eq!(outcome.reason, Reason::ProcessLimit, "{outcome:?}");
}

#[test]
fn a_fork_bomb_is_put_out() {
    let limits = Limits {
        processes: Some(50),
        ..Limits::default()
    };
    // Both kinds: the first process waits, or is gone before the others are counted.
    for bomb in [":(){ :|:& };:; sleep 60", "(:(){ :|:& };:) & sleep 0.02"] {
        let mut bash = sh(bomb);
        bash.argv[0] = "bash".into();
        let outcome = run(&limited(bash, limits));
        assert!(
            matches!(outcome.reason, Reason::ProcessLimit | Reason::Exited),
            "{outcome:?}"
        );
    }
}
