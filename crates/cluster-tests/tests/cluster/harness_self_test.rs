//! Tests of the harness itself: virtual hosts can be disconnected, and the DNS server answers as it is set.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use cluster_tests::{DnsServer, LanHost, VirtualLan, wait_until};
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(20);

/// A server that sends a short message to each client.
fn start_server(host: &LanHost) -> std::process::Child {
    let code = "import socket, sys\n\
                server = socket.create_server((sys.argv[1], 7))\n\
                while True:\n  peer, _ = server.accept(); peer.sendall(b'well'); peer.close()";
    host.command(None, Path::new("python3"))
        .args(["-c", code, host.address()])
        .spawn()
        .unwrap()
}

fn can_reach(host: &LanHost, other: &LanHost) -> bool {
    let script = format!("timeout 0.5 cat < /dev/tcp/{}/7", other.address());
    let output = host
        .command(None, Path::new("timeout"))
        .args(["1", "bash", "-c", &script])
        .stderr(Stdio::null())
        .output();
    output.unwrap().stdout == b"well"
}

async fn wait_until_reachable(host: &LanHost, other: &LanHost) {
    wait_until("a connection", SOON, async || {
        can_reach(host, other).then_some(())
    })
    .await;
}

#[tokio::test]
async fn hosts_reach_each_other_unless_disconnected() {
    let lan = VirtualLan::create();
    let hosts = [lan.host(), lan.host(), lan.host()];
    let [a, b, c] = &hosts;
    let mut servers = hosts.each_ref().map(start_server);
    for (host, other) in [(a, b), (b, a), (a, c), (a, a)] {
        wait_until_reachable(host, other).await;
    }
    a.disconnect();
    assert!(!can_reach(a, b) && !can_reach(b, a));
    wait_until_reachable(b, c).await;
    wait_until_reachable(a, a).await;
    a.reconnect();
    wait_until_reachable(a, b).await;
    a.block_sending_to(b);
    assert!(!can_reach(a, b) && !can_reach(b, a));
    wait_until_reachable(a, c).await;
    a.unblock_sending_to(b);
    wait_until_reachable(b, a).await;
    drop(hosts);
    // Processes end with their host.
    for server in &mut servers {
        let ended = wait_until("the end of a server", SOON, async || server.try_wait().unwrap());
        assert!(!ended.await.success());
    }
}

#[tokio::test]
async fn dns_answers_are_those_that_the_test_sets() {
    let folder = TempDir::new().unwrap();
    let lan = VirtualLan::create();
    let dns = DnsServer::start(lan.host(), folder.path());
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
