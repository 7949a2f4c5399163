//! A command that exceeds a limit is ended, and one that stays within it is not.

use std::time::Duration;

use sandbox::{CommandEndReason, CommandLimits, CommandSpec};

use crate::harness::{limited, python, run, sh};

const MIB: u64 = 1 << 20;

/// When the kernel itself ends a single process with a CPU limit below a second. The warden must be earlier.
const KERNEL_CPU_LIMIT: Duration = Duration::from_secs(2);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_command_beyond_its_wall_time_is_ended() {
    let limits = CommandLimits {
        wall: Some(ms(150)),
        ..CommandLimits::default()
    };
    let outcome = run(&limited(sh("sleep 60"), limits));
    assert_eq!(
        (outcome.reason, outcome.signal),
        (CommandEndReason::WallLimit, Some(libc::SIGKILL))
    );
    // Long before the command would have ended by itself.
    assert!(
        outcome.wall >= ms(150) && outcome.wall < ms(30_000),
        "{:?}",
        outcome.wall
    );
}

#[test]
fn one_process_beyond_the_cpu_limit_is_ended() {
    let limits = CommandLimits {
        cpu: Some(ms(300)),
        ..CommandLimits::default()
    };
    for script in ["while :; do :; done", "trap '' XCPU; while :; do :; done"] {
        let outcome = run(&limited(sh(script), limits));
        assert_eq!(outcome.reason, CommandEndReason::TimeLimit);
        assert!(
            outcome.cpu >= ms(290) && outcome.cpu < KERNEL_CPU_LIMIT,
            "{:?}",
            outcome.cpu
        );
    }
}

#[test]
fn several_processes_together_beyond_the_cpu_limit_are_ended() {
    let limits = CommandLimits {
        cpu: Some(ms(400)),
        ..CommandLimits::default()
    };
    let outcome = run(&limited(
        sh("for i in 1 2 3 4; do (while :; do :; done) & done; wait"),
        limits,
    ));
    assert_eq!(outcome.reason, CommandEndReason::TimeLimit);
    assert!(
        outcome.cpu >= ms(390) && outcome.cpu < KERNEL_CPU_LIMIT,
        "{:?}",
        outcome.cpu
    );
}

#[test]
fn cpu_time_missed_by_sampling_still_counts() {
    // Each process lives shorter than the sampling interval, and the last one ends with the command.
    let limits = CommandLimits {
        cpu: Some(ms(1)),
        ..CommandLimits::default()
    };
    assert_eq!(
        run(&limited(
            sh("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"),
            limits
        ))
        .reason,
        CommandEndReason::TimeLimit
    );
    let limits = CommandLimits {
        cpu: Some(ms(5000)),
        ..CommandLimits::default()
    };
    assert_eq!(
        run(&limited(
            sh("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"),
            limits
        ))
        .reason,
        CommandEndReason::Exited
    );
}

fn within_memory(limit: u64, script: &str) -> CommandSpec {
    limited(
        python(script),
        CommandLimits {
            memory: Some(limit * MIB),
            ..CommandLimits::default()
        },
    )
}

#[test]
fn one_process_beyond_the_memory_limit_is_ended() {
    let script = "import time\nx = b'x' * (200 << 20)\ntime.sleep(60)";
    let outcome = run(&within_memory(64, script));
    assert_eq!(outcome.reason, CommandEndReason::MemoryLimit);
    assert!(outcome.memory > 64 * MIB, "{}", outcome.memory);
    assert_eq!(
        run(&within_memory(64, "x = b'x' * (20 << 20)")).reason,
        CommandEndReason::Exited
    );
}

#[test]
fn memory_that_is_freed_at_once_still_counts() {
    let outcome = run(&within_memory(40, "x = b'x' * (60 << 20)"));
    assert_eq!(outcome.reason, CommandEndReason::MemoryLimit);
    assert!(outcome.memory > 40 * MIB, "{}", outcome.memory);
}

#[test]
fn several_processes_together_beyond_the_memory_limit_are_ended() {
    let script = "import os, time\nfor i in range(4):\n if os.fork() == 0:\n  x = b'x' * (40 << 20); time.sleep(60)\ntime.sleep(60)";
    let outcome = run(&within_memory(120, script));
    assert_eq!(outcome.reason, CommandEndReason::MemoryLimit);
    assert!(outcome.memory > 120 * MIB, "{}", outcome.memory);
}

#[test]
fn memory_shared_between_processes_counts_once() {
    let script = "import os, time\nx = b'x' * (60 << 20)\nfor i in range(4):\n if os.fork() == 0: time.sleep(0.3); os._exit(0)\nfor i in range(4): os.wait()";
    let outcome = run(&within_memory(120, script));
    assert_eq!(outcome.reason, CommandEndReason::Exited, "{outcome:?}");
    assert!(
        outcome.memory > 60 * MIB && outcome.memory < 120 * MIB,
        "{}",
        outcome.memory
    );
}

#[test]
fn memory_shared_between_vfork_and_exec_counts_once() {
    let script = "import os\nx = b'x' * (60 << 20)\nfor i in range(300): os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)";
    let outcome = run(&within_memory(100, script));
    assert_eq!(outcome.reason, CommandEndReason::Exited, "{outcome:?}");
}

#[test]
fn too_many_processes_are_ended() {
    let limits = CommandLimits {
        processes: Some(8),
        ..CommandLimits::default()
    };
    let outcome = run(&limited(
        sh("i=0; while [ $i -lt 100 ]; do sleep 60 & i=$((i+1)); done; wait"),
        limits,
    ));
    assert_eq!(outcome.reason, CommandEndReason::ProcessLimit);
    let few = "sleep 0.1 & sleep 0.1 & wait; for i in 1 2 3 4 5 6 7 8 9 10; do true | true; done";
    assert_eq!(run(&limited(sh(few), limits)).reason, CommandEndReason::Exited);
}

#[test]
fn threads_count_as_processes() {
    let limits = CommandLimits {
        processes: Some(8),
        ..CommandLimits::default()
    };
    let script =
        "import threading, time\nfor i in range(20): threading.Thread(target=time.sleep, args=(60,)).start()";
    let outcome = run(&limited(python(script), limits));
    assert_eq!(outcome.reason, CommandEndReason::ProcessLimit, "{outcome:?}");
}

#[test]
fn a_fork_bomb_is_ended() {
    let limits = CommandLimits {
        processes: Some(50),
        ..CommandLimits::default()
    };
    // In the first case the first process stays alive; in the second it ends before the others are counted.
    for bomb in [":(){ :|:& };:; sleep 60", "(:(){ :|:& };:) & sleep 0.02"] {
        let mut bash = sh(bomb);
        bash.argv[0] = "bash".into();
        let outcome = run(&limited(bash, limits));
        assert!(
            matches!(
                outcome.reason,
                CommandEndReason::ProcessLimit | CommandEndReason::Exited
            ),
            "{outcome:?}"
        );
    }
}
