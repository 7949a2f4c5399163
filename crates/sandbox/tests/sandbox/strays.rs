//! What a killed warden leaves behind can be found and killed.

use std::path::Path;

use sandbox::{Marker, WardenError, kill_strays, kill_strays_while};

use crate::stage::{folder, is_alive, pid_in, sh, try_run, wait_until, warden};

/// Kills a warden while a daemon of its command runs; returns the daemon.
fn leave_stray(folder: &Path, mark: &str, directory: &str) -> i32 {
    let script = "setsid sh -c 'echo $$ > stray; cd \"$0\"; exec sleep 60' DIRECTORY & echo $$ > command; exec sleep 60";
    let mut spec = sh(&script.replace("DIRECTORY", directory));
    spec.directory = folder.into();
    spec.env.push(("MARK".into(), mark.into()));
    let mut warden = warden();
    let pid = warden.pid() as i32;
    let (stray, command) = std::thread::scope(|scope| {
        let running = scope.spawn(move || {
            let error = try_run(&mut warden, &spec).unwrap_err();
            assert!(
                matches!(error, WardenError::Died { .. }) && error.is_final(),
                "{error:?}"
            );
            let error = try_run(&mut warden, &spec).unwrap_err();
            assert!(error.is_final(), "{error:?}");
        });
        let pids = (pid_in(&folder.join("stray")), pid_in(&folder.join("command")));
        wait_until("the stray sleeps", || {
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
    assert!(is_alive(stray));
    stray
}

#[test]
fn strays_are_known_by_their_environment() {
    let (_keep, folder) = folder();
    let mark = folder.to_str().unwrap();
    let stray = leave_stray(&folder, mark, "/");
    let other = Marker {
        variable: Some(("MARK".into(), format!("{mark}x").into())),
        directory: None,
    };
    assert_eq!(kill_strays(&other).unwrap(), 0);
    assert!(is_alive(stray));
    let marker = Marker {
        variable: Some(("MARK".into(), mark.into())),
        directory: None,
    };
    assert_eq!(kill_strays(&marker).unwrap(), 1);
    assert!(!is_alive(stray));
    assert_eq!(kill_strays(&marker).unwrap(), 0);
}

#[test]
fn strays_are_known_by_where_they_work() {
    let (_keep, folder) = folder();
    std::fs::create_dir_all(folder.join("slot/inner")).unwrap();
    let stray = leave_stray(&folder.join("slot"), "x", "inner");
    std::fs::create_dir(folder.join("slo")).unwrap();
    let beneath = |name: &str| Marker {
        variable: None,
        directory: Some(folder.join(name)),
    };
    assert_eq!(kill_strays(&beneath("slo")).unwrap(), 0);
    assert!(is_alive(stray));
    assert_eq!(kill_strays(&beneath("slot")).unwrap(), 1);
    assert!(!is_alive(stray));
}

/// A folder in which another command begins meanwhile.
#[test]
fn strays_whose_mark_becomes_anothers_go_on() {
    let (_keep, folder) = folder();
    let stray = leave_stray(&folder, "x", ".");
    let marker = Marker {
        variable: None,
        directory: Some(folder.clone()),
    };
    // It is asked when all are found: none was begun after the mark became another's.
    let state = || std::fs::read_to_string(format!("/proc/{stray}/stat")).unwrap_or_default();
    let is_stopped = || state().contains(") T ");
    let killed = kill_strays_while(&marker, || {
        wait_until("it is stopped", is_stopped);
        false
    });
    assert_eq!(killed.unwrap(), 0);
    wait_until("it goes on", || !is_stopped());
    assert!(is_alive(stray));
    assert_eq!(kill_strays_while(&marker, || true).unwrap(), 1);
    assert!(!is_alive(stray));
}

#[test]
fn the_caller_is_no_stray() {
    let directory = std::env::current_dir().unwrap();
    let (_keep, folder) = folder();
    std::env::set_current_dir(&folder).unwrap();
    assert_eq!(
        kill_strays(&Marker {
            variable: None,
            directory: Some(folder)
        })
        .unwrap(),
        0
    );
    std::env::set_current_dir(directory).unwrap();
}
