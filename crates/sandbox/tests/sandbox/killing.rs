//! A ticket kills its own run and no other, whenever it is used.

use std::time::{Duration, Instant};

use sandbox::{Reason, WardenError};

use crate::stage::{command, folder, is_alive, pid_in, run_in, sh, try_run, warden};

#[test]
fn another_thread_kills_a_run() {
    let (_keep, folder) = folder();
    let mut spec = sh("sh -c 'echo $$ > inner; sleep 60; :' & sleep 60");
    spec.directory.clone_from(&folder);
    let mut warden = warden();
    let ticket = warden.ticket();
    let outcome = std::thread::scope(|scope| {
        let killer = ticket.clone();
        let inner = folder.join("inner");
        scope.spawn(move || {
            pid_in(&inner);
            killer.kill().unwrap();
        });
        warden.run(&ticket, &spec).unwrap()
    });
    assert_eq!(
        (outcome.reason, outcome.signal),
        (Reason::Cancelled, Some(libc::SIGKILL))
    );
    assert!(outcome.wall < Duration::from_secs(15), "{:?}", outcome.wall);
    assert!(!is_alive(pid_in(&folder.join("inner"))));
}

#[test]
fn a_late_kill_does_not_hit_the_next_run() {
    let mut warden = warden();
    let late = warden.ticket();
    warden.run(&late, &command(&["true"])).unwrap();
    late.kill().unwrap();
    assert_eq!(run_in(&mut warden, &command(&["true"])).reason, Reason::Exited);
    let ticket = warden.ticket();
    std::thread::scope(|scope| {
        let start = Instant::now();
        // All the while, so that it comes also in the middle of the run.
        scope.spawn(move || {
            while start.elapsed() < Duration::from_millis(200) {
                let _ = late.kill();
            }
        });
        assert_eq!(
            warden.run(&ticket, &sh("sleep 0.3")).unwrap().reason,
            Reason::Exited
        );
    });
}

#[test]
fn an_early_kill_keeps_the_run_from_starting() {
    let (_keep, folder) = folder();
    let mut warden = warden();
    let [first, second, third] = [(); 3].map(|()| warden.ticket());
    // Out of order, and one that is never used.
    third.kill().unwrap();
    first.kill().unwrap();
    let mut spec = sh("echo > ran");
    spec.directory.clone_from(&folder);
    assert_eq!(warden.run(&second, &sh("true")).unwrap().reason, Reason::Exited);
    let outcome = warden.run(&third, &spec).unwrap();
    assert_eq!(
        (outcome.reason, outcome.exit_code, outcome.signal),
        (Reason::Cancelled, None, None)
    );
    assert!(!folder.join("ran").exists());
    assert_eq!(run_in(&mut warden, &spec).reason, Reason::Exited);
    assert!(folder.join("ran").exists());
}

#[test]
fn a_ticket_is_good_for_one_run_of_its_own_warden() {
    let (mut one, mut other) = (warden(), warden());
    let ticket = one.ticket();
    let error = other.run(&ticket, &sh("true")).unwrap_err();
    assert!(matches!(error, WardenError::Ticket), "{error:?}");
    one.run(&ticket, &sh("true")).unwrap();
    let error = one.run(&ticket, &sh("true")).unwrap_err();
    assert!(matches!(error, WardenError::Ticket), "{error:?}");
    assert_eq!(try_run(&mut one, &sh("true")).unwrap().reason, Reason::Exited);
}

#[test]
fn a_warden_that_its_command_stopped_still_hears() {
    let (_keep, folder) = folder();
    let mut spec = sh("echo $$ > inner; kill -STOP $PPID; sleep 60");
    spec.directory.clone_from(&folder);
    let mut warden = warden();
    let stopped = format!("/proc/{}/stat", warden.pid());
    let ticket = warden.ticket();
    let outcome = std::thread::scope(|scope| {
        let killer = ticket.clone();
        scope.spawn(move || {
            let begun = Instant::now();
            while !std::fs::read_to_string(&stopped).unwrap().contains(") T ") {
                assert!(begun.elapsed() < Duration::from_secs(15), "it was never stopped");
                std::thread::yield_now();
            }
            killer.kill().unwrap();
        });
        warden.run(&ticket, &spec).unwrap()
    });
    assert_eq!(outcome.reason, Reason::Cancelled);
    assert!(!is_alive(pid_in(&folder.join("inner"))));
}
