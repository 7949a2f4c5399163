//! Nothing of a command is left when it is over, and nothing that it left holds it up.

use std::fs;
use std::path::Path;
use std::time::Duration;

use sandbox::{Limits, Reason};

use crate::stage::{
    command, folder, is_alive, limited, pid_in, python, run, run_in, sh, stdout, wait_until, warden,
};

#[test]
fn a_daemon_is_gone_with_its_command() {
    let (_keep, folder) = folder();
    let mut spec = sh(
        "setsid sh -c 'setsid sh -c \"echo \\$\\$ > pid.new; mv pid.new pid; exec sleep 60\" &' & until [ -e pid ]; do sleep 0.01; done",
    );
    spec.directory.clone_from(&folder);
    let outcome = run(&spec);
    assert_eq!((outcome.reason, outcome.exit_code), (Reason::Exited, Some(0)));
    assert!(!is_alive(pid_in(&folder.join("pid"))));
}

#[test]
fn a_background_process_that_holds_the_output_does_not_hold_the_command() {
    let outcome = run(&sh("sleep 60 & echo here"));
    // Not by the limit of the stage, which is half of what the background process would take.
    assert_eq!(
        (outcome.reason, stdout(&outcome).as_str()),
        (Reason::Exited, "here\n")
    );
}

#[test]
fn a_stopped_process_and_one_that_listens_to_nothing_are_gone_too() {
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

/// Each process starts another one, which leaves its group, and goes away, as fast as it can; bounded in case that nobody
/// ends it.
const RUNNERS: &str = r"
import os, time
open('first', 'w').write(f'{os.getpid()}\n')
for i in range(8):
    if os.fork() == 0:
        for i in range(100000):
            if os.fork(): os._exit(0)
            os.setsid()
time.sleep(0.2)
";

/// Those that live and work there.
fn processes_in(folder: &Path) -> usize {
    let all = fs::read_dir("/proc").expect("a process table").flatten();
    all.filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == folder))
        .count()
}

#[test]
fn processes_that_run_away_are_caught() {
    let (_keep, folder) = folder();
    let mut spec = python(RUNNERS);
    spec.directory.clone_from(&folder);
    spec.env.push(("RUNNER".into(), folder.as_os_str().to_owned()));
    let outcome = run(&spec);
    assert_eq!((outcome.reason, outcome.exit_code), (Reason::Exited, Some(0)));
    assert_eq!(processes_in(&folder), 0);
}

#[test]
fn a_tree_that_exceeds_its_time_is_gone() {
    let (_keep, folder) = folder();
    let mut spec = sh("sh -c 'echo $$ > inner; sleep 60; :' & sleep 60");
    spec.directory.clone_from(&folder);
    let inner = folder.join("inner");
    // On a busy machine it takes a while until there is a tree.
    let mut wall = Duration::from_millis(300);
    while !inner.exists() {
        let limits = Limits {
            wall: Some(wall),
            ..Limits::default()
        };
        assert_eq!(run(&limited(spec.clone(), limits)).reason, Reason::WallLimit);
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
    assert_eq!(run(&spec).reason, Reason::Exited);
}

#[test]
fn a_warden_stays_as_it_was_over_many_runs() {
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
        sandbox::Spec {
            input: sandbox::Input::Bytes(vec![1]),
            ..command(&["cat"])
        },
        sandbox::Spec {
            directory: "/nowhere".into(),
            ..command(&["/bin/true"])
        },
    ];
    let run_all = |warden: &mut sandbox::Warden| {
        for spec in &specs {
            // One of them is an error on purpose.
            let _ = crate::stage::try_run(warden, spec);
        }
    };
    run_all(&mut warden);
    let before = descriptors();
    for _ in 0..40 {
        run_all(&mut warden);
    }
    assert_eq!((descriptors(), children()), (before, 0));
    // Each of them would be seen if it were there.
    let ticket = warden.ticket();
    let kill = ticket.clone();
    std::thread::scope(|scope| {
        let running = scope.spawn(move || warden.run(&ticket, &sh("sleep 60")).unwrap());
        wait_until("a child is seen", || children() == 1 && descriptors() > before);
        kill.kill().unwrap();
        assert_eq!(running.join().unwrap().reason, Reason::Cancelled);
    });
}

#[test]
fn a_warden_can_run_again_after_each_kind_of_end() {
    let mut warden = warden();
    let wall = Limits {
        wall: Some(Duration::from_millis(50)),
        ..Limits::default()
    };
    let output = Limits {
        output: Some(10),
        ..Limits::default()
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
            ("fine\n", Reason::Exited)
        );
    }
}
