//! Options that cannot work are refused with a message that says what to change, and nothing is written.

use std::net::TcpListener;

use daemons::etcd::{
    BootstrapMode, EtcdMemberOptions, EtcdProxyOptions, ProxySeeds, preflight, preflight_proxy,
};

use crate::harness::{EtcdTestCluster, EtcdTestNode, ip};

fn refused(options: &EtcdMemberOptions) -> String {
    let message = preflight(options).unwrap_err().to_string();
    assert!(!options.data.exists());
    message
}

#[test]
fn options_are_checked_before_anything_is_started() {
    let cluster = EtcdTestCluster::new();
    let good = |start| cluster.options(1, start);
    preflight(&good(BootstrapMode::First)).unwrap();
    preflight(&good(cluster.founders(&[1, 2]))).unwrap();
    let pair = |name: &str, peer: String| (name.to_string(), peer);
    let check = |options: EtcdMemberOptions, words: &str| {
        let message = refused(&options);
        assert!(message.contains(words), "{message}");
    };
    check(
        EtcdMemberOptions {
            program: "no-such-etcd".into(),
            ..good(BootstrapMode::First)
        },
        "no-such-etcd is not on the PATH; install it (Debian: apt-get install etcd-server) or set etcd.program to its path",
    );
    let old = cluster.fake_etcd("");
    std::fs::write(&old, "#!/bin/sh\necho etcd Version: 3.3.25\n").unwrap();
    check(
        EtcdMemberOptions {
            program: old,
            ..good(BootstrapMode::First)
        },
        "is etcd 3.3.25, but 3.4.0 or newer is needed",
    );
    check(
        EtcdMemberOptions {
            name: "a b".into(),
            ..good(BootstrapMode::First)
        },
        "is not a valid name for a node",
    );
    check(
        EtcdMemberOptions {
            peer_port: good(BootstrapMode::First).client_port,
            ..good(BootstrapMode::First)
        },
        "they have to differ",
    );
    check(
        EtcdMemberOptions {
            host: "192.0.2.7".into(),
            ..good(BootstrapMode::First)
        },
        "192.0.2.7 is not an address of this machine",
    );
    check(
        good(BootstrapMode::Unspecified),
        "no option says how it gets into a cluster",
    );
    check(good(cluster.founders(&[2, 3])), "does not name this node, n1=");
    check(
        good(BootstrapMode::Members(vec![pair("n1", cluster.peer(2))])),
        "but this node is at",
    );
    check(
        good(BootstrapMode::Members(vec![pair("x", cluster.peer(1))])),
        "but this node is called n1",
    );
    check(good(cluster.founders(&[1, 2, 2])), "names n2 twice");
    check(
        good(BootstrapMode::Members(vec![pair("n1", "nowhere".into())])),
        "is not HOST:PORT",
    );
    check(
        good(BootstrapMode::Join(vec!["http://a:1/x".into()])),
        "is not HOST:PORT",
    );
    for start in [
        BootstrapMode::Join(vec![cluster.client(2), "192.0.2.7:2379".into()]),
        BootstrapMode::Members(vec![
            pair("n1", cluster.peer(1)),
            pair("far", "192.0.2.7:2380".into()),
        ]),
    ] {
        check(good(start), "where 192.0.2.7:23");
    }
    let by_name = EtcdMemberOptions {
        host: "localhost".into(),
        ..good(BootstrapMode::Join(vec!["192.0.2.7:2379".into()]))
    };
    check(by_name, "(--address ADDRESS)");
    check(
        good(BootstrapMode::Join(Vec::new())),
        "etcd.join (--join) is empty",
    );
    check(good(cluster.discover(Some(0))), "at least one member");

    let proxy = cluster.proxy_options(1, ProxySeeds::Addresses(vec![cluster.client(2)]));
    preflight_proxy(&proxy).unwrap();
    let nowhere = EtcdProxyOptions {
        seeds: ProxySeeds::Addresses(vec!["x".into()]),
        ..proxy
    };
    let message = preflight_proxy(&nowhere).unwrap_err().to_string();
    assert!(message.contains("is not HOST:PORT"), "{message}");
}

#[tokio::test]
async fn a_first_start_without_options_is_refused_with_a_list_of_the_options() {
    let cluster = EtcdTestCluster::new();
    let message = cluster
        .start(1, BootstrapMode::Unspecified)
        .wait_for_failure()
        .await;
    for way in [
        "--first",
        "--members",
        "--discover",
        "--bootstrap-expect",
        "--join",
    ] {
        assert!(message.contains(way), "{way}: {message}");
    }
    assert!(!cluster.data(1).exists());
}

#[tokio::test]
async fn the_error_for_a_port_in_use_names_the_setting() {
    let cluster = EtcdTestCluster::new();
    let options = cluster.options(1, BootstrapMode::First);
    for (port, key) in [
        (options.client_port, "etcd.client_port"),
        (options.peer_port, "etcd.peer_port"),
    ] {
        let taken = TcpListener::bind((ip(1), port)).unwrap();
        let message = EtcdTestNode::start(options.clone()).wait_for_failure().await;
        assert!(
            message.contains("is in use") && message.contains(key),
            "{message}"
        );
        drop(taken);
    }
    assert!(!cluster.data(1).join("data").exists());
}

#[tokio::test]
async fn a_node_that_finds_no_other_gives_up_after_the_configured_tries() {
    let cluster = EtcdTestCluster::new();
    for (start, words) in [
        (cluster.join(&[2]), cluster.client(2)),
        (cluster.discover(None), "judicators does not resolve".to_string()),
        (
            cluster.discover(Some(3)),
            "judicators does not resolve".to_string(),
        ),
    ] {
        let options = EtcdMemberOptions {
            tries: 1,
            ..cluster.options(1, start)
        };
        let message = EtcdTestNode::start(options).wait_for_failure().await;
        assert!(
            message.starts_with("gave up after 1 tries") && message.contains(&words),
            "{message}"
        );
    }
    cluster.dns.set(&[1, 2]);
    let options = EtcdMemberOptions {
        tries: 1,
        ..cluster.options(1, cluster.discover(Some(3)))
    };
    let message = EtcdTestNode::start(options).wait_for_failure().await;
    assert!(
        message.contains("waiting until judicators resolves to 3 addresses"),
        "{message}"
    );
    assert!(!cluster.data(1).join("data").exists());
}

#[tokio::test]
async fn the_name_of_a_live_node_is_refused() {
    let cluster = EtcdTestCluster::new();
    let mut one = cluster.start(1, BootstrapMode::First);
    one.wait_until_serving().await;
    let twin = EtcdMemberOptions {
        name: "n1".into(),
        ..cluster.options(2, cluster.join(&[1]))
    };
    let message = EtcdTestNode::start(twin).wait_for_failure().await;
    assert!(message.contains("is already called n1"), "{message}");
    assert_eq!(cluster.members_when_available(1).await.len(), 1);
}

#[tokio::test]
async fn an_etcd_that_never_serves_is_killed() {
    let cluster = EtcdTestCluster::new();
    let options = EtcdMemberOptions {
        tries: 1,
        program: cluster.fake_etcd("exec sleep 1000"),
        ..cluster.options(1, BootstrapMode::First)
    };
    let message = EtcdTestNode::start(options).wait_for_failure().await;
    assert!(message.contains("did not serve within 1 tries"), "{message}");
}
