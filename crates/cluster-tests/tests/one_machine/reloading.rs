//! SIGHUP reloads tokens, secrets and the log level, and ends nothing.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cluster_tests::{HttpResponse, NodeProcess, RawHttpClient, TestSystem, conclave, shell, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};

use crate::harness::text;

const SOON: Duration = Duration::from_secs(60);
const OLD: &str = "the-old-token-of-ada";
const NEW: &str = "the-new-token-of-ada";

async fn status(web: &RawHttpClient, token: &str) -> u16 {
    HttpResponse::of(web.request("GET", "/api/v1/stats").bearer_auth(token))
        .await
        .status
}

async fn wait_until_logged(node: &NodeProcess, words: &str) {
    wait_until(&format!("'{words}' in the log"), SOON, async || {
        node.log().contains(words).then_some(())
    })
    .await;
}

#[tokio::test]
async fn tokens_are_reloaded_and_an_invalid_file_changes_nothing() {
    let system = TestSystem::new().unwrap();
    let tokens = system.folder.path().join("tokens");
    fs::write(&tokens, format!("{OLD} ada\n")).unwrap();
    let up = system.up(&["--tokens-file", text(&tokens)]).unwrap();
    let web = RawHttpClient::new(&system.url(""));
    assert_eq!((status(&web, OLD).await, status(&web, NEW).await), (200, 401));

    fs::write(&tokens, format!("# new\n{NEW} ada\n")).unwrap();
    up.signal(Signal::SIGHUP);
    wait_until_logged(&up, "tokens reloaded").await;
    assert_eq!((status(&web, OLD).await, status(&web, NEW).await), (401, 200));

    fs::write(&tokens, format!("{OLD} ada\nshort bob\n")).unwrap();
    up.signal(Signal::SIGHUP);
    wait_until_logged(
        &up,
        &format!(
            "could not reload the tokens; keeping the old ones: line 2 of {}",
            text(&tokens)
        ),
    )
    .await;
    assert_eq!((status(&web, OLD).await, status(&web, NEW).await), (401, 200));
    assert!(cluster_tests::is_alive(up.pid()));
}

#[tokio::test]
async fn the_cluster_secret_is_reloaded_on_both_sides() {
    let system = TestSystem::new().unwrap();
    let secret = system.folder.path().join("secret");
    fs::write(&secret, "the-first-secret-of-all\n").unwrap();
    let flags = ["--cluster-file", text(&secret)];
    let up = system.up(&[&flags[..], &["--slots", "0"]].concat()).unwrap();
    let executor = system.executor("e", &flags).unwrap();
    system.ready(1).await;

    fs::write(&secret, "the-second-secret-of-all\n").unwrap();
    for node in [&up, &executor] {
        node.signal(Signal::SIGHUP);
        wait_until_logged(node, "cluster secret reloaded").await;
    }
    assert_eq!(system.run(shell("true")).await.status.as_str(), "success");
    // A node with the old secret is refused.
    let old = system.folder.path().join("old");
    fs::write(&old, "the-first-secret-of-all\n").unwrap();
    let stranger = system.executor("s", &["--cluster-file", text(&old)]).unwrap();
    wait_until_logged(&stranger, "wrong cluster secret").await;
}

#[tokio::test]
async fn the_log_level_is_reloaded() {
    let system = TestSystem::new().unwrap();
    let config = system.folder.path().join("node.toml");
    let write = |level: &str, slots: u32| {
        fs::write(
            &config,
            format!("[node]\nlog = '{level}'\n[executor]\nslots = {slots}\n"),
        )
        .unwrap();
    };
    write("info", 1);
    let mut command = system.up_command(&["--config", text(&config)]);
    command.env_remove("CONCLAVE_NODE_LOG");
    let up = NodeProcess::launch("up", system.folder.path(), command).unwrap();
    let first = system.run(shell("true")).await;
    assert!(!up.log().contains("DEBUG"), "{}", up.log());

    write("debug", 2);
    up.signal(Signal::SIGHUP);
    wait_until_logged(&up, "restart the node to apply them: executor.slots").await;
    let second = system.run(shell("true")).await;
    wait_until_logged(&up, &format!("task handed to an executor task={}", second.id)).await;
    assert!(
        !up.log()
            .contains(&format!("task handed to an executor task={}", first.id))
    );

    // An invalid file is named with its line, and changes nothing.
    write("loud", 1);
    up.signal(Signal::SIGHUP);
    wait_until_logged(&up, &format!("node.log ({}:2)", text(&config))).await;
    assert!(up.log().contains("could not reload the settings"), "{}", up.log());
    let third = system.run(shell("true")).await;
    wait_until_logged(&up, &format!("task handed to an executor task={}", third.id)).await;
}

