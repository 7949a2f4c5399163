//! The ground on which clusters are tested: if it gave way, the tests on it would show nothing.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use cluster_tests::{Dns, Host, Lan, await_that};
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(20);

/// Somebody who says a word to whoever connects.
fn speak(host: &Host) -> std::process::Child {
    let code = "import socket, sys\n\
                server = socket.create_server((sys.argv[1], 7))\n\
                while True:\n  peer, _ = server.accept(); peer.sendall(b'well'); peer.close()";
    host.command(None, Path::new("python3"))
        .args(["-c", code, host.address()])
        .spawn()
        .unwrap()
}

fn hears(host: &Host, other: &Host) -> bool {
    let script = format!("timeout 0.5 cat < /dev/tcp/{}/7", other.address());
    let output = host
        .command(None, Path::new("timeout"))
        .args(["1", "bash", "-c", &script])
        .stderr(Stdio::null())
        .output();
    output.unwrap().stdout == b"well"
}

async fn heard(host: &Host, other: &Host) {
    await_that("a word", SOON, async || hears(host, other).then_some(())).await;
}

#[tokio::test]
async fn hosts_hear_each_other_unless_a_cable_is_pulled() {
    let lan = Lan::make();
    let hosts = [lan.host(), lan.host(), lan.host()];
    let [a, b, c] = &hosts;
    let mut speakers = hosts.each_ref().map(speak);
    for (host, other) in [(a, b), (b, a), (a, c), (a, a)] {
        heard(host, other).await;
    }
    a.cut();
    assert!(!hears(a, b) && !hears(b, a));
    heard(b, c).await;
    heard(a, a).await;
    a.heal();
    heard(a, b).await;
    a.mute(b);
    assert!(!hears(a, b) && !hears(b, a));
    heard(a, c).await;
    a.unmute(b);
    heard(b, a).await;
    drop(hosts);
    // Whatever ran there has ended with its host.
    for speaker in &mut speakers {
        let ended = await_that("the end of a speaker", SOON, async || speaker.try_wait().unwrap());
        assert!(!ended.await.success());
    }
}

#[tokio::test]
async fn names_lead_where_the_test_wants_them_to() {
    let folder = TempDir::new().unwrap();
    let lan = Lan::make();
    let dns = Dns::start(lan.host(), folder.path());
    let host = lan.host();
    let lookup = |name: &str| dns.lookup(&host, name);
    assert_eq!(lookup("service"), [""; 0]);
    for (name, addresses) in [
        ("service", &["198.51.100.1", "198.51.100.2", "198.51.100.3"][..]),
        ("service", &["198.51.100.4"]),
        ("tasks.service", &["198.51.100.5", "198.51.100.6"]),
    ] {
        dns.answer(name, addresses);
        assert_eq!(lookup(name), addresses);
    }
    assert_eq!(lookup("service"), [""; 0]);
}
