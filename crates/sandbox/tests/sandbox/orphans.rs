//! Processes that outlived a killed warden can be found and killed.

use std::path::Path;

use sandbox::{ProcessSelector, WardenError, kill_orphans, kill_orphans_while};

use crate::harness::{folder, is_alive, pid_in, sh, try_run, wait_until, warden};

/// Kills a warden while a daemon of its command runs, and returns the daemon's process id.
fn leave_orphan(folder: &Path, mark: &str, directory: &str) -> i32 {
    let script = "setsid sh -c 'echo $$ > orphan; cd \"$0\"; exec sleep 60' DIRECTORY & echo $$ > command; exec sleep 60";
    let mut spec = sh(&script.replace("DIRECTORY", directory));
    spec.directory = folder.into();
    spec.env.push(("MARK".into(), mark.into()));
    let mut warden = warden();
    let pid = warden.pid() as i32;
    let (orphan, command) = std::thread::scope(|scope| {
        let running = scope.spawn(move || {
            let error = try_run(&mut warden, &spec).unwrap_err();
            assert!(
                matches!(error, WardenError::Died { .. }) && error.is_warden_lost(),
                "{error:?}"
            );
            let error = try_run(&mut warden, &spec).unwrap_err();
            assert!(error.is_warden_lost(), "{error:?}");
        });
        let pids = (pid_in(&folder.join("orphan")), pid_in(&folder.join("command")));
        wait_until("the orphan sleeps", || {
            std::fs::read_to_string(format!("/proc/{}/comm", pids.0)).is_ok_and(|name| name == "sleep\n")
        });
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
        running.join().unwrap();
        pids
    });
    wait_until("the first process dies with the warden", || !is_alive(command));
    assert!(
        !Path::new(&format!("/proc/{pid}")).exists(),
        "the dead warden was waited for"
    );
    assert!(is_alive(orphan));
    orphan
}

#[test]
fn orphans_are_found_by_their_environment() {
    let (_keep, folder) = folder();
    let mark = folder.to_str().unwrap();
    let orphan = leave_orphan(&folder, mark, "/");
    let other = ProcessSelector {
        environment_variable: Some(("MARK".into(), format!("{mark}x").into())),
        working_directory: None,
    };
    assert_eq!(kill_orphans(&other).unwrap(), 0);
    assert!(is_alive(orphan));
    let selector = ProcessSelector {
        environment_variable: Some(("MARK".into(), mark.into())),
        working_directory: None,
    };
    assert_eq!(kill_orphans(&selector).unwrap(), 1);
    assert!(!is_alive(orphan));
    assert_eq!(kill_orphans(&selector).unwrap(), 0);
}

#[test]
fn orphans_are_found_by_their_working_directory() {
    let (_keep, folder) = folder();
    std::fs::create_dir_all(folder.join("slot/inner")).unwrap();
    let orphan = leave_orphan(&folder.join("slot"), "x", "inner");
    std::fs::create_dir(folder.join("slo")).unwrap();
    let beneath = |name: &str| ProcessSelector {
        environment_variable: None,
        working_directory: Some(folder.join(name)),
    };
    assert_eq!(kill_orphans(&beneath("slo")).unwrap(), 0);
    assert!(is_alive(orphan));
    assert_eq!(kill_orphans(&beneath("slot")).unwrap(), 1);
    assert!(!is_alive(orphan));
}

/// The folder gets another command meanwhile.
#[test]
fn orphans_continue_if_the_selector_no_longer_applies() {
    let (_keep, folder) = folder();
    let orphan = leave_orphan(&folder, "x", ".");
    let selector = ProcessSelector {
        environment_variable: None,
        working_directory: Some(folder.clone()),
    };
    // The closure is called after all processes were found, so none of them belongs to the new command.
    let state = || std::fs::read_to_string(format!("/proc/{orphan}/stat")).unwrap_or_default();
    let is_stopped = || state().contains(") T ");
    let killed = kill_orphans_while(&selector, || {
        wait_until("the orphan is stopped", is_stopped);
        false
    });
    assert_eq!(killed.unwrap(), 0);
    wait_until("the orphan continues", || !is_stopped());
    assert!(is_alive(orphan));
    assert_eq!(kill_orphans_while(&selector, || true).unwrap(), 1);
    assert!(!is_alive(orphan));
}

#[test]
fn the_calling_process_is_never_killed() {
    let directory = std::env::current_dir().unwrap();
    let (_keep, folder) = folder();
    std::env::set_current_dir(&folder).unwrap();
    assert_eq!(
        kill_orphans(&ProcessSelector {
            environment_variable: None,
            working_directory: Some(folder)
        })
        .unwrap(),
        0
    );
    std::env::set_current_dir(directory).unwrap();
}
