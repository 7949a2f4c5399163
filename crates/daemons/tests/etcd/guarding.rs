//! Logins, and certificates.

use std::path::{Path, PathBuf};
use std::process::Command;

use daemons::etcd::{MemberSeen, Options, ProxyOptions, Seeds, preflight_proxy};
use registry::etcd::{Access, Login, Tls};

use crate::stage::{Node, Proxy, Stage, get, ip, members_once, put, refuses, wait_until};

fn login(password: &str) -> Option<Login> {
    Some(Login {
        user: "root".to_string(),
        password: password.to_string(),
    })
}

/// One that was too busy to tell may tell the next time.
fn are_three_with_uptime(seen: &[MemberSeen]) -> bool {
    seen.len() == 3 && seen.iter().all(|member| member.uptime.is_some())
}

#[tokio::test]
async fn founders_guard_their_cluster_and_only_those_with_the_secret_get_in() {
    let mut stage = Stage::new();
    stage.login = login("derived from the secret");
    let _nodes = stage.three().await;
    let access = stage.access(1);
    put(&access, "key", "value").await;
    members_once(access.clone(), "three and their uptimes", are_three_with_uptime).await;
    let anonymous = Access {
        login: None,
        ..access.clone()
    };
    refuses(&anonymous).await;

    // Through a proxy it is the same.
    let _proxy = Proxy::start(stage.proxy_options(9, Seeds::At(vec![stage.client(1)])));
    let at = stage.client(9);
    wait_until("the proxy listens", || std::net::TcpStream::connect(&at).is_ok()).await;
    put(&stage.access(9), "key", "through").await;
    assert_eq!(get(&stage.access(9), "key").await.as_deref(), Some("through"));
    refuses(&anonymous.at(vec![at])).await;

    for (wrong, words) in [
        (login("another"), "does not accept this node's secret"),
        (None, "asks for a login"),
    ] {
        let why = Node::start(Options {
            login: wrong.clone(),
            ..stage.options(4, stage.join(&[1]))
        })
        .fails()
        .await;
        assert!(why.contains(words), "{why}");
        if wrong.is_some() {
            let why = Proxy::start(ProxyOptions {
                login: wrong,
                ..stage.proxy_options(5, Seeds::At(vec![stage.client(1)]))
            })
            .fails()
            .await;
            assert!(why.contains(words), "{why}");
        }
    }
    assert_eq!(stage.members(1).await.len(), 3);
    let mut fourth = stage.start(4, stage.join(&[1]));
    fourth.serves().await;
    stage.all_well(4, &[1, 2, 3, 4]).await;
}

#[tokio::test]
async fn with_certificates_founders_agree_join_and_proxy_and_strangers_do_not() {
    let stage = Stage::new();
    let folder = tempfile::tempdir().unwrap();
    let (ours, strange) = (folder.path().join("ours"), folder.path().join("strange"));
    let tls = Some(certificates(&ours, "/O=node", &[1, 2, 3, 9]));
    let strange = Some(certificates(&strange, "/O=node", &[1, 2, 3, 9]));
    let options = |node: u8, start, tls: &Option<Tls>| Options {
        tls: tls.clone(),
        ..stage.options(node, start)
    };
    let mut nodes = [1, 2].map(|node| Node::start(options(node, stage.founders(&[1, 2]), &tls)));
    for node in &mut nodes {
        node.serves().await;
    }
    let mut third = Node::start(options(3, stage.join(&[1, 2]), &tls));
    third.serves().await;
    let access = Access {
        tls: tls.clone(),
        ..stage.access(1)
    };
    members_once(access.clone(), "three and their uptimes", are_three_with_uptime).await;

    let proxy_options = stage.proxy_options(9, Seeds::At(vec![stage.client(1)]));
    let _proxy = Proxy::start(ProxyOptions { tls, ..proxy_options });
    let at = stage.client(9);
    wait_until("the proxy listens", || std::net::TcpStream::connect(&at).is_ok()).await;
    put(&access.at(vec![at]), "key", "value").await;
    assert_eq!(get(&access, "key").await.as_deref(), Some("value"));

    for tls in [strange, None] {
        let why = Node::start(Options {
            tries: 1,
            ..options(4, stage.join(&[1]), &tls)
        })
        .fails()
        .await;
        assert!(why.contains("waiting for an answer"), "{why}");
    }
    let seen = members_once(access, "an answer", |_| true).await;
    assert_eq!(seen.len(), 3);
}

#[test]
fn a_certificate_that_the_proxy_would_not_take_is_refused_before() {
    let stage = Stage::new();
    let folder = tempfile::tempdir().unwrap();
    for (subject, refused) in [("/O=org/CN=node", true), ("/O=org", false)] {
        let options = ProxyOptions {
            tls: Some(certificates(folder.path(), subject, &[9])),
            ..stage.proxy_options(9, Seeds::At(vec![stage.client(1)]))
        };
        match preflight_proxy(&options) {
            Err(error) => {
                let why = error.to_string();
                assert!(refused && why.contains("has the common name \"node\""), "{why}");
            }
            Ok(()) => assert!(!refused, "{subject}"),
        }
    }
}

/// An authority of its own, and one certificate for all nodes. etcd's proxy takes none with a common name.
fn certificates(folder: &Path, subject: &str, nodes: &[u8]) -> Tls {
    std::fs::create_dir_all(folder).unwrap();
    let file = |name: &str| -> PathBuf { folder.join(name) };
    let own = nodes.iter().map(|node| format!("IP:{}", ip(*node)));
    // etcd asks whether a certificate is good for the address that its bearer comes from.
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
    Tls {
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
