//! A boot that was killed leaves nothing behind, and the next one makes sure of that before it starts anything.

use std::process::{Child, Command};

use boot::State;
use boot::process::Identity;
use serde_json::json;

use crate::stage::{Stage, freeze, is_alive, service, wait_until};

#[test]
fn services_of_a_killed_boot_end_by_themselves() {
    let mut stage = Stage::new(&[
        service("a", None, &["server", "ready"]),
        service("b", Some("a"), &["ready"]),
    ]);
    stage.boot();
    let (a, b) = (stage.wait_state("a", State::Running), stage.running("b"));
    stage.kill_boot();
    wait_until("both ended", || !is_alive(a.pid.unwrap()) && !is_alive(b));
    wait_until("and the server", || !is_alive(a.server_pid.unwrap()));
    assert_eq!((stage.count("a alone"), stage.count("b alone")), (1, 1));
    let status = stage.status().unwrap();
    assert_eq!(status.pid, None);
    assert!(
        status
            .services
            .iter()
            .all(|service| service.state == State::Stopped && service.pid.is_none())
    );

    stage.boot();
    let next = stage.wait_state("b", State::Running);
    assert_eq!((next.restarts, next.last_exit), (0, None));
}

/// None is started while its predecessor lives, so the folder never has two.
#[track_caller]
fn check_successor(stage: &mut Stage, old: u32) {
    stage.boot();
    let new = stage.running("a");
    assert_ne!(new, old);
    assert!(!is_alive(old));
}

#[test]
fn a_deaf_survivor_is_ended_first() {
    let mut stage = Stage::with(
        json!({ "stop_grace": 3000 }),
        &[service("a", None, &["deaf", "ready"])],
    );
    stage.boot();
    let old = stage.running("a");
    stage.kill_boot();
    let orphan = stage.service("a").unwrap();
    assert_eq!((orphan.state, orphan.pid), (State::Stopping, Some(old)));
    check_successor(&mut stage, old);
    assert_eq!(stage.count("a term"), 1);
}

// Stopped after its boot was killed: one that is stopped before is hung up by the kernel, as its group is orphaned.
#[test]
fn a_stopped_survivor_is_woken_and_ends_in_order() {
    let mut stage = Stage::new(&[service("a", None, &["untied", "ready"])]);
    stage.boot();
    let old = stage.running("a");
    stage.kill_boot();
    freeze(old);
    check_successor(&mut stage, old);
    assert_eq!((stage.count("a term"), stage.count("a end")), (1, 1));
}

#[test]
fn a_stopped_and_deaf_survivor_is_killed() {
    let mut stage = Stage::with(
        json!({ "stop_grace": 300 }),
        &[service("a", None, &["deaf", "ready"])],
    );
    stage.boot();
    let old = stage.running("a");
    stage.kill_boot();
    freeze(old);
    check_successor(&mut stage, old);
    assert_eq!(stage.count("a end"), 0);
}

#[test]
fn a_service_that_was_stopped_before_its_boot_was_killed_is_gone_too() {
    let mut stage = Stage::new(&[service("a", None, &["ready"])]);
    stage.boot();
    let old = stage.running("a");
    freeze(old);
    stage.kill_boot();
    check_successor(&mut stage, old);
}

#[test]
fn boot_can_be_stopped_while_it_waits_for_a_survivor() {
    let mut stage = Stage::with(
        json!({ "stop_grace": 3_600_000 }),
        &[service("a", None, &["deaf", "ready"])],
    );
    stage.boot();
    let old = stage.running("a");
    stage.kill_boot();
    let boot = stage.boot();
    let doing = format!("waits for the end of process {old} of an earlier boot");
    stage.wait_for("a", "waiting", |a| a.doing.as_deref() == Some(&doing));
    crate::stage::send(boot, nix::sys::signal::Signal::SIGTERM);
    assert_eq!(stage.ended().code(), Some(0));
}

/// Somebody who has nothing to do with us.
struct Stranger(Child);

impl Stranger {
    fn new() -> Stranger {
        Stranger(Command::new("sleep").arg("600").spawn().unwrap())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn another_process_with_the_old_number_is_never_touched() {
    let stranger = Stranger::new();
    let real = Identity::of(stranger.0.id()).unwrap();
    let texts = [
        Identity {
            started: real.started + 1,
            ..real.clone()
        }
        .to_string(),
        Identity {
            machine: "00000000-0000-0000-0000-000000000000".into(),
            ..real.clone()
        }
        .to_string(),
        // Only half of it was written.
        format!("{}\n", real.pid),
        "1\n1\n".to_string(),
        "0\n0\nx\n".to_string(),
        "garbage".to_string(),
    ]
    .map(String::into_bytes)
    .into_iter()
    .chain([b"\xff\xfe\0".to_vec()]);
    for text in texts {
        let mut stage = Stage::new(&[service("a", None, &["ready"])]);
        std::fs::create_dir(stage.run()).unwrap();
        std::fs::write(stage.run().join("a.pid"), &text).unwrap();
        stage.boot();
        stage.running("a");
        assert!(real.is_alive(), "{}", text.escape_ascii());
    }
}
