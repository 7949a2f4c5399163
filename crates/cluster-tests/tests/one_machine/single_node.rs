//! `conclave up` for operators: several nodes on one machine, authentication, checks at start, status and stop.

use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;
use std::time::Duration;

use cluster_tests::{
    CommandOutput, ConclaveCli, HttpResponse, NodeProcess, RawHttpClient, TestSystem, conclave, shell,
    wait_until,
};
use serde_json::{Value, json};

use crate::harness::{SingleNode, text};

const SOON: Duration = Duration::from_secs(60);

/// Starts `conclave up` without an RPC address, the default.
fn up_without_rpc(system: &TestSystem, more: &[&str]) -> NodeProcess {
    let data = system.data();
    let args = ["up", "--listen", system.http(), "--data", text(&data)];
    NodeProcess::start("up", system.folder.path(), &[&args, more].concat()).expect("conclave up serves")
}

fn tokens(system: &TestSystem) -> String {
    let path = system.folder.path().join("tokens");
    std::fs::write(&path, "a-token-long-enough ada\n").expect("a file");
    text(&path).to_string()
}

async fn executors(web: &RawHttpClient) -> usize {
    let request = web
        .request("GET", "/api/v1/executors")
        .bearer_auth("a-token-long-enough");
    let executors = HttpResponse::of(request).await.json()["executors"].clone();
    executors.as_array().map_or(0, Vec::len)
}

/// The TCP ports on which a process listens.
fn listening(pid: i32) -> Vec<u16> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a process");
    let sockets: Vec<String> = files
        .flatten()
        .filter_map(|file| std::fs::read_link(file.path()).ok())
        .filter_map(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some(inode.to_string())
        })
        .collect();
    let mut ports = Vec::new();
    for table in ["tcp", "tcp6"] {
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in table.lines() {
            // 0A is TCP_LISTEN; the tenth field is the socket's inode.
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let [_, local, _, "0A", _, _, _, _, _, inode, ..] = fields[..]
                && sockets.iter().any(|socket| socket == inode)
            {
                let (_, port) = local.rsplit_once(':').expect("an address");
                ports.push(u16::from_str_radix(port, 16).expect("a port"));
            }
        }
    }
    ports
}

#[tokio::test]
async fn two_nodes_run_side_by_side() {
    let systems = [TestSystem::new().unwrap(), TestSystem::new().unwrap()];
    let nodes = systems.each_ref().map(|system| up_without_rpc(system, &[]));
    for (system, node) in systems.iter().zip(&nodes) {
        assert!(!node.line().contains("rpc://"), "{}", node.line());
        let task = system.run(shell("echo well")).await;
        assert_eq!(task.status.as_str(), "success");
        let judicators = system.client.judicators().await.unwrap();
        assert_eq!(judicators[0].address, "");
        let (_, http) = system.http().rsplit_once(':').unwrap();
        assert_eq!(listening(node.pid()), [http.parse::<u16>().unwrap()]);
    }
    // The default RPC address may be in use, because it is not opened.
    let third = TestSystem::new().unwrap();
    let address = third.http().to_string();
    drop(third);
    let said = ConclaveCli::new("").run(&["config", "--listen", &address]).await;
    assert_eq!(said.code, 0, "{said:?}");
}

#[tokio::test]
async fn with_tokens_an_executor_needs_the_secret() {
    let system = TestSystem::new().unwrap();
    let up = system.up(&["--tokens-file", &tokens(&system)]).unwrap();
    let secret = system.data().join("cluster-secret");
    assert!(up.log().contains(text(&secret)), "{}", up.log());
    let mode = std::fs::metadata(&secret).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let stranger = system.executor("stranger", &[]).unwrap();
    wait_until("the stranger to be refused", SOON, async || {
        stranger
            .log()
            .contains("the cluster secret is missing")
            .then_some(())
    })
    .await;
    let web = RawHttpClient::new(&system.url(""));
    let friend = system
        .executor("friend", &["--cluster-file", text(&secret)])
        .unwrap();
    wait_until("the friend to join", SOON, async || {
        (executors(&web).await == 2).then_some(())
    })
    .await;
    drop((stranger, friend));
    assert!(
        !up.log()
            .contains(std::fs::read_to_string(&secret).unwrap().trim())
    );
}

