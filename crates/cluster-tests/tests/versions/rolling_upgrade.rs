use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::{HttpClient, NewTask, Task};
use cluster_tests::{
    ClusterProcess, FormationMethod, HTTP, RPC, RawHttpClient, TestCluster, next_form_conclave, wait_until,
};
use model::{TaskId, TaskStatus};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::task::JoinHandle;

const SOON: Duration = Duration::from_secs(120);
/// A gateway that is killed does not answer.
const ANSWERS: Duration = Duration::from_secs(20);
/// Between two attempts of a call.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// The made-up form of the newer nodes: one above that of the others.
const NEXT_FORM: u32 = model::TaskForm::CURRENT.0 + 1;

/// Which form the tasks of a client have.
#[derive(Clone, Copy, PartialEq)]
enum LoadedForm {
    Current,
    Next,
}

/// A client that adds tasks of one form through one gateway of a mixed cluster, one after the other, until it is stopped.
struct FormClient {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    added: JoinHandle<Vec<TaskId>>,
}

impl FormClient {
    fn start(address: &str, form: LoadedForm) -> FormClient {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let client = HttpClient::new(address, None).unwrap();
        let added = tokio::spawn({
            let (stop, done) = (stop.clone(), done.clone());
            async move {
                let mut added = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let id = add(&client, form).await;
                    added.push(id);
                    done_task(&client, id).await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                added
            }
        });
        FormClient { stop, done, added }
    }

    /// Waits until more tasks have been added and done.
    async fn wait_for_progress(&self) {
        let before = self.done.load(Ordering::Relaxed);
        wait_until("tasks to be done", SOON, async || {
            // One may have been under way before.
            (self.done.load(Ordering::Relaxed) >= before + 2).then_some(())
        })
        .await;
    }

    async fn stop(self) -> Vec<TaskId> {
        self.stop.store(true, Ordering::Relaxed);
        self.added.await.unwrap()
    }
}

