//! A warden and its command do not outlive their owner, and the lock tells when they are gone.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use sandbox::{LaunchError, Launcher, Reason};

use crate::stage::{folder, is_alive, launcher, pid_in, run_in, sh, stdout, wait_until, warden};

fn signal(pid: i32, signal: libc::c_int) {
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid),
        nix::sys::signal::Signal::try_from(signal).unwrap(),
    )
    .unwrap();
}

/// An owner in a process of its own, whose command and a daemon of it write their numbers to files.
fn owner(folder: &Path, promise: Duration) -> Child {
    let script = "setsid sh -c 'echo $$ > daemon; exec sleep 60' & echo $$ > command; sleep 60; :";
    Command::new(env!("CARGO_BIN_EXE_sandbox-fixture"))
        .arg("own")
        .arg(folder)
        .arg(promise.as_millis().to_string())
        .args(["sh", "-c", script])
        .spawn()
        .unwrap()
}

#[test]
fn all_is_gone_when_the_lock_of_a_killed_owner_is_free() {
    let (_keep, folder) = folder();
    let mut owner = owner(&folder, Duration::from_secs(3600));
    let pids = ["warden", "command", "daemon"].map(|file| pid_in(&folder.join(file)));
    let lock = File::open(folder.join("lock")).unwrap();

    // A warden that cannot go on, so that there is a time between the owner's death and its own.
    signal(pids[0], libc::SIGSTOP);
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(lock.try_lock().is_err(), "the warden holds the lock");
    assert!(pids.into_iter().all(is_alive));
    signal(pids[0], libc::SIGCONT);
    lock.lock().unwrap();
    for pid in &pids[1..] {
        assert!(!is_alive(*pid), "{pid} of {pids:?} has outlived the lock");
    }
    wait_until("the warden is gone", || !is_alive(pids[0]));
}

#[test]
fn a_stopped_owner_is_left_behind() {
    let (_keep, folder) = folder();
    let mut owner = owner(&folder, Duration::from_millis(1500));
    let pids = ["command", "daemon"].map(|file| pid_in(&folder.join(file)));
    signal(owner.id() as i32, libc::SIGSTOP);
    wait_until("the command is gone", || !pids.into_iter().any(is_alive));
    signal(owner.id() as i32, libc::SIGCONT);
    assert!(
        owner.wait().unwrap().success(),
        "the owner gets an outcome, not an error"
    );
}

#[test]
fn dropping_a_warden_ends_it() {
    let mut warden = warden();
    run_in(&mut warden, &sh("true"));
    let pid = warden.pid() as i32;
    assert!(is_alive(pid));
    drop(warden);
    assert!(
        !Path::new(&format!("/proc/{pid}")).exists(),
        "not even a zombie is left"
    );
}

#[test]
fn a_warden_is_deaf_to_signals_of_its_owners_group() {
    let mut warden = warden();
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE] {
        signal(warden.pid() as i32, number);
    }
    assert_eq!(stdout(&run_in(&mut warden, &sh("echo on"))), "on\n");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", warden.pid())).unwrap();
    let (name, rest) = stat.split_once(") ").unwrap();
    assert!(name.ends_with("(conclave-warden"), "{stat}");
    let session = rest.split(' ').nth(3).unwrap();
    assert_eq!(session, warden.pid().to_string());
}

#[test]
fn a_promise_that_is_not_kept_abandons_the_run() {
    let (_keep, folder) = folder();
    let mut warden = warden();
    let remote = warden.remote();
    let mut spec = sh("echo $$ > command; sleep 60");
    spec.directory.clone_from(&folder);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            pid_in(&folder.join("command"));
            remote.live_until(Duration::from_millis(200)).unwrap();
        });
        run_in(&mut warden, &spec)
    });
    assert_eq!(
        (outcome.reason, outcome.signal),
        (Reason::Abandoned, Some(libc::SIGKILL))
    );
    let outcome = run_in(&mut warden, &sh("echo ran"));
    assert_eq!(
        (outcome.reason, outcome.stdout.bytes),
        (Reason::Abandoned, Vec::new())
    );
    warden.remote().live_until(Duration::from_secs(60)).unwrap();
    assert_eq!(run_in(&mut warden, &sh("true")).reason, Reason::Exited);
}

#[test]
fn a_promise_that_is_renewed_lets_the_run_go_on() {
    const PROMISE: Duration = Duration::from_secs(1);
    let mut warden = warden();
    let remote = warden.remote();
    for _ in 0..20 {
        let mut last = Instant::now();
        remote.live_until(PROMISE).unwrap();
        let over = AtomicBool::new(false);
        let (outcome, kept) = std::thread::scope(|scope| {
            let promising = scope.spawn(|| {
                let mut kept = true;
                while !over.load(Relaxed) {
                    std::thread::sleep(Duration::from_millis(50));
                    let now = Instant::now();
                    remote.live_until(PROMISE).unwrap();
                    // Until it is sent: before that, the warden could not know.
                    kept &= last.elapsed() < PROMISE;
                    last = now;
                }
                kept && last.elapsed() < PROMISE
            });
            let outcome = run_in(&mut warden, &sh("sleep 1.5"));
            over.store(true, Relaxed);
            (outcome, promising.join().unwrap())
        });
        // A machine that did not let us promise in time has tried something else.
        if kept {
            assert_eq!(outcome.reason, Reason::Exited);
            return;
        }
    }
    panic!("no promise could be kept");
}

#[test]
fn a_program_that_is_no_warden_is_refused() {
    let start = |program: &str| {
        Launcher {
            program: program.into(),
            args: Vec::new(),
            ..launcher()
        }
        .start()
    };
    let error = start("/bin/true").unwrap_err();
    assert!(
        matches!(error, LaunchError::Answer { .. } | LaunchError::Greet(_)),
        "{error:?}"
    );
    let error = start("/nowhere").unwrap_err();
    assert!(matches!(error, LaunchError::Spawn { .. }), "{error:?}");
}