#[tokio::test]
async fn a_gateway_with_tokens_needs_a_secret() {
    let system = TestSystem::new().unwrap();
    let tokens = tokens(&system);
    let args = ["gateway", "--listen", system.http(), "--judicator", system.rpc()];
    let args = [&args[..], &["--tokens-file", &tokens]].concat();
    let said = ConclaveCli::new("").run(&args).await;
    said.assert_failure(1, &["secrets.cluster_file", "--insecure"]);
    // In a cluster it is reported before anything is started, too.
    let data = system.folder.path().join("web");
    let args = [
        "gateway",
        "--cluster",
        "--join",
        "127.0.0.1:1",
        "--data",
        text(&data),
    ];
    let said = ConclaveCli::new("")
        .run(&[&args[..], &["--tokens-file", &tokens]].concat())
        .await;
    said.assert_failure(1, &["secrets.cluster_file", "--insecure"]);
    assert!(!data.exists(), "{said:?}");
    let _judicator = system.judicator(&[]).unwrap();
    let gateway = system.gateway(&["--tokens-file", &tokens, "--insecure"]);
    assert!(gateway.is_ok());
}

/// A user without a delegated control group: everything that is missing is listed at once, before anything is served, and the
/// suggested command line works.
#[tokio::test]
async fn an_ordinary_user_gets_one_list_of_everything_missing() {
    const NOBODY: u32 = 65534;
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    // The build folder may be below one that only root may enter, like /root. Another process copies the binary, because a
    // concurrent test could inherit the descriptor, and a file that is open for writing cannot be executed.
    let binary = folder.path().join("conclave");
    let installed = Command::new("install")
        .args(["-m", "755"])
        .arg(conclave())
        .arg(&binary)
        .status();
    assert!(installed.unwrap().success());
    let listening = format!("--listen={}", TestSystem::new().unwrap().http());
    let up = |more: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&binary)
            .args(["up", "--slots=1", &listening, "--data"])
            .arg(folder.path().join("data"))
            .args(more)
            .env_remove("CONCLAVE_EXECUTOR_ISOLATION")
            .env("HOME", folder.path());
        command
    };
    let mut command = tokio::process::Command::from(up(&[]));
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let said = CommandOutput::of(command.spawn().unwrap()).await;
    assert_eq!((said.code, said.text()), (1, ""), "{said:?}");
    assert_eq!(said.stderr.matches("cannot be enforced").count(), 1, "{said:?}");
    said.assert_failure(1, &["memory, processes and cpu", "Delegate=yes"]);

    let all = "--allow-weaker memory --allow-weaker processes --allow-weaker cpu";
    // If cells cannot be created either, that is part of the same message, with one remedy for both.
    assert_ne!(
        said.stderr.contains(all),
        said.stderr.contains("--isolation none"),
        "{said:?}"
    );
    let remedy = match said.stderr.contains("--isolation none") {
        true => "--isolation none",
        false => all,
    };
    let remedy: Vec<_> = remedy.split(' ').collect();
    let node = NodeProcess::launch("up", folder.path(), up(&remedy)).expect("what was advised works");
    node.kill();
}

