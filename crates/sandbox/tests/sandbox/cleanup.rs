//! Nothing of a command is left after it has ended, and processes that it left do not delay its end.

use std::fs;
use std::path::Path;
use std::time::Duration;

use sandbox::{CommandEndReason, CommandLimits};

use crate::harness::{
    command, folder, is_alive, limited, pid_in, python, run, run_in, sh, stdout, wait_until, warden,
};

#[test]
fn a_daemon_ends_with_its_command() {
    let (_keep, folder) = folder();
    let mut spec = sh(
        "setsid sh -c 'setsid sh -c \"echo \\$\\$ > pid.new; mv pid.new pid; exec sleep 60\" &' & until [ -e pid ]; do sleep 0.01; done",
    );
    spec.directory.clone_from(&folder);
    let outcome = run(&spec);
    assert_eq!(
        (outcome.reason, outcome.exit_code),
        (CommandEndReason::Exited, Some(0))
    );
    assert!(!is_alive(pid_in(&folder.join("pid"))));
}

#[test]
fn a_background_process_with_open_output_does_not_delay_the_end() {
    let outcome = run(&sh("sleep 60 & echo here"));
    // The command did not run into the wall limit of the harness, which is half as long as the background process
    // sleeps.
    assert_eq!(
        (outcome.reason, stdout(&outcome).as_str()),
        (CommandEndReason::Exited, "here\n")
    );
}

#[test]
fn stopped_processes_and_processes_that_ignore_signals_are_killed() {
    let (_keep, folder) = folder();
    let mut spec = sh(r#"
        sh -c 'echo $$ > stopped; kill -STOP $$' &
        sh -c 'trap "" HUP INT TERM; echo $$ > deaf; while :; do sleep 60; done' &
        until [ -s stopped ] && [ -s deaf ]; do sleep 0.01; done"#);
    spec.directory.clone_from(&folder);
    assert_eq!(run(&spec).exit_code, Some(0));
    for file in ["stopped", "deaf"] {
        assert!(!is_alive(pid_in(&folder.join(file))), "{file}");
    }
}

/// Each process starts another one in a new session and exits, as fast as it can. The number is limited in case
/// nothing kills them.
const FORK_INTO_NEW_SESSIONS: &str = r"
import os, time
open('first', 'w').write(f'{os.getpid()}\n')
for i in range(8):
    if os.fork() == 0:
        for i in range(100000):
            if os.fork(): os._exit(0)
            os.setsid()
time.sleep(0.2)
";

/// The number of processes with this working directory.
fn processes_in(folder: &Path) -> usize {
    let all = fs::read_dir("/proc").expect("a process table").flatten();
    all.filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == folder))
        .count()
}

#[test]
fn processes_that_fork_into_new_sessions_are_killed() {
    let (_keep, folder) = folder();
    let mut spec = python(FORK_INTO_NEW_SESSIONS);
    spec.directory.clone_from(&folder);
    spec.env.push(("RUNNER".into(), folder.as_os_str().to_owned()));
    let outcome = run(&spec);
    assert_eq!(
        (outcome.reason, outcome.exit_code),
        (CommandEndReason::Exited, Some(0))
    );
    assert_eq!(processes_in(&folder), 0);
}

#[test]
fn a_process_tree_beyond_its_wall_limit_is_killed() {
    let (_keep, folder) = folder();
    let mut spec = sh("sh -c 'echo $$ > inner; sleep 60; :' & sleep 60");
    spec.directory.clone_from(&folder);
    let inner = folder.join("inner");
    // On a busy machine it takes a while until the inner process exists.
    let mut wall = Duration::from_millis(300);
    while !inner.exists() {
        let limits = CommandLimits {
            wall: Some(wall),
            ..CommandLimits::default()
        };
        assert_eq!(
            run(&limited(spec.clone(), limits)).reason,
            CommandEndReason::WallLimit
        );
        wall *= 2;
    }
    assert_eq!(processes_in(&folder), 0);
}

#[test]
fn orphans_are_reaped_while_the_command_runs() {
    let (_keep, folder) = folder();
    let mut spec = sh(
        "(sh -c 'echo $$ > pid.new; mv pid.new pid' &); until [ -e pid ]; do :; done; while [ -e /proc/$(cat pid) ]; do :; done",
    );
    spec.directory.clone_from(&folder);
    assert_eq!(run(&spec).reason, CommandEndReason::Exited);
}

#[test]
fn a_warden_leaks_no_children_or_descriptors_over_many_runs() {
    let mut warden = warden();
    let pid = warden.pid();
    let descriptors = || fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let children = || {
        let parent = format!(" {pid} ");
        let stats = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|e| fs::read_to_string(e.path().join("stat")).ok());
        stats
            .filter(|stat| {
                stat.rsplit_once(')')
                    .is_some_and(|(_, rest)| rest[2..].starts_with(&parent))
            })
            .count()
    };
    let specs = [
        command(&["true"]),
        command(&["nowhere"]),
        sh("sleep 60 & sleep 60 & exit 1"),
        sandbox::CommandSpec {
            input: sandbox::CommandInput::Bytes(vec![1]),
            ..command(&["cat"])
        },
        sandbox::CommandSpec {
            directory: "/nowhere".into(),
            ..command(&["/bin/true"])
        },
    ];
    let run_all = |warden: &mut sandbox::Warden| {
        for spec in &specs {
            // One of them fails on purpose.
            let _ = crate::harness::try_run(warden, spec);
        }
    };
    run_all(&mut warden);
    let before = descriptors();
    for _ in 0..40 {
        run_all(&mut warden);
    }
    assert_eq!((descriptors(), children()), (before, 0));
    // Checks that a leftover child or descriptor would be noticed.
    let run_handle = warden.new_run();
    let kill = run_handle.clone();
    std::thread::scope(|scope| {
        let running = scope.spawn(move || warden.run(&run_handle, &sh("sleep 60")).unwrap());
        wait_until("a child is seen", || children() == 1 && descriptors() > before);
        kill.kill().unwrap();
        assert_eq!(running.join().unwrap().reason, CommandEndReason::Cancelled);
    });
}

#[test]
fn a_warden_can_run_again_after_every_end_reason() {
    let mut warden = warden();
    let wall = CommandLimits {
        wall: Some(Duration::from_millis(50)),
        ..CommandLimits::default()
    };
    let output = CommandLimits {
        output: Some(10),
        ..CommandLimits::default()
    };
    for spec in [
        limited(sh("sleep 60"), wall),
        limited(sh("yes"), output),
        sh("kill -9 $$"),
        command(&["nowhere"]),
    ] {
        run_in(&mut warden, &spec);
        let outcome = run_in(&mut warden, &sh("echo fine"));
        assert_eq!(
            (stdout(&outcome).as_str(), outcome.reason),
            ("fine\n", CommandEndReason::Exited)
        );
    }
}
