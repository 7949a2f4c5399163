use api::{HttpClientError, NewTask, Problem};
use cluster_tests::{RawHttpClient, StreamedResponse, TestSystem, TmpfsDisk, shell, wait_until};
use model::{TaskId, TaskStatus};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{FaultHarness, LONG_LEASE_FLAGS, SHORT_LEASE_FLAGS, SOON, output};

/// Adds tasks with this much input until one is refused.
async fn add_until_refused(system: &TestSystem, bytes: usize) -> (Vec<TaskId>, Problem) {
    let task = json!({"user": "tests", "execute": {"command": "wc -c", "input": "x".repeat(bytes)}});
    let task: NewTask = serde_json::from_value(task).unwrap();
    let mut ids = Vec::new();
    loop {
        assert!(ids.len() < 10_000, "the disk is never full");
        match system.client.add(&task, None).await {
            Ok(task) => ids.push(task.id),
            Err(HttpClientError::Problem(problem)) => return (ids, *problem),
            Err(error) => panic!("not a problem: {error:?}"),
        }
    }
}

#[tokio::test]
async fn a_full_store_refuses_tasks_until_space_is_freed() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let disk = TmpfsDisk::mount(&system.data().join("store"), "16m");
    let mut up = system.up(&LONG_LEASE_FLAGS).unwrap();
    disk.fill(2 << 20);
    let mut kept = Vec::new();
    // Inline in the task, and as a blob.
    for bytes in [30 << 10, 60 << 10, 1 << 10] {
        let (ids, problem) = add_until_refused(system, bytes).await;
        println!("{} tasks of {bytes} bytes, then: {}", ids.len(), problem.detail);
        assert_eq!((problem.status, &problem.kind[..]), (503, "/api/docs#full"));
        let store = system.data().join("store").display().to_string();
        assert!(problem.detail.contains(&store) && problem.detail.contains("free some space"));
        kept.extend(ids.into_iter().map(|id| (id, bytes)));
    }
    assert!(!kept.is_empty());
    disk.free();
    let after = system.run(harness.short_task()).await;
    assert_eq!(after.status, TaskStatus::Success);
    for (id, bytes) in &kept {
        let task = system.done(*id).await;
        assert_eq!(
            (task.status, output(&task)),
            (TaskStatus::Success, &format!("{bytes}\n")[..])
        );
    }
    let stats = system.client.stats().await.unwrap();
    assert_eq!(stats.counts.values().sum::<u64>(), kept.len() as u64 + 1);
    system.leftovers().wait_until_clean().await;
    up.signal(Signal::SIGTERM);
    assert!(up.wait_for_end(SOON).await.success());
}

fn with_data(bytes: usize) -> Value {
    json!({"user": "tests", "data": {"file": "x".repeat(bytes)}, "execute": {"command": "wc -c < data/file"}})
}

/// The executor's data folder, including the spool, is on a disk that becomes full.
#[tokio::test]
async fn a_full_disk_under_the_executor_delays_tasks_and_ends_none() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let disk = TmpfsDisk::mount(&system.data().join("executor"), "4m");
    let _up = system.up(&LONG_LEASE_FLAGS).unwrap();
    // A task that fills the disk itself fails.
    let greedy = system.run(shell("dd if=/dev/zero of=big bs=1M count=8")).await;
    assert_eq!(greedy.status, TaskStatus::RunFailed);
    let stderr = greedy.result.unwrap().execute.unwrap().stderr;
    assert!(stderr.contains("No space left on device"), "{stderr}");
    // Its space is free again for the next task.
    let next = system.run(with_data(1 << 20)).await;
    assert_eq!((next.status, output(&next)), (TaskStatus::Success, "1048576\n"));

    let waits = harness.add_waiting().await;
    harness.wait_for_runs(waits, 1).await;
    disk.fill(0);
    let mut delayed = Vec::new();
    for bytes in [10, 64 << 10] {
        let id = system.add(with_data(bytes)).await.id;
        wait_until(
            &format!("a failed attempt with {bytes} bytes"),
            SOON,
            async || {
                let trouble = harness.get(id).await.trouble?;
                trouble.contains("No space left on device").then_some(())
            },
        )
        .await;
        delayed.push(id);
    }
    // There is no space for its result either, but it is reported.
    let (task, runs) = harness.finish(waits).await;
    assert_eq!((task.attempt, runs.len()), (1, 1));

    disk.free();
    for id in delayed {
        let task = system.done(id).await;
        assert_eq!((task.status, task.trouble), (TaskStatus::Success, None));
    }
    system.leftovers().wait_until_clean().await;
}