/// Adds a task, with the same id until it is acknowledged.
async fn add(client: &HttpClient, form: LoadedForm) -> TaskId {
    let id = TaskId(uuid::Uuid::now_v7());
    let mut task = json!({
        "id": id.to_string(),
        "user": "ada",
        "group": if form == LoadedForm::Next { "next" } else { "current" },
        "execute": {"command": "echo $CONCLAVE_TASK"},
    });
    if form == LoadedForm::Next {
        task["labels"] = json!({"next-form": "yes"});
    }
    let task: NewTask = serde_json::from_value(task).unwrap();
    let begun = Instant::now();
    loop {
        let answer = tokio::time::timeout(ANSWERS, client.add(&task, None)).await;
        match answer {
            Ok(Ok(_)) => return id,
            Ok(Err(error)) => assert!(error.is_transient(), "add was refused for good: {error:?}"),
            Err(_) => {}
        }
        assert!(begun.elapsed() < SOON, "task {id} could not be added");
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

async fn done_task(client: &HttpClient, id: TaskId) -> Task {
    let begun = Instant::now();
    loop {
        let get = client.get(id, Some(Duration::from_secs(1)));
        match tokio::time::timeout(ANSWERS, get).await {
            Ok(Ok(task)) if task.done => return task,
            _ => {}
        }
        assert!(begun.elapsed() < SOON, "task {id} is not done");
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

async fn restart_with(cluster: &mut TestCluster, name: &str, program: &std::path::Path) {
    let node = cluster.node_mut(name);
    node.stop(&[]).await;
    node.set_program(program);
    node.start();
    node.wait_until_ready().await;
}

/// Asserts that the task succeeded, where it should have run.
fn assert_ran(task: &Task, form: LoadedForm) {
    assert_eq!(task.status, TaskStatus::Success, "{task:?}");
    let stdout = &task.result.as_ref().unwrap().execute.as_ref().unwrap().stdout;
    assert_eq!(stdout, &format!("{}\n", task.id));
    if form == LoadedForm::Next {
        let executors: Vec<_> = task
            .ran_on
            .iter()
            .map(|attempt| attempt.executor.as_str())
            .collect();
        assert!(
            !executors.is_empty() && executors.iter().all(|executor| *executor == "e2"),
            "an executor that does not know the form ran it: {task:?}"
        );
    }
}

/// Half of the nodes are upgraded. While each node is killed once, clients of both gateways add tasks of both forms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_and_new_nodes_lose_nothing() {
    let next = next_form_conclave();
    let mut cluster = TestCluster::new();
    cluster.form(FormationMethod::Members, 3);
    cluster.wait_until_complete(3).await;
    ["g1", "g2"].iter().for_each(|name| cluster.add_gateway(name));
    // The old executor talks to the old judicators only, so that these have to leave tasks to others.
    let old_judicators = ["j1", "j3"].map(|name| cluster.node(name).address_of(RPC));
    let [first, third] = old_judicators.each_ref().map(String::as_str);
    let mut old_executor = cluster.plain_executor("e1", &[first, third]);
    for name in ["j2", "g2"] {
        restart_with(&mut cluster, name, &next).await;
        cluster.wait_until_complete(3).await;
        println!("{name} is upgraded");
    }
    // An old judicator hands out no task of the next form, so the new executor talks to the new one.
    let second = cluster.node("j2").address_of(RPC);
    let start_new_executor = |cluster: &TestCluster| cluster.plain_executor_of(&next, "e2", &[&second]);
    let mut new_executor = start_new_executor(&cluster);
    cluster.wait_for_executors(2).await;
    let [old_gateway, new_gateway] = ["g1", "g2"].map(|name| cluster.node(name).address_of(HTTP));

    let clients = [
        FormClient::start(&old_gateway, LoadedForm::Current),
        FormClient::start(&new_gateway, LoadedForm::Current),
        FormClient::start(&new_gateway, LoadedForm::Next),
    ];
    for client in &clients {
        client.wait_for_progress().await;
    }
    for (name, process) in [
        ("j1", ClusterProcess::Service("judicator")),
        ("j2", ClusterProcess::Service("judicator")),
        ("j3", ClusterProcess::Service("judicator")),
        ("g1", ClusterProcess::Service("gateway")),
        ("g2", ClusterProcess::Service("gateway")),
        ("j2", ClusterProcess::Server("mongodb")),
        ("j1", ClusterProcess::Server("mongodb")),
    ] {
        let begun = Instant::now();
        let killed = cluster.node_mut(name).signal(process, Signal::SIGKILL).await;
        cluster.node(name).wait_until_replaced(process, killed).await;
        for client in &clients {
            client.wait_for_progress().await;
        }
        println!(
            "killed {process} of {name}: all clients continue after {:?}",
            begun.elapsed()
        );
    }
    old_executor.kill();
    old_executor = cluster.plain_executor("e1", &[first, third]);
    new_executor.kill();
    new_executor = start_new_executor(&cluster);
    for client in &clients {
        client.wait_for_progress().await;
    }

    // Without the new executor, tasks of the next form wait, and the others go on.
    new_executor.kill();
    for client in &clients[..2] {
        client.wait_for_progress().await;
    }
    let new_client = HttpClient::new(&new_gateway, None).unwrap();
    let waiting = add(&new_client, LoadedForm::Next).await;
    for client in &clients[..2] {
        client.wait_for_progress().await;
    }
    assert!(!new_client.get(waiting, None).await.unwrap().done);
    // The old nodes say why.
    cluster
        .wait_for_judicators("that an old one leaves tasks to others", |judicators| {
            let form = |name| judicators.get(name).and_then(|judicator| judicator.newer_form);
            assert_eq!(form("j2"), None);
            form("j1") == Some(NEXT_FORM) || form("j3") == Some(NEXT_FORM)
        })
        .await;
    let said = cluster_tests::ConclaveCli::new(&format!("http://{old_gateway}"))
        .run(&["judicators"])
        .await;
    said.assert_failure(0, &[&format!("form {NEXT_FORM}"), "upgrade"]);
    let web = RawHttpClient::new(&format!("http://{old_gateway}"));
    let answer = web.get(&format!("/api/v1/tasks/{waiting}")).await;
    let problem = answer.assert_problem(503);
    assert!(
        problem["detail"].as_str().unwrap().contains("upgrade"),
        "{problem}"
    );

    let _new_executor = start_new_executor(&cluster);
    let mut tasks = vec![(waiting, LoadedForm::Next)];
    for (client, form) in
        clients
            .into_iter()
            .zip([LoadedForm::Current, LoadedForm::Current, LoadedForm::Next])
    {
        tasks.extend(client.stop().await.into_iter().map(|id| (id, form)));
    }
    for (id, form) in &tasks {
        assert_ran(&done_task(&new_client, *id).await, *form);
    }
    let stats = new_client.stats().await.unwrap();
    assert_eq!(stats.counts["system_error"], 0);
    assert_eq!(stats.counts["success"], tasks.len() as u64);
    println!("{} tasks, none was lost", tasks.len());

    // The rest is upgraded: now every gateway shows every task.
    for name in ["j1", "j3", "g1"] {
        restart_with(&mut cluster, name, &next).await;
        cluster.wait_until_complete(3).await;
    }
    let old_client = HttpClient::new(&old_gateway, None).unwrap();
    for (id, form) in &tasks {
        assert_ran(&done_task(&old_client, *id).await, *form);
    }
    drop(old_executor);
}
