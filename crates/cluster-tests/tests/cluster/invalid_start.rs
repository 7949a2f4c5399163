//! Nodes that cannot start: they report why, and create no data.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cluster_tests::{ClusterProcess, ETCD, ETCD_PEER, FormationMethod, MONGOD, RPC, TestCluster};
use nix::sys::signal::Signal;

use crate::harness::wait_until_logged;

/// A program that only prints this version.
fn fake_program(cluster: &TestCluster, name: &str, says: &str) -> PathBuf {
    let path = cluster.folder().join(name);
    fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Starts a judicator, and asserts that it exits with an error that contains these texts, without creating data.
async fn assert_refused(cluster: &mut TestCluster, name: &str, args: &[&str], words: &[&str]) {
    cluster.add_judicator(name);
    let args: Vec<_> = args.iter().map(ToString::to_string).collect();
    cluster.start_judicator(name, &args);
    let node = cluster.node_mut(name);
    let (succeeded, said) = node.wait_for_end().await;
    assert!(!succeeded, "{said}");
    println!("{}", said.trim());
    for word in words {
        assert!(said.contains(word), "no '{word}' in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    node.wait_until_no_process_runs().await;
    for server in ["etcd", "mongodb"] {
        assert!(!has_files(&node.data().join(server)), "{server} has created data");
    }
    cluster.remove_node(name);
}

fn has_files(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

#[tokio::test]
async fn missing_and_outdated_programs_are_reported() {
    let mut cluster = TestCluster::new();
    let old_etcd = fake_program(&cluster, "old-etcd", "etcd Version: 3.3.25");
    let old_mongod = fake_program(&cluster, "old-mongod", "db version v4.0.28");
    let silent = fake_program(&cluster, "silent", "hello");
    let text = |path: &Path| path.display().to_string();
    for (number, (key, program, words)) in [
        (
            "etcd.program",
            "/nowhere/etcd",
            &["/nowhere/etcd", "etcd.program"][..],
        ),
        (
            "etcd.program",
            &text(&old_etcd),
            &["3.3.25", "3.4", "etcd.program"],
        ),
        ("etcd.program", &text(&silent), &["silent", "version"]),
        (
            "mongodb.program",
            "/nowhere/mongod",
            &["/nowhere/mongod", "mongodb.program"],
        ),
        (
            "mongodb.program",
            "no-such-mongod",
            &["no-such-mongod", "mongodb.program"],
        ),
        (
            "mongodb.program",
            &text(&old_mongod),
            &["4.0.28", "mongodb.program"],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let setting = format!("{key}={program}");
        assert_refused(
            &mut cluster,
            &format!("j{number}"),
            &["--first", "--set", &setting],
            words,
        )
        .await;
    }
}

#[tokio::test]
async fn ports_in_use_are_reported() {
    let mut cluster = TestCluster::new();
    for (number, (port, key, folder)) in [
        (ETCD, "etcd.client_port", "etcd"),
        (ETCD_PEER, "etcd.peer_port", "etcd"),
        (MONGOD, "mongodb.port", "mongodb/data"),
        (RPC, "judicator.listen", "store"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("j{number}");
        cluster.add_judicator(&name);
        let host = cluster.node(&name).host();
        let code = "import socket, sys, time\n\
                    taken = socket.create_server((sys.argv[1], int(sys.argv[2])))\n\
                    print('taken', flush=True)\ntime.sleep(600)";
        let mut listener = host
            .command(None, Path::new("python3"))
            .args(["-c", code, host.address(), &port.to_string()])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = listener.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        assert_eq!(line, "taken\n");
        let port = port.to_string();
        cluster.start_judicator(&name, &["--first".to_string()]);
        wait_until_logged(&cluster, &name, &[&port, "in use", key]).await;
        assert!(
            !has_files(&cluster.node(&name).data().join(folder)),
            "it has created data"
        );
        listener.kill().unwrap();
        listener.wait().unwrap();
        cluster.remove_node(&name);
    }
}

/// There is no cluster at these addresses and names.
#[tokio::test]
async fn unreachable_addresses_and_unknown_names_are_reported() {
    let mut cluster = TestCluster::new().with_dns();
    let unreachable = cluster.unused_address(ETCD);
    let few = ["--set", "etcd.tries=3"];
    for (number, (joining, words)) in [
        (&["--join", &unreachable][..], &[&unreachable[..], "--join"][..]),
        (&["--discover", "nowhere"], &["nowhere", "resolve"]),
        (
            &["--discover", "nowhere", "--bootstrap-expect", "3"],
            &["nowhere", "resolve"],
        ),
        (&["--join", "nowhere:2379"], &["nowhere"]),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("j{number}");
        let args: Vec<_> = joining.iter().chain(&few).map(ToString::to_string).collect();
        cluster.add_judicator(&name);
        cluster.start_judicator(&name, &args);
        wait_until_logged(&cluster, &name, words).await;
        assert!(
            !has_files(&cluster.node(&name).data().join("etcd")),
            "it has created data"
        );
        cluster.remove_node(&name);
    }
}

/// Contradictory flags are reported before anything is started.
#[tokio::test]
async fn contradictory_flags_are_refused() {
    let mut cluster = TestCluster::new();
    let other = cluster.unused_address(ETCD);
    for (number, (args, words)) in [
        (&["--first", "--join", &other][..], &["--first", "--join"][..]),
        (&["--bootstrap-expect", "3"], &["--discover"]),
        (
            &["--members", "somebody=192.0.2.1:2380"],
            &["--members", "--name"],
        ),
        (&["--first", "--set", "etcd.quota=none"], &["etcd.quota"]),
        (&[], &["--first", "--join", "--discover", "--members"]),
    ]
    .into_iter()
    .enumerate()
    {
        assert_refused(&mut cluster, &format!("j{number}"), args, words).await;
    }
}

/// A service that cannot read the configuration written by boot reports that in the node's status.
#[tokio::test]
async fn an_invalid_service_configuration_is_reported() {
    let mut cluster = TestCluster::new();
    cluster.form(FormationMethod::Join, 1);
    cluster.wait_until_complete(1).await;
    let node = cluster.node_mut("j1");
    let config = node.data().join("run/judicator.toml");
    let good = fs::read_to_string(&config).unwrap();
    fs::write(&config, "[judicator]\nlisten = 7\n").unwrap();
    node.signal(ClusterProcess::Service("judicator"), Signal::SIGKILL)
        .await;
    let judicator = node
        .service("judicator", "a reason", |service| {
            service.exit.contains("exit code 1: ")
        })
        .await;
    assert!(judicator.exit.contains("judicator.listen"), "{judicator:?}");
    fs::write(&config, good).unwrap();
    node.wait_until_ready().await;
}
