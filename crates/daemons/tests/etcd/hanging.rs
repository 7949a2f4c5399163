//! Servers that run and answer no more.

use daemons::etcd::{Options, ProxyOptions, Seeds, Start};

use crate::stage::{Node, Proxy, Stage, pause, wait_until};

#[tokio::test]
async fn a_member_that_hangs_is_killed_and_one_without_a_majority_is_not() {
    let stage = Stage::new();
    let mut options = [1, 2].map(|node| Options {
        tries: 20,
        ..stage.options(node, stage.founders(&[1, 2]))
    });
    options[0].tries = 10;
    let [mut one, mut two] = options.map(Node::start);
    for node in [&mut one, &mut two] {
        node.serves().await;
    }
    let folder = stage.data(2);
    pause(&format!("--data-dir={}", folder.join("data").display()));
    let why = two.fails().await;
    assert!(
        why.contains("etcd did not answer for 20 s and was killed"),
        "{why}"
    );
    // It has had no majority for twice as long as it may be silent.
    assert!(one.is_running());
    let mut two = stage.start(2, Start::Unsaid);
    two.serves().await;
    stage.all_well(1, &[1, 2]).await;
}

#[tokio::test]
async fn a_proxy_that_hangs_is_killed_and_one_without_members_is_not() {
    let stage = Stage::new();
    let mut one = stage.start(1, Start::First);
    one.serves().await;
    let options = |node, tries| ProxyOptions {
        tries,
        ..stage.proxy_options(node, Seeds::At(vec![stage.client(1)]))
    };
    // This is also the time that each has to start in.
    let (lasting, hanging) = (Proxy::start(options(8, 15)), Proxy::start(options(9, 30)));
    for node in [8, 9] {
        let at = stage.client(node);
        wait_until("the proxy listens", || std::net::TcpStream::connect(&at).is_ok()).await;
        // The daemon writes it anew once it attends to a proxy that serves.
        let note = stage.data(node).join("endpoints");
        std::fs::remove_file(&note).unwrap();
        wait_until("the proxy is attended to", || note.exists()).await;
    }
    one.crash().await;
    pause(&format!("--listen-addr={}", stage.client(9)));
    let why = hanging.fails().await;
    assert!(why.contains("grpc-proxy did not answer for 30 s"), "{why}");
    assert!(lasting.is_running());
}
