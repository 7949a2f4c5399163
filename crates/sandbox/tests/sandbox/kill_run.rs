//! A run handle kills its own run and no other, whenever it is used.

use std::time::{Duration, Instant};

use sandbox::{CommandEndReason, WardenError};

use crate::harness::{command, folder, is_alive, pid_in, run_in, sh, try_run, warden};

#[test]
fn another_thread_kills_a_run() {
    let (_keep, folder) = folder();
    let mut spec = sh("sh -c 'echo $$ > inner; sleep 60; :' & sleep 60");
    spec.directory.clone_from(&folder);
    let mut warden = warden();
    let run_handle = warden.new_run();
    let outcome = std::thread::scope(|scope| {
        let killer = run_handle.clone();
        let inner = folder.join("inner");
        scope.spawn(move || {
            pid_in(&inner);
            killer.kill().unwrap();
        });
        warden.run(&run_handle, &spec).unwrap()
    });
    assert_eq!(
        (outcome.reason, outcome.signal),
        (CommandEndReason::Cancelled, Some(libc::SIGKILL))
    );
    assert!(outcome.wall < Duration::from_secs(15), "{:?}", outcome.wall);
    assert!(!is_alive(pid_in(&folder.join("inner"))));
}

#[test]
fn a_late_kill_does_not_affect_the_next_run() {
    let mut warden = warden();
    let late = warden.new_run();
    warden.run(&late, &command(&["true"])).unwrap();
    late.kill().unwrap();
    assert_eq!(
        run_in(&mut warden, &command(&["true"])).reason,
        CommandEndReason::Exited
    );
    let run_handle = warden.new_run();
    std::thread::scope(|scope| {
        let start = Instant::now();
        // Repeatedly, so that kills also arrive in the middle of the run.
        scope.spawn(move || {
            while start.elapsed() < Duration::from_millis(200) {
                let _ = late.kill();
            }
        });
        assert_eq!(
            warden.run(&run_handle, &sh("sleep 0.3")).unwrap().reason,
            CommandEndReason::Exited
        );
    });
}

#[test]
fn a_kill_before_the_start_prevents_the_run() {
    let (_keep, folder) = folder();
    let mut warden = warden();
    let [first, second, third] = [(); 3].map(|()| warden.new_run());
    // Out of order, and one for a handle that is never used.
    third.kill().unwrap();
    first.kill().unwrap();
    let mut spec = sh("echo > ran");
    spec.directory.clone_from(&folder);
    assert_eq!(
        warden.run(&second, &sh("true")).unwrap().reason,
        CommandEndReason::Exited
    );
    let outcome = warden.run(&third, &spec).unwrap();
    assert_eq!(
        (outcome.reason, outcome.exit_code, outcome.signal),
        (CommandEndReason::Cancelled, None, None)
    );
    assert!(!folder.join("ran").exists());
    assert_eq!(run_in(&mut warden, &spec).reason, CommandEndReason::Exited);
    assert!(folder.join("ran").exists());
}

#[test]
fn a_run_handle_is_valid_for_one_run_of_its_own_warden() {
    let (mut one, mut other) = (warden(), warden());
    let run_handle = one.new_run();
    let error = other.run(&run_handle, &sh("true")).unwrap_err();
    assert!(matches!(error, WardenError::StaleRunHandle), "{error:?}");
    one.run(&run_handle, &sh("true")).unwrap();
    let error = one.run(&run_handle, &sh("true")).unwrap_err();
    assert!(matches!(error, WardenError::StaleRunHandle), "{error:?}");
    assert_eq!(
        try_run(&mut one, &sh("true")).unwrap().reason,
        CommandEndReason::Exited
    );
}

#[test]
fn a_warden_stopped_by_its_command_still_handles_a_kill() {
    let (_keep, folder) = folder();
    let mut spec = sh("echo $$ > inner; kill -STOP $PPID; sleep 60");
    spec.directory.clone_from(&folder);
    let mut warden = warden();
    let stopped = format!("/proc/{}/stat", warden.pid());
    let run_handle = warden.new_run();
    let outcome = std::thread::scope(|scope| {
        let killer = run_handle.clone();
        scope.spawn(move || {
            let begun = Instant::now();
            while !std::fs::read_to_string(&stopped).unwrap().contains(") T ") {
                assert!(
                    begun.elapsed() < Duration::from_secs(15),
                    "the warden was not stopped"
                );
                std::thread::yield_now();
            }
            killer.kill().unwrap();
        });
        warden.run(&run_handle, &spec).unwrap()
    });
    assert_eq!(outcome.reason, CommandEndReason::Cancelled);
    assert!(!is_alive(pid_in(&folder.join("inner"))));
}
