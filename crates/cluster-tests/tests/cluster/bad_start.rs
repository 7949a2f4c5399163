//! What is wrong with a node itself: it says so, and leaves everything as it is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cluster_tests::{Cluster, ETCD, ETCD_PEER, Forming, MONGOD, Process, RPC};
use nix::sys::signal::Signal;

use crate::stage::complains;

/// A program that only says this version.
fn fake(cluster: &Cluster, name: &str, says: &str) -> PathBuf {
    let path = cluster.folder().join(name);
    fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Starts a judicator with these; it has to end by itself, with these words, and without data of its own.
async fn refused(cluster: &mut Cluster, name: &str, args: &[&str], words: &[&str]) {
    cluster.add_judicator(name);
    let args: Vec<_> = args.iter().map(ToString::to_string).collect();
    cluster.start_judicator(name, &args);
    let machine = cluster.machine_mut(name);
    let (well, said) = machine.ended().await;
    assert!(!well, "{said}");
    println!("{}", said.trim());
    for word in words {
        assert!(said.contains(word), "no '{word}' in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    machine.nobody().await;
    for server in ["etcd", "mongodb"] {
        assert!(!has_files(&machine.data().join(server)), "{server} has begun");
    }
    cluster.discard(name);
}

fn has_files(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

#[tokio::test]
async fn programs_that_are_missing_or_too_old() {
    let mut cluster = Cluster::new();
    let old_etcd = fake(&cluster, "old-etcd", "etcd Version: 3.3.25");
    let old_mongod = fake(&cluster, "old-mongod", "db version v4.0.28");
    let silent = fake(&cluster, "silent", "hello");
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
        refused(
            &mut cluster,
            &format!("j{number}"),
            &["--first", "--set", &setting],
            words,
        )
        .await;
    }
}

#[tokio::test]
async fn ports_that_are_taken() {
    let mut cluster = Cluster::new();
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
        let host = cluster.machine(&name).host();
        let code = "import socket, sys, time\n\
                    taken = socket.create_server((sys.argv[1], int(sys.argv[2])))\n\
                    print('taken', flush=True)\ntime.sleep(600)";
        let mut squatter = host
            .command(None, Path::new("python3"))
            .args(["-c", code, host.address(), &port.to_string()])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = squatter.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        assert_eq!(line, "taken\n");
        let port = port.to_string();
        cluster.start_judicator(&name, &["--first".to_string()]);
        complains(&cluster, &name, &[&port, "taken", key]).await;
        assert!(
            !has_files(&cluster.machine(&name).data().join(folder)),
            "it has begun"
        );
        squatter.kill().unwrap();
        squatter.wait().unwrap();
        cluster.discard(&name);
    }
}

/// Nobody is there who could be joined.
#[tokio::test]
async fn addresses_and_names_that_lead_nowhere() {
    let mut cluster = Cluster::new().with_names();
    let nobody = cluster.nobody_at(ETCD);
    let few = ["--set", "etcd.tries=3"];
    for (number, (joining, words)) in [
        (&["--join", &nobody][..], &[&nobody[..], "--join"][..]),
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
        complains(&cluster, &name, words).await;
        assert!(
            !has_files(&cluster.machine(&name).data().join("etcd")),
            "it has begun"
        );
        cluster.discard(&name);
    }
}

/// Said wrongly, and told so before anything is done.
#[tokio::test]
async fn contradictions() {
    let mut cluster = Cluster::new();
    let other = cluster.nobody_at(ETCD);
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
        refused(&mut cluster, &format!("j{number}"), args, words).await;
    }
}

/// The services read what boot wrote for them. Whoever spoils that is told so where he looks.
#[tokio::test]
async fn a_service_that_cannot_read_its_config() {
    let mut cluster = Cluster::new();
    cluster.form(Forming::Join, 1);
    cluster.whole(1).await;
    let machine = cluster.machine_mut("j1");
    let config = machine.data().join("run/judicator.toml");
    let good = fs::read_to_string(&config).unwrap();
    fs::write(&config, "[judicator]\nlisten = 7\n").unwrap();
    machine
        .signal(Process::Service("judicator"), Signal::SIGKILL)
        .await;
    let judicator = machine
        .service("judicator", "a reason", |service| {
            service.exit.contains("exit code 1: ")
        })
        .await;
    assert!(judicator.exit.contains("judicator.listen"), "{judicator:?}");
    fs::write(&config, good).unwrap();
    machine.ready().await;
}
