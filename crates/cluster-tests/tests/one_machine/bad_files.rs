//! Files that would lie where they must not, and archives that lie.

use cluster_tests::{Answer, Web};
use serde_json::{Value, json};

use crate::archive::{Archive, inline, rename};
use crate::form::Form;
use crate::stage::Stage;

async fn add(web: &Web, source: &Value, data: &Value) -> Answer {
    let task = json!({"source": source, "data": data, "execute": {"command": "true"}});
    web.post("/api/v1/tasks", &task).await
}

async fn assert_unharmed(stage: &Stage) {
    let found = stage.web.get("/api/v1/tasks").await.json();
    assert_eq!(found["tasks"], json!([]), "something was added");
    let task = stage.web.run(&json!({"execute": {"command": "echo well"}})).await;
    assert_eq!(task["result"]["execute"]["stdout"], "well\n");
}

#[tokio::test]
async fn paths_stay_inside() {
    let stage = Stage::up(&[]);
    let web = &stage.web;
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
            .blames(422, &format!("source.{path}"), words);
        add(web, &json!({}), &listed)
            .await
            .blames(422, &format!("data.{path}"), words);
    }
    // Two that cannot both be there.
    for (source, data, field) in [
        (json!({"a": "", "a/b": ""}), json!({}), "source"),
        (json!({"x/a/b/c": "", "x/a": ""}), json!({}), "source"),
        (json!({}), json!({"a": "", "a/b": ""}), "source"),
        (json!({"data/x": ""}), json!({"x": ""}), "data.x"),
        (json!({"data": ""}), json!({"x": ""}), "source"),
        (json!({"data/x/y": ""}), json!({"x": ""}), "source"),
        (json!({"data/x": ""}), json!({"x/y": ""}), "source"),
    ] {
        let problem = add(web, &source, &data).await.problem(422);
        assert_eq!(problem["field"], field, "{problem}");
    }
    let many: serde_json::Map<_, _> = (0..1001).map(|n| (n.to_string(), json!(""))).collect();
    let problem = add(web, &json!(many), &json!({})).await.problem(422);
    assert_eq!(
        (&problem["limit"], &problem["actual"]),
        (&json!("1000"), &json!("1001"))
    );
    assert_unharmed(&stage).await;
}

#[tokio::test]
async fn archives_are_not_believed() {
    let stage = Stage::up(&["--set", "gateway.max_unpacked=32MiB"]);
    let web = &stage.web;
    let file = |name: &str| Archive::new().file(name, 0o644, b"x");
    let mut twice = file("name-1").file("name-2", 0o644, b"y").bytes();
    rename(&mut twice, "name-2", "name-1");
    let mut cut = file("a").file("b", 0o644, &[7; 5000]).bytes();
    cut.truncate(cut.len() / 2);
    let mut damaged = Archive::new().file("a", 0o644, &b"hello ".repeat(100)).bytes();
    for byte in &mut damaged[35..45] {
        *byte ^= 0x55;
    }
    let noise: Vec<u8> = (0..12u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let crowd = (0..1001).fold(Archive::new(), |archive, n| {
        archive.file(&n.to_string(), 0o644, b"")
    });
    for (archive, field, words) in [
        (file("../x").bytes(), ".../x", "inside the workspace"),
        (file("a/../../x").bytes(), ".a/../../x", "inside the workspace"),
        (file("/etc/cron.d/x").bytes(), "./etc/cron.d/x", "absolute"),
        (file("a//b").bytes(), ".a//b", "empty part"),
        (
            Archive::new().folder("../x/").bytes(),
            ".../x/",
            "inside the workspace",
        ),
        (
            Archive::new().link("link", "/etc/passwd").bytes(),
            ".link",
            "link",
        ),
        (
            Archive::new().link("l", "..").file("l/x", 0o644, b"").bytes(),
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
        (cut, "", "zip"),
        (damaged, ".a", ""),
        (b"PK\x03\x04 and no more".to_vec(), "", "not a zip"),
        (Vec::new(), "", "not a zip"),
    ] {
        let answer = add(web, &inline(&archive), &json!({})).await;
        // What lies together only once it is unpacked is told of the source as a whole.
        answer.blames(422, &format!("source{field}"), words);
        let answer = add(web, &json!({}), &inline(&archive)).await;
        let problem = answer.problem(422);
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
        // As a part of a form it is the same archive.
        let form = Form::default().task(&json!({"execute": {"command": "true"}}));
        let answer = form.part("source_zip", Some("a.zip"), &archive).post(web).await;
        answer.blames(422, &format!("source{field}"), words);
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
        let problem = add(web, &source, &json!({})).await.problem(422);
        assert_eq!(problem["field"], field, "{problem}");
    }
    let executable = json!({"execute": {"command": "cat", "input": {"text": "", "executable": true}}});
    web.post("/api/v1/tasks", &executable)
        .await
        .blames(422, "execute.input", "files");
    assert_unharmed(&stage).await;
}

#[tokio::test]
async fn the_zips_of_a_request_share_their_room() {
    let stage = Stage::up(&["--set", "gateway.max_unpacked=10MiB"]);
    let web = &stage.web;
    // Each has room enough alone.
    let zip = inline(&Archive::new().file("f", 0o644, &vec![0; 4 << 20]).bytes());
    let task = json!({"source": zip, "execute": {"command": "true"}});
    let batch = async |count: usize| {
        let tasks = vec![task.clone(); count];
        web.post("/api/v1/tasks/batch", &json!({"tasks": tasks})).await
    };
    let refused = batch(3).await;
    refused.blames(422, "tasks[2].source", "holds too much");
    assert_eq!(refused.json()["limit"], (10 << 20).to_string());
    assert_unharmed(&stage).await;
    // The room and the place are free again, however often.
    for _ in 0..5 {
        assert_eq!(batch(2).await.status, 201);
    }
}