#[tokio::test]
async fn status_and_stop_work_for_a_single_node() {
    let system = TestSystem::new().unwrap();
    let data = system.data();
    let cli = ConclaveCli::new("");
    let on_it = |verb: &'static str| [verb, "--data", text(&data)];
    for verb in ["status", "stop"] {
        let said = cli.run(&on_it(verb)).await;
        said.assert_failure(1, &[text(&data), "--data", "started without --cluster"]);
    }

    let mut up = up_without_rpc(&system, &[]);
    // A user who may open the file could lock it, and prevent the node from starting.
    for lock in ["run/boot.pid", "executor/lock"] {
        let mode = std::fs::metadata(data.join(lock)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{lock}");
    }
    let said = wait_until("the node to be ready", SOON, async || {
        let said = cli.run(&on_it("status")).await.assert_success();
        said.text().contains("\nready").then_some(said)
    })
    .await;
    let pid = up.pid().to_string();
    for words in ["up ", &pid, system.http(), "version"] {
        assert!(said.text().contains(words), "no {words} in {said:?}");
    }
    let status = wait_until("the node to be ready", SOON, async || {
        let status = cli.json(&["status", "--json", "--data", text(&data)]).await;
        (status["ready"] == json!(true)).then_some(status)
    })
    .await;
    assert_eq!(status["pid"], json!(up.pid()));
    assert_eq!(status["addresses"], json!({"http": system.http()}));

    for args in [&["hold", "etcd"][..], &["unhold", "etcd"]] {
        let said = cli.run(&[args, &["--data", text(&data)]].concat()).await;
        said.assert_failure(1, &["single process", "conclave stop"]);
    }
    for verb in ["leave", "stop --leave"] {
        let words: Vec<_> = verb.split(' ').chain(["--data", text(&data)]).collect();
        cli.run(&words)
            .await
            .assert_failure(1, &["single process", "not part of a cluster"]);
    }
    assert!(cluster_tests::is_alive(up.pid()));

    cli.run(&on_it("stop")).await.assert_success();
    assert!(up.wait_for_end(SOON).await.success());
    let said = cli.run(&on_it("status")).await.assert_success();
    assert!(said.text().contains("not running"), "{said:?}");
    cli.run(&on_it("stop")).await.assert_failure(1, &["not running"]);
}

#[tokio::test]
async fn the_status_of_an_unready_node_has_the_reason() {
    let system = TestSystem::new().unwrap();
    let up = up_without_rpc(&system, &[]);
    up.signal(nix::sys::signal::Signal::SIGSTOP);
    let data = system.data();
    let said = ConclaveCli::new("")
        .run(&["status", "--data", text(&data)])
        .await
        .assert_success();
    up.signal(nix::sys::signal::Signal::SIGCONT);
    assert!(said.text().contains("not ready: no response"), "{said:?}");
}

#[tokio::test]
async fn tasks_that_end_as_system_error_are_logged() {
    let attempts = ["--set", "judicator.attempts=1", "--set", "executor.stall=6s"];
    // For this long a stopped warden gets no extension.
    let lease = ["--set", "executor.self_kill=9m", "--set", "judicator.lease=10m"];
    let node = SingleNode::up(&[&attempts[..], &lease, &["--log", "debug"]].concat());
    // The stopped warden enforces no limits.
    let mut broken = shell("kill -STOP $PPID; sleep 600");
    broken["execute"]["limits"]["wall"] = "1s".into();
    let broken = node.system.run(broken).await;
    assert_eq!(broken.status.as_str(), "system_error");
    let exited_task = node.system.run(shell("exit 3")).await;
    let line = |words: &'static [&'static str], id: String| {
        let up = &node.up;
        async move {
            wait_until(&format!("a line with {words:?}"), SOON, async || {
                let log = up.log();
                let has = |line: &&str| line.contains(&id) && words.iter().all(|word| line.contains(word));
                log.lines().find(has).map(str::to_string)
            })
            .await
        }
    };
    let told = line(
        &["INFO", "task ended as system_error", "user=tests", "reason="],
        broken.id.to_string(),
    )
    .await;
    assert!(
        told.contains("lost 1 times: its slot did not end the command"),
        "{told}"
    );
    line(
        &["DEBUG", "task handed to an executor", "executor=", "attempt=1"],
        exited_task.id.to_string(),
    )
    .await;
    let ended = &[
        "DEBUG",
        "task ended",
        "executor=",
        "attempt=1",
        "status=run_failed",
        "reason=\"exited\"",
    ];
    line(ended, exited_task.id.to_string()).await;

    let long = node.system.add(shell("sleep 600")).await.id;
    for _ in 0..2 {
        node.system.client.cancel(long).await.unwrap();
    }
    line(&["DEBUG", "task ended", "status=cancelled"], long.to_string()).await;
    let log = node.up.log();
    let ends = log
        .lines()
        .filter(|line| line.contains("task ended") && line.contains(&long.to_string()));
    assert_eq!(ends.count(), 1, "{log}");
}

#[tokio::test]
async fn the_log_can_be_json() {
    let system = TestSystem::new().unwrap();
    let up = up_without_rpc(&system, &["--log", "debug,json"]);
    let task = system.run(shell("true")).await;
    let handed_out = wait_until("the line about the task", SOON, async || {
        let log = up.log();
        // The last line may be incomplete.
        let (complete, _) = log.rsplit_once('\n')?;
        let lines: Vec<Value> = complete
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect();
        lines
            .into_iter()
            .find(|line| line["message"] == "task handed to an executor")
    })
    .await;
    assert_eq!(handed_out["task"], json!(task.id.to_string()));
    for field in ["timestamp", "level", "target"] {
        assert!(handed_out[field].is_string(), "{handed_out}");
    }
}
