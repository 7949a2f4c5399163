//! Authentication with the cluster's secret, and TLS.

use std::path::{Path, PathBuf};
use std::process::Command;

use daemons::etcd::{EtcdMember, EtcdMemberOptions, EtcdProxyOptions, ProxySeeds, preflight_proxy};
use registry::etcd::{EtcdAccess, EtcdLogin, EtcdTls};

use crate::harness::{
    EtcdTestCluster, EtcdTestNode, EtcdTestProxy, get, ip, put, wait_for_members, wait_until,
    wait_until_anonymous_is_refused,
};

fn login(password: &str) -> Option<EtcdLogin> {
    Some(EtcdLogin {
        user: "root".to_string(),
        password: password.to_string(),
    })
}

/// A member that was too busy to report its uptime may report it the next time.
fn are_three_with_uptime(seen: &[EtcdMember]) -> bool {
    seen.len() == 3 && seen.iter().all(|member| member.uptime.is_some())
}

#[tokio::test]
async fn founders_enable_authentication_and_only_nodes_with_the_secret_join() {
    let mut cluster = EtcdTestCluster::new();
    cluster.login = login("derived from the secret");
    let _nodes = cluster.start_three_founders().await;
    let access = cluster.access(1);
    put(&access, "key", "value").await;
    wait_for_members(
        access.clone(),
        "three members with uptimes",
        are_three_with_uptime,
    )
    .await;
    let anonymous = EtcdAccess {
        login: None,
        ..access.clone()
    };
    wait_until_anonymous_is_refused(&anonymous).await;

    // The same holds through a proxy.
    let _proxy =
        EtcdTestProxy::start(cluster.proxy_options(9, ProxySeeds::Addresses(vec![cluster.client(1)])));
    let at = cluster.client(9);
    wait_until("the proxy listens", || std::net::TcpStream::connect(&at).is_ok()).await;
    put(&cluster.access(9), "key", "through").await;
    assert_eq!(get(&cluster.access(9), "key").await.as_deref(), Some("through"));
    wait_until_anonymous_is_refused(&anonymous.with_endpoints(vec![at])).await;

    for (wrong, words) in [
        (login("another"), "does not accept this node's secret"),
        (None, "requires a login"),
    ] {
        let message = EtcdTestNode::start(EtcdMemberOptions {
            login: wrong.clone(),
            ..cluster.options(4, cluster.join(&[1]))
        })
        .wait_for_failure()
        .await;
        assert!(message.contains(words), "{message}");
        if wrong.is_some() {
            let message = EtcdTestProxy::start(EtcdProxyOptions {
                login: wrong,
                ..cluster.proxy_options(5, ProxySeeds::Addresses(vec![cluster.client(1)]))
            })
            .wait_for_failure()
            .await;
            assert!(message.contains(words), "{message}");
        }
    }
    assert_eq!(cluster.members_when_available(1).await.len(), 3);
    let mut fourth = cluster.start(4, cluster.join(&[1]));
    fourth.wait_until_serving().await;
    cluster.wait_until_healthy(4, &[1, 2, 3, 4]).await;
}

#[tokio::test]
async fn with_tls_nodes_found_join_and_proxy_and_nodes_with_other_certificates_do_not() {
    let cluster = EtcdTestCluster::new();
    let folder = tempfile::tempdir().unwrap();
    let (ours, strange) = (folder.path().join("ours"), folder.path().join("strange"));
    let tls = Some(certificates(&ours, "/O=node", &[1, 2, 3, 9]));
    let strange = Some(certificates(&strange, "/O=node", &[1, 2, 3, 9]));
    let options = |node: u8, start, tls: &Option<EtcdTls>| EtcdMemberOptions {
        tls: tls.clone(),
        ..cluster.options(node, start)
    };
    let mut nodes = [1, 2].map(|node| EtcdTestNode::start(options(node, cluster.founders(&[1, 2]), &tls)));
    for node in &mut nodes {
        node.wait_until_serving().await;
    }
    let mut third = EtcdTestNode::start(options(3, cluster.join(&[1, 2]), &tls));
    third.wait_until_serving().await;
    let access = EtcdAccess {
        tls: tls.clone(),
        ..cluster.access(1)
    };
    wait_for_members(
        access.clone(),
        "three members with uptimes",
        are_three_with_uptime,
    )
    .await;

    let proxy_options = cluster.proxy_options(9, ProxySeeds::Addresses(vec![cluster.client(1)]));
    let _proxy = EtcdTestProxy::start(EtcdProxyOptions { tls, ..proxy_options });
    let at = cluster.client(9);
    wait_until("the proxy listens", || std::net::TcpStream::connect(&at).is_ok()).await;
    put(&access.with_endpoints(vec![at]), "key", "value").await;
    assert_eq!(get(&access, "key").await.as_deref(), Some("value"));

    for tls in [strange, None] {
        let message = EtcdTestNode::start(EtcdMemberOptions {
            tries: 1,
            ..options(4, cluster.join(&[1]), &tls)
        })
        .wait_for_failure()
        .await;
        assert!(message.contains("waiting for an answer"), "{message}");
    }
    let seen = wait_for_members(access, "an answer", |_| true).await;
    assert_eq!(seen.len(), 3);
}

#[test]
fn a_certificate_that_etcd_grpc_proxy_rejects_is_refused_before_the_start() {
    let cluster = EtcdTestCluster::new();
    let folder = tempfile::tempdir().unwrap();
    for (subject, refused) in [("/O=org/CN=node", true), ("/O=org", false)] {
        let options = EtcdProxyOptions {
            tls: Some(certificates(folder.path(), subject, &[9])),
            ..cluster.proxy_options(9, ProxySeeds::Addresses(vec![cluster.client(1)]))
        };
        match preflight_proxy(&options) {
            Err(error) => {
                let message = error.to_string();
                assert!(
                    refused && message.contains("has the common name \"node\""),
                    "{message}"
                );
            }
            Ok(()) => assert!(!refused, "{subject}"),
        }
    }
}

/// Creates a certificate authority, and one certificate for all nodes. etcd's proxy accepts no certificate with a
/// common name.
fn certificates(folder: &Path, subject: &str, nodes: &[u8]) -> EtcdTls {
    std::fs::create_dir_all(folder).unwrap();
    let file = |name: &str| -> PathBuf { folder.join(name) };
    let own = nodes.iter().map(|node| format!("IP:{}", ip(*node)));
    // etcd checks that a certificate is valid for the address that its client connects from.
    let addresses: Vec<String> = own.chain(["IP:127.0.0.1".to_string()]).collect();
    let extensions = format!(
        "subjectAltName={}\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=CA:FALSE\n",
        addresses.join(",")
    );
    std::fs::write(file("extensions"), extensions).unwrap();
    openssl(
        folder,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj /O=test -days 2",
    );
    let request =
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout node.key -out node.csr -subj";
    openssl(folder, &format!("{request} {subject}"));
    openssl(
        folder,
        "x509 -req -in node.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out node.pem -days 2 -extfile extensions",
    );
    EtcdTls {
        ca: file("ca.pem"),
        cert: file("node.pem"),
        key: file("node.key"),
    }
}

fn openssl(folder: &Path, args: &str) {
    let output = Command::new("openssl")
        .args(args.split(' '))
        .current_dir(folder)
        .output()
        .expect("this test needs the openssl command");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
