//! A warden and its command do not outlive their owner, and the lock shows when they are gone.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use sandbox::{CommandEndReason, WardenLaunchError, WardenLauncher};

use crate::harness::{folder, is_alive, launcher, pid_in, run_in, sh, stdout, wait_until, warden};

fn signal(pid: i32, signal: libc::c_int) {
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid),
        nix::sys::signal::Signal::try_from(signal).unwrap(),
    )
    .unwrap();
}

/// An owner in its own process. Its command, and a daemon that the command starts, write their process ids to files.
fn owner(folder: &Path, keep_alive: Duration) -> Child {
    owner_of(folder, keep_alive, "sleep 60")
}

fn owner_of(folder: &Path, keep_alive: Duration, work: &str) -> Child {
    let script = format!("setsid sh -c 'echo $$ > daemon; exec sleep 60' & echo $$ > command; {work}; :");
    Command::new(env!("CARGO_BIN_EXE_sandbox-fixture"))
        .arg("own")
        .arg(folder)
        .arg(keep_alive.as_millis().to_string())
        .args(["sh", "-c", &script])
        .spawn()
        .unwrap()
}

#[test]
fn all_processes_are_gone_when_the_lock_of_a_killed_owner_is_free() {
    let (_keep, folder) = folder();
    let mut owner = owner(&folder, Duration::from_secs(3600));
    let pids = ["warden", "command", "daemon"].map(|file| pid_in(&folder.join(file)));
    let lock = File::open(folder.join("lock")).unwrap();

    // The warden is stopped, so that it certainly ends later than its owner.
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
fn the_command_of_a_stopped_owner_is_ended() {
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

/// Nobody reads what the command writes, as if the owner waited for a disk.
#[test]
fn a_command_whose_owner_does_not_read_its_long_output_is_ended() {
    let (_keep, folder) = folder();
    let mut owner = owner_of(
        &folder,
        Duration::from_millis(1500),
        "while [ ! -e go ]; do sleep 0.01; done; yes",
    );
    let pids = ["command", "daemon"].map(|file| pid_in(&folder.join(file)));
    signal(owner.id() as i32, libc::SIGSTOP);
    std::fs::write(folder.join("go"), "").unwrap();
    wait_until("the command is gone", || !pids.into_iter().any(is_alive));
    signal(owner.id() as i32, libc::SIGCONT);
    assert!(owner.wait().unwrap().success());
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
fn a_warden_ignores_termination_signals_and_has_its_own_session() {
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
fn a_run_is_abandoned_when_the_keep_alive_expires() {
    let (_keep, folder) = folder();
    let mut warden = warden();
    let control = warden.control();
    let mut spec = sh("echo $$ > command; sleep 60");
    spec.directory.clone_from(&folder);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            pid_in(&folder.join("command"));
            control.keep_alive_for(Duration::from_millis(200)).unwrap();
        });
        run_in(&mut warden, &spec)
    });
    assert_eq!(
        (outcome.reason, outcome.signal),
        (CommandEndReason::Abandoned, Some(libc::SIGKILL))
    );
    let outcome = run_in(&mut warden, &sh("echo ran"));
    assert_eq!(
        (outcome.reason, outcome.stdout.head),
        (CommandEndReason::Abandoned, Vec::new())
    );
    warden.control().keep_alive_for(Duration::from_secs(60)).unwrap();
    assert_eq!(run_in(&mut warden, &sh("true")).reason, CommandEndReason::Exited);
}

#[test]
fn renewed_keep_alives_let_the_run_continue() {
    const KEEP_ALIVE: Duration = Duration::from_secs(1);
    let mut warden = warden();
    let control = warden.control();
    for _ in 0..20 {
        let mut last = Instant::now();
        control.keep_alive_for(KEEP_ALIVE).unwrap();
        let over = AtomicBool::new(false);
        let (outcome, in_time) = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let mut in_time = true;
                while !over.load(Relaxed) {
                    std::thread::sleep(Duration::from_millis(50));
                    let now = Instant::now();
                    control.keep_alive_for(KEEP_ALIVE).unwrap();
                    // Measured until the message is sent: the warden cannot know of it earlier.
                    in_time &= last.elapsed() < KEEP_ALIVE;
                    last = now;
                }
                in_time && last.elapsed() < KEEP_ALIVE
            });
            let outcome = run_in(&mut warden, &sh("sleep 1.5"));
            over.store(true, Relaxed);
            (outcome, sender.join().unwrap())
        });
        // If the machine was too busy to send keep-alives in time, the round proves nothing and is repeated.
        if in_time {
            assert_eq!(outcome.reason, CommandEndReason::Exited);
            return;
        }
    }
    panic!("no round could send its keep-alives in time");
}

#[test]
fn a_program_that_is_not_a_warden_is_refused() {
    let start = |program: &str| {
        WardenLauncher {
            program: program.into(),
            args: Vec::new(),
            ..launcher()
        }
        .start()
    };
    let error = start("/bin/true").unwrap_err();
    assert!(
        matches!(
            error,
            WardenLaunchError::NotAWarden { .. } | WardenLaunchError::Handshake(_)
        ),
        "{error:?}"
    );
    let error = start("/nowhere").unwrap_err();
    assert!(matches!(error, WardenLaunchError::Spawn { .. }), "{error:?}");
}