/// Nothing can be written, not even the id of the new session.
#[tokio::test]
async fn an_executor_whose_session_expires_while_its_disk_is_full_continues() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let disk = TmpfsDisk::mount(&harness.path("e"), "4m");
    let _judicator = system.judicator(&SHORT_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let executor = system.executor("e", &SHORT_LEASE_FLAGS).unwrap();
    system.ready(1).await;
    let session = harness.executor("e").await.unwrap().session;
    disk.fill(0);
    executor.signal(Signal::SIGSTOP);
    wait_until("the session to end", SOON, async || {
        (harness.executor("e").await?.health == "gone").then_some(())
    })
    .await;
    executor.signal(Signal::SIGCONT);
    harness.wait_for_other_session("e", &session).await;
    disk.free();
    assert_eq!(system.run(with_data(64 << 10)).await.status, TaskStatus::Success);
    system.leftovers_at("e").wait_until_clean().await;
}

/// The operator may mount a separate disk for the workspaces.
#[tokio::test]
async fn the_workspaces_may_be_on_a_separate_disk() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let _disk = TmpfsDisk::mount(&system.data().join("executor/work"), "4m");
    let up = system.up(&LONG_LEASE_FLAGS).unwrap();
    let id = harness.add_waiting().await;
    harness.wait_for_runs(id, 1).await;
    up.kill();
    let _up = system.up(&LONG_LEASE_FLAGS).unwrap();
    harness.wait_for_runs(id, 2).await;
    harness.finish(id).await;
    system.leftovers().wait_until_clean().await;
}

/// The disk becomes full while a task writes, so there is no room for its output and files. The task does not fail for
/// that, nor does it run again: the result says what is missing.
#[tokio::test]
async fn what_does_not_fit_on_the_executors_disk_is_left_out_of_the_result() {
    for isolation in ["none", "cell"] {
        let harness = FaultHarness::new();
        let system = &harness.system;
        let disk = TmpfsDisk::mount(&system.data().join("executor"), "16m");
        let gates = harness.path("gates");
        std::fs::create_dir(&gates).unwrap();
        let bind = format!("sandbox.binds={}", gates.display());
        let flags = ["--isolation", isolation, "--set", &bind];
        let _up = system.up(&[&LONG_LEASE_FLAGS[..], &flags].concat()).unwrap();
        let web = RawHttpClient::new(&system.url(""));
        let gate = gates.join("gate");
        let command = format!(
            "head -c 2000000 /dev/urandom > large; echo small > small; echo ready; \
             until [ -e {} ]; do sleep 0.02; done; head -c 4000000 /dev/zero | tr '\\0' x",
            gate.display()
        );
        let mut task = shell(&command);
        task["keep"] = json!(["large", "small"]);
        let id = system.add(task).await.id;
        let path = format!("/api/v1/tasks/{id}/execute/stdout?follow=true");
        let mut follower = StreamedResponse::open(web.request("GET", &path)).await;
        follower
            .wait_for("the task to be ready", |bytes| bytes == b"ready\n")
            .await;
        disk.fill(0);
        std::fs::write(&gate, "").unwrap();
        system.done(id).await;
        let task = web.get(&format!("/api/v1/tasks/{id}")).await.json();
        println!("{isolation}: {}", task["result"]["files_left_out"]);
        assert_eq!(
            (&task["status"], &task["attempt"]),
            (&json!("success"), &json!(1)),
            "{task:#}"
        );
        let outcome = &task["result"]["execute"];
        assert_eq!(outcome["stdout_truncated"], true, "{task:#}");
        let kept = outcome["stdout_bytes"].as_u64().unwrap();
        assert!((65_536..4_000_006).contains(&kept), "{kept} bytes");
        let stdout = web.get(&format!("/api/v1/tasks/{id}/execute/stdout")).await;
        assert_eq!(stdout.body.len() as u64, kept);
        // What was kept is whole. What was not is counted.
        let files = task["result"]["files"].as_array().unwrap();
        let left_out = &task["result"]["files_left_out"];
        assert_eq!(
            files.len() as u64 + left_out["count"].as_u64().unwrap(),
            2,
            "{task:#}"
        );
        if files.len() < 2 {
            assert_eq!(left_out["why"], "no_space");
        }
        for file in files {
            let path = format!("/api/v1/tasks/{id}/files/{}", file["path"].as_str().unwrap());
            assert_eq!(
                web.get(&path).await.body.len(),
                file["size"].as_u64().unwrap() as usize
            );
        }
        disk.free();
        let next = json!({"keep": ["f"], "execute": {"command": "head -c 2000000 /dev/zero | tee f"}});
        let next = web.run(&next).await;
        assert_eq!(next["result"]["files"][0]["size"], 2_000_000, "{next:#}");
        assert_eq!(next["result"]["execute"]["stdout_truncated"], false);
        system.leftovers().wait_until_clean().await;
    }
}
