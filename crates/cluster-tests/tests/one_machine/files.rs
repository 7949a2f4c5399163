//! A task's files: every way to send them, and how they appear in the workspace.

use cluster_tests::{HttpResponse, RawHttpClient};
use serde_json::{Value, json};

use crate::harness::{SingleNode, sha256_hex};
use crate::multipart_builder::MultipartBuilder;
use crate::zip_builder::{ZipBuilder, base64, inline};

/// Prints each file with its mode and content.
const SHOW: &str = "find . -type f | LC_ALL=C sort | while read -r f; do echo \"$f $(stat -c %a \"$f\") $(cat \"$f\")\"; done";

async fn put(web: &RawHttpClient, bytes: &[u8]) -> String {
    let hash = sha256_hex(bytes);
    let request = web.request("PUT", &format!("/api/v1/blobs/{hash}"));
    assert_eq!(HttpResponse::of(request.body(bytes.to_vec())).await.status, 201);
    hash
}

fn stdout(task: &Value) -> &str {
    assert_eq!(task["status"], "success", "{task:#}");
    task["result"]["execute"]["stdout"].as_str().expect("stdout")
}

#[tokio::test]
async fn files_are_placed_at_their_paths() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let blob = put(web, b"from a blob").await;
    let deep = ["d"; 31].join("/") + "/file";
    let task = web
        .run(&json!({
            "source": {
                "main": "text",
                "a/b/c": {"base64": "YmFzZQ=="},
                "run": {"text": "x", "executable": true},
                "blob": {"blob": blob},
                "blob.x": {"blob": blob, "executable": true},
                "with space": "s", "ümläut/ñ": "u", "-dash": "d", ".hidden": "h", "q'\"$": "q",
                "empty": "", "zip": "no archive",
                (&deep): "deep",
            },
            "data": {"table.csv": "1,2", "x/y": {"blob": blob}},
            "execute": {"command": SHOW},
        }))
        .await;
    let expected = [
        "./-dash 644 d".to_string(),
        "./.hidden 644 h".to_string(),
        "./a/b/c 644 base".to_string(),
        "./blob 644 from a blob".to_string(),
        "./blob.x 755 from a blob".to_string(),
        format!("./{deep} 644 deep"),
        "./data/table.csv 644 1,2".to_string(),
        "./data/x/y 644 from a blob".to_string(),
        "./empty 644".to_string(),
        "./main 644 text".to_string(),
        "./q'\"$ 644 q".to_string(),
        "./run 755 x".to_string(),
        "./with space 644 s".to_string(),
        "./zip 644 no archive".to_string(),
        "./ümläut/ñ 644 u".to_string(),
    ];
    let shown: Vec<_> = stdout(&task).lines().map(str::trim_end).collect();
    let mut expected: Vec<_> = expected.iter().map(String::as_str).collect();
    expected.sort_unstable();
    let mut sorted = shown.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);

    // A task may change its own copy.
    let spoil = json!({
        "source": {"f": {"blob": blob}},
        "execute": {"command": "cat f; echo spoilt > f; cat - data/i", "input": {"blob": blob}},
        "data": {"i": {"blob": blob}},
    });
    for _ in 0..2 {
        assert_eq!(stdout(&web.run(&spoil).await), "from a blob".repeat(3));
    }
}

#[tokio::test]
async fn zips_are_unpacked() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let archive = ZipBuilder::new()
        .folder("lib/")
        .file("lib/util", 0o644, b"u")
        .file("bin/run", 0o755, b"r")
        .file("empty", 0o600, b"")
        .file("ünï cödé", 0o644, b"x")
        .bytes();
    let expected = "./bin/run 755 r\n./empty 644 \n./lib/util 644 u\n./ünï cödé 644 x\n";
    let by_blob = json!({"zip": {"blob": put(web, &archive).await}});
    for source in [inline(&archive), by_blob] {
        let task = json!({"source": source, "execute": {"command": SHOW}});
        assert_eq!(stdout(&web.run(&task).await), expected);
        let task = json!({"data": source, "execute": {"command": format!("cd data; {SHOW}")}});
        assert_eq!(stdout(&web.run(&task).await), expected);
    }
    // The task shows the unpacked files instead of the zip.
    let task = web
        .run(&json!({"source": inline(&archive), "execute": {"command": "true"}}))
        .await;
    assert_eq!(
        task["source"],
        json!({"lib/util": "u", "bin/run": {"text": "r", "executable": true}, "empty": "", "ünï cödé": "x"})
    );
    let nothing = json!({"source": inline(&ZipBuilder::new().bytes()), "execute": {"command": "ls -A"}});
    assert_eq!(stdout(&web.run(&nothing).await), "");
    let beside =
        json!({"source": {"zip": {"base64": base64(&archive)}, "a": ""}, "execute": {"command": "ls"}});
    web.post("/api/v1/tasks", &beside)
        .await
        .assert_problem_at(422, "source", "stands alone");
}

