//! What cannot work is refused in words that say what to do, and changes nothing.

use std::net::TcpListener;

use daemons::etcd::{Options, ProxyOptions, Seeds, Start, preflight, preflight_proxy};

use crate::stage::{Node, Stage, ip};

fn refused(options: &Options) -> String {
    let why = preflight(options).unwrap_err().to_string();
    assert!(!options.data.exists());
    why
}

#[test]
fn options_are_checked_before_anything_is_started() {
    let stage = Stage::new();
    let good = |start| stage.options(1, start);
    preflight(&good(Start::First)).unwrap();
    preflight(&good(stage.founders(&[1, 2]))).unwrap();
    let pair = |name: &str, peer: String| (name.to_string(), peer);
    let check = |options: Options, words: &str| {
        let why = refused(&options);
        assert!(why.contains(words), "{why}");
    };
    check(
        Options {
            program: "no-such-etcd".into(),
            ..good(Start::First)
        },
        "no-such-etcd is not on the PATH; install it (Debian: apt-get install etcd-server) or name it with etcd.program",
    );
    let old = stage.fake_etcd("");
    std::fs::write(&old, "#!/bin/sh\necho etcd Version: 3.3.25\n").unwrap();
    check(
        Options {
            program: old,
            ..good(Start::First)
        },
        "is etcd 3.3.25, but 3.4.0 or newer is needed",
    );
    check(
        Options {
            name: "a b".into(),
            ..good(Start::First)
        },
        "is no name for a node",
    );
    check(
        Options {
            peer_port: good(Start::First).client_port,
            ..good(Start::First)
        },
        "they have to differ",
    );
    check(
        Options {
            host: "192.0.2.7".into(),
            ..good(Start::First)
        },
        "192.0.2.7 is no address of this machine",
    );
    check(good(Start::Unsaid), "nothing says how it comes to a cluster");
    check(good(stage.founders(&[2, 3])), "does not name this node, n1=");
    check(
        good(Start::Members(vec![pair("n1", stage.peer(2))])),
        "but this node is at",
    );
    check(
        good(Start::Members(vec![pair("x", stage.peer(1))])),
        "but this node is called n1",
    );
    check(good(stage.founders(&[1, 2, 2])), "names n2 twice");
    check(
        good(Start::Members(vec![pair("n1", "nowhere".into())])),
        "is not HOST:PORT",
    );
    check(good(Start::Join(vec!["http://a:1/x".into()])), "is not HOST:PORT");
    for start in [
        Start::Join(vec![stage.client(2), "192.0.2.7:2379".into()]),
        Start::Members(vec![
            pair("n1", stage.peer(1)),
            pair("far", "192.0.2.7:2380".into()),
        ]),
    ] {
        check(good(start), "where 192.0.2.7:23");
    }
    let by_name = Options {
        host: "localhost".into(),
        ..good(Start::Join(vec!["192.0.2.7:2379".into()]))
    };
    check(by_name, "(--address ADDRESS)");
    check(good(Start::Join(Vec::new())), "etcd.join (--join) is empty");
    check(good(stage.discover(Some(0))), "at least one member");

    let proxy = stage.proxy_options(1, Seeds::At(vec![stage.client(2)]));
    preflight_proxy(&proxy).unwrap();
    let nowhere = ProxyOptions {
        seeds: Seeds::At(vec!["x".into()]),
        ..proxy
    };
    let why = preflight_proxy(&nowhere).unwrap_err().to_string();
    assert!(why.contains("is not HOST:PORT"), "{why}");
}

#[tokio::test]
async fn a_start_that_says_nothing_is_told_the_ways() {
    let stage = Stage::new();
    let why = stage.start(1, Start::Unsaid).fails().await;
    for way in [
        "--first",
        "--members",
        "--discover",
        "--bootstrap-expect",
        "--join",
    ] {
        assert!(why.contains(way), "{way}: {why}");
    }
    assert!(!stage.data(1).exists());
}

#[tokio::test]
async fn a_taken_port_is_named_with_its_key() {
    let stage = Stage::new();
    let options = stage.options(1, Start::First);
    for (port, key) in [
        (options.client_port, "etcd.client_port"),
        (options.peer_port, "etcd.peer_port"),
    ] {
        let taken = TcpListener::bind((ip(1), port)).unwrap();
        let why = Node::start(options.clone()).fails().await;
        assert!(why.contains("is taken") && why.contains(key), "{why}");
        drop(taken);
    }
    assert!(!stage.data(1).join("data").exists());
}

#[tokio::test]
async fn nobody_there_is_told_after_so_many_tries() {
    let stage = Stage::new();
    for (start, words) in [
        (stage.join(&[2]), stage.client(2)),
        (stage.discover(None), "judicators does not resolve".to_string()),
        (stage.discover(Some(3)), "judicators does not resolve".to_string()),
    ] {
        let options = Options {
            tries: 1,
            ..stage.options(1, start)
        };
        let why = Node::start(options).fails().await;
        assert!(
            why.starts_with("gave up after 1 tries") && why.contains(&words),
            "{why}"
        );
    }
    stage.dns.set(&[1, 2]);
    let options = Options {
        tries: 1,
        ..stage.options(1, stage.discover(Some(3)))
    };
    let why = Node::start(options).fails().await;
    assert!(why.contains("waiting for 3 addresses behind judicators"), "{why}");
    assert!(!stage.data(1).join("data").exists());
}

#[tokio::test]
async fn the_name_of_a_live_node_is_taken() {
    let stage = Stage::new();
    let mut one = stage.start(1, Start::First);
    one.serves().await;
    let twin = Options {
        name: "n1".into(),
        ..stage.options(2, stage.join(&[1]))
    };
    let why = Node::start(twin).fails().await;
    assert!(why.contains("is called n1 already"), "{why}");
    assert_eq!(stage.members(1).await.len(), 1);
}

#[tokio::test]
async fn an_etcd_that_never_serves_is_killed() {
    let stage = Stage::new();
    let options = Options {
        tries: 1,
        program: stage.fake_etcd("exec sleep 1000"),
        ..stage.options(1, Start::First)
    };
    let why = Node::start(options).fails().await;
    assert!(why.contains("did not serve within 1 tries"), "{why}");
}
