//! Files with invalid paths, and malformed archives.

use cluster_tests::{HttpResponse, RawHttpClient};
use serde_json::{Value, json};

use crate::harness::SingleNode;
use crate::multipart_builder::MultipartBuilder;
use crate::zip_builder::{ZipBuilder, inline, rename};

async fn add(web: &RawHttpClient, source: &Value, data: &Value) -> HttpResponse {
    let task = json!({"source": source, "data": data, "execute": {"command": "true"}});
    web.post("/api/v1/tasks", &task).await
}

async fn assert_nothing_added(node: &SingleNode) {
    let found = node.web.get("/api/v1/tasks").await.json();
    assert_eq!(found["tasks"], json!([]), "something was added");
    let task = node.web.run(&json!({"execute": {"command": "echo well"}})).await;
    assert_eq!(task["result"]["execute"]["stdout"], "well\n");
}

#[tokio::test]
async fn paths_outside_the_workspace_are_refused() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let long = "x".repeat(256);
    let deep = "d/".repeat(32) + "f";
    let longest = "longer/".repeat(150) + "f";
    for (path, words) in [
        ("../x", "inside the workspace"),
        ("a/../../x", "inside the workspace"),
        ("a/..", "inside the workspace"),
        ("..", "inside the workspace"),
        (".", "inside the workspace"),
        ("./x", "inside the workspace"),
        ("/etc/passwd", "absolute"),
        ("//x", "absolute"),
        ("a//b", "empty part"),
        ("a/", "empty part"),
        ("", "empty"),
        ("a\0b", "control"),
        ("a\nb", "control"),
        ("\u{7f}", "control"),
        (&long, "255"),
        (&deep, "32"),
        (&longest, "1024"),
    ] {
        let listed = json!({path: "x"});
        add(web, &listed, &json!({}))
            .await
            .assert_problem_at(422, &format!("source.{path}"), words);
        add(web, &json!({}), &listed)
            .await
            .assert_problem_at(422, &format!("data.{path}"), words);
    }
    // Two paths that cannot both exist.
    for (source, data, field) in [
        (json!({"a": "", "a/b": ""}), json!({}), "source"),
        (json!({"x/a/b/c": "", "x/a": ""}), json!({}), "source"),
        (json!({}), json!({"a": "", "a/b": ""}), "source"),
        (json!({"data/x": ""}), json!({"x": ""}), "data.x"),
        (json!({"data": ""}), json!({"x": ""}), "source"),
        (json!({"data/x/y": ""}), json!({"x": ""}), "source"),
        (json!({"data/x": ""}), json!({"x/y": ""}), "source"),
    ] {
        let problem = add(web, &source, &data).await.assert_problem(422);
        assert_eq!(problem["field"], field, "{problem}");
    }
    let many: serde_json::Map<_, _> = (0..1001).map(|n| (n.to_string(), json!(""))).collect();
    let problem = add(web, &json!(many), &json!({})).await.assert_problem(422);
    assert_eq!(
        (&problem["limit"], &problem["actual"]),
        (&json!("1000"), &json!("1001"))
    );
    assert_nothing_added(&node).await;
}