#[tokio::test]
async fn large_files_become_blobs() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    // Larger than inline files may be, all together and the first one alone.
    let large: Vec<u8> = (0..9u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 23) as u8)
        .collect();
    let middle = "line\n".repeat(10_000);
    let task = web
        .run(&json!({
            "source": {"large": {"base64": base64(&large)}, "small": "s"},
            "data": {"large": {"base64": base64(&large)}},
            "execute": {"command": "sha256sum < large; sha256sum < data/large; sha256sum", "input": middle},
        }))
        .await;
    let hashes: Vec<_> = stdout(&task).lines().map(|line| &line[..64]).collect();
    assert_eq!(
        hashes,
        [
            &sha256_hex(&large),
            &sha256_hex(&large),
            &sha256_hex(middle.as_bytes())
        ]
    );
    // The task shows it as a blob.
    assert_eq!(task["source"]["large"], json!({"blob": sha256_hex(&large)}));
    assert_eq!(
        task["execute"]["input"],
        json!({"blob": sha256_hex(middle.as_bytes())})
    );
    assert_eq!(task["source"]["small"], "s");
    let answer = web.get(&format!("/api/v1/blobs/{}", sha256_hex(&large))).await;
    assert!(answer.body == large, "the blob is not what was sent");
}

#[tokio::test]
async fn multipart_forms_carry_files() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let task = json!({"user": "ada", "execute": {"command": SHOW}});
    let answer = MultipartBuilder::default()
        .task(&task)
        .part("source", Some("main.c"), b"int x;")
        .part("source", Some("lib/a.h"), b"\xff\x00raw")
        .part("data", Some("t.csv"), b"")
        .post(web)
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let added = answer.json();
    assert_eq!(added["user"], "ada");
    assert_eq!(
        added["source"]["lib/a.h"],
        json!({"base64": base64(b"\xff\x00raw")})
    );
    assert!(stdout(&added).contains("./data/t.csv 644"), "{added:#}");

    let archive = ZipBuilder::new().file("run", 0o755, b"r").bytes();
    let answer = MultipartBuilder::default()
        .part("data_zip", Some("d.zip"), &archive)
        .part("source_zip", Some("s.zip"), &archive)
        .task(&task)
        .post(web)
        .await;
    assert_eq!(stdout(&answer.json()), "./data/run 755 r\n./run 755 r\n");

    let large = vec![b'x'; 5 << 20];
    let count = json!({"execute": {"command": "wc -c < large"}});
    let form = MultipartBuilder::default()
        .task(&count)
        .part("source", Some("large"), &large);
    assert_eq!(stdout(&form.post(web).await.json()), "5242880\n");

    // Files in the JSON and in form parts are merged.
    let mut with_source = task.clone();
    with_source["source"] = json!({"a": "1"});
    let form = MultipartBuilder::default()
        .task(&with_source)
        .part("source", Some("b"), b"2");
    assert_eq!(stdout(&form.post(web).await.json()), "./a 644 1\n./b 644 2\n");

    let with = || MultipartBuilder::default().task(&with_source);
    for (form, field, words) in [
        (with().part("source", Some("a"), b"2"), "source.a", "twice"),
        (with().part("source", Some("../a"), b"2"), "source.../a", "inside"),
        (with().part("source", Some("/a"), b"2"), "source./a", "absolute"),
        (with().part("source", None, b"2"), "source", "no file name"),
        (with().part("sorce", Some("b"), b"2"), "sorce", "'source'"),
        (
            with().part("source_zip", Some("z"), &archive),
            "source",
            "choose one",
        ),
        (with().part("data_zip", Some("z"), b"no zip"), "data", "not a zip"),
        (with().task(&task), "task", "twice"),
        (
            MultipartBuilder::default().part("source", Some("a"), b""),
            "task",
            "missing",
        ),
        (
            MultipartBuilder::default().task(&json!({"execute": {}})),
            "execute.command",
            "missing",
        ),
    ] {
        form.post(web).await.assert_problem_at(422, field, words);
    }
    for (kind, body) in [
        ("multipart/form-data; boundary=x", "--x\r\nno end"),
        ("multipart/form-data", "--x--"),
        ("multipart/form-data; boundary=x", ""),
    ] {
        let request = web.request("POST", "/api/v1/tasks");
        let answer = HttpResponse::of(request.header("Content-Type", kind).body(body)).await;
        let problem = answer.json();
        assert!(matches!(answer.status, 400 | 422), "{problem}");
        answer.assert_problem(answer.status);
    }
}