#[tokio::test]
async fn sighup_ends_no_node() {
    let system = TestSystem::new().unwrap();
    let judicator = system.judicator(&[]).unwrap();
    let executor = system.executor("e", &[]).unwrap();
    let gateway = system.gateway(&[]).unwrap();
    system.ready(1).await;
    for node in [&judicator, &executor, &gateway] {
        node.signal(Signal::SIGHUP);
        wait_until_logged(node, "SIGHUP").await;
    }
    assert_eq!(system.run(shell("true")).await.status.as_str(), "success");
    for node in [&judicator, &executor, &gateway] {
        assert!(cluster_tests::is_alive(node.pid()));
    }
}

/// No cluster is reachable, so the node waits; that is enough to see whether its services receive the signal.
#[tokio::test]
async fn boot_forwards_sighup_to_its_services() {
    let system = TestSystem::new().unwrap();
    let config = system.folder.path().join("node.toml");
    fs::write(&config, "[node]\nlog = 'info'\n").unwrap();
    let (data, port) = (
        system.data(),
        system.http().rsplit(':').next().unwrap().to_string(),
    );
    let client_port = format!("etcd.client_port={port}");
    let mut command = std::process::Command::new(cluster_tests::conclave());
    command
        .args([
            "executor",
            "--cluster",
            "--join",
            "127.0.0.1:1",
            "--config",
            text(&config),
        ])
        .args(["--data", text(&data), "--set", &client_port])
        .env_remove("CONCLAVE_NODE_LOG");
    let boot = NodeProcess::spawn_logged("boot", system.folder.path(), command).unwrap();
    let service_log = || fs::read_to_string(data.join("log/etcd.log")).unwrap_or_default();
    wait_until_logged(&boot, "service started service=etcd").await;

    fs::write(&config, "[node]\nlog = 'debug'\n").unwrap();
    boot.signal(Signal::SIGHUP);
    wait_until("the service to receive SIGHUP", SOON, async || {
        service_log().contains("SIGHUP: reloading").then_some(())
    })
    .await;
    assert!(cluster_tests::is_alive(boot.pid()));
    assert!(!boot.log().contains("service exited"), "{}", boot.log());
    let written = fs::read_to_string(data.join("run/etcd.toml")).unwrap();
    assert!(written.contains("log = \"debug\""), "{written}");
    boot.signal(Signal::SIGTERM);
    let mut boot = boot;
    assert!(boot.wait_for_end(SOON).await.success());
}

/// Starts a node that blocks while it reads its configuration, and sends SIGHUP several times.
async fn sighup_while_reading_configuration(arguments: &[&str]) -> Child {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("node.toml");
    mkfifo(&config, Mode::S_IRWXU).expect("a pipe");
    let node = Command::new(conclave())
        .args(arguments)
        .args(["--config", text(&config)])
        .stderr(Stdio::piped())
        .spawn()
        .expect("conclave starts");
    let pid = Pid::from_raw(i32::try_from(node.id()).expect("a process number"));
    // The open returns when the node opens its end of the FIFO and waits for its configuration.
    let opened = tokio::task::spawn_blocking(move || File::create(config)).await;
    let mut config = opened.expect("no panic").expect("a pipe");
    for _ in 0..5 {
        kill(pid, Signal::SIGHUP).expect("the node is there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    writeln!(config, "nonsense").expect("the node reads");
    node
}

#[tokio::test]
async fn sighup_does_not_end_a_starting_node() {
    for arguments in [
        &["up"][..],
        &["judicator"],
        &["executor"],
        &["gateway"],
        &["judicator", "--cluster", "--first"],
        &["service", "gateway"],
    ] {
        let node = sighup_while_reading_configuration(arguments).await;
        let ended = node.wait_with_output().expect("its end");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(
            ended.status.code(),
            Some(1),
            "{arguments:?}: {} {said}",
            ended.status
        );
        assert!(said.contains("nonsense"), "{arguments:?}: {said}");
    }
}