#[tokio::test]
async fn malformed_archives_are_refused() {
    let node = SingleNode::up(&["--set", "gateway.max_unpacked=32MiB"]);
    let web = &node.web;
    let file = |name: &str| ZipBuilder::new().file(name, 0o644, b"x");
    let mut twice = file("name-1").file("name-2", 0o644, b"y").bytes();
    rename(&mut twice, "name-2", "name-1");
    let mut disconnect = file("a").file("b", 0o644, &[7; 5000]).bytes();
    disconnect.truncate(disconnect.len() / 2);
    let mut damaged = ZipBuilder::new().file("a", 0o644, &b"hello ".repeat(100)).bytes();
    for byte in &mut damaged[35..45] {
        *byte ^= 0x55;
    }
    let noise: Vec<u8> = (0..12u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let crowd = (0..1001).fold(ZipBuilder::new(), |archive, n| {
        archive.file(&n.to_string(), 0o644, b"")
    });
    for (archive, field, words) in [
        (file("../x").bytes(), ".../x", "inside the workspace"),
        (file("a/../../x").bytes(), ".a/../../x", "inside the workspace"),
        (file("/etc/cron.d/x").bytes(), "./etc/cron.d/x", "absolute"),
        (file("a//b").bytes(), ".a//b", "empty part"),
        (
            ZipBuilder::new().folder("../x/").bytes(),
            ".../x/",
            "inside the workspace",
        ),
        (
            ZipBuilder::new().link("link", "/etc/passwd").bytes(),
            ".link",
            "link",
        ),
        (
            ZipBuilder::new().link("l", "..").file("l/x", 0o644, b"").bytes(),
            ".l",
            "link",
        ),
        (twice, "", "same name"),
        (file("a").file("a/b", 0o644, b"").bytes(), "", "folder"),
        (
            file("bomb").file("zeros", 0o644, &vec![0; 20 << 20]).bytes(),
            ".zeros",
            "far more than its size",
        ),
        (
            file("1")
                .file("2", 0o644, &noise)
                .file("3", 0o644, &noise)
                .file("4", 0o644, &noise)
                .bytes(),
            "",
            "holds too much",
        ),
        (crowd.bytes(), "", "too many files"),
        (disconnect, "", "zip"),
        (damaged, ".a", ""),
        (b"PK\x03\x04 and no more".to_vec(), "", "not a zip"),
        (Vec::new(), "", "not a zip"),
    ] {
        let answer = add(web, &inline(&archive), &json!({})).await;
        // Conflicts between unpacked files are reported for the source as a whole.
        answer.assert_problem_at(422, &format!("source{field}"), words);
        let answer = add(web, &json!({}), &inline(&archive)).await;
        let problem = answer.assert_problem(422);
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
        // The same archive as a part of a form.
        let form = MultipartBuilder::default().task(&json!({"execute": {"command": "true"}}));
        let answer = form.part("source_zip", Some("a.zip"), &archive).post(web).await;
        answer.assert_problem_at(422, &format!("source{field}"), words);
    }
    for (source, field) in [
        (json!({"zip": {"base64": "?"}}), "source.zip.base64"),
        (json!({"zip": {"base64": "UEsFBg="}}), "source.zip.base64"),
        (json!({"zip": {"blob": "00"}}), "source.zip.blob"),
        (json!({"f": {"base64": "YQ"}}), "source.f.base64"),
        (json!({"f": {"text": "", "base64": ""}}), "source.f"),
        (json!({"f": {}}), "source.f"),
        (json!({"f": {"executable": true}}), "source.f"),
        (
            json!({"f": {"text": "", "executable": "yes"}}),
            "source.f.executable",
        ),
        (json!({"f": {"blob": "G".repeat(64)}}), "source.f.blob"),
    ] {
        let problem = add(web, &source, &json!({})).await.assert_problem(422);
        assert_eq!(problem["field"], field, "{problem}");
    }
    let executable = json!({"execute": {"command": "cat", "input": {"text": "", "executable": true}}});
    web.post("/api/v1/tasks", &executable)
        .await
        .assert_problem_at(422, "execute.input", "files");
    assert_nothing_added(&node).await;
}

#[tokio::test]
async fn the_zips_of_a_request_share_one_size_limit() {
    let node = SingleNode::up(&["--set", "gateway.max_unpacked=10MiB"]);
    let web = &node.web;
    // Each zip alone is within the limit.
    let zip = inline(&ZipBuilder::new().file("f", 0o644, &vec![0; 4 << 20]).bytes());
    let task = json!({"source": zip, "execute": {"command": "true"}});
    let batch = async |count: usize| {
        let tasks = vec![task.clone(); count];
        web.post("/api/v1/tasks/batch", &json!({"tasks": tasks})).await
    };
    let refused = batch(3).await;
    refused.assert_problem_at(422, "tasks[2].source", "holds too much");
    assert_eq!(refused.json()["limit"], (10 << 20).to_string());
    assert_nothing_added(&node).await;
    // The memory and the permit are released each time.
    for _ in 0..5 {
        assert_eq!(batch(2).await.status, 201);
    }
}
