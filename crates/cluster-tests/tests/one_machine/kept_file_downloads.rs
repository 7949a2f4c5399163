//! Downloads of kept files: one by its path, or all as an archive.

use std::io::{Cursor, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use cluster_tests::{HttpResponse, wait_until};
use serde_json::{Value, json};
use zip::ZipArchive;

use crate::harness::{SingleNode, percent_encoded, sha256_hex};

fn at(task: &Value, rest: &str) -> String {
    format!("/api/v1/tasks/{}/{rest}", task["id"].as_str().expect("an id"))
}

#[tokio::test]
async fn a_file_is_downloaded_by_its_path() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let command = "mkdir -p out/deep; printf '<script>0123456789' > out/page.html; : > out/empty; \
                   seq 1 40000 > out/deep/numbers; printf x > 'out/a \"b\" é.txt'; printf n > not-kept";
    let task = json!({"keep": ["out/**"], "execute": {"command": command}});
    let task = web.run(&task).await;
    let numbers: String = (1..=40_000).map(|number| format!("{number}\n")).collect();
    for (path, content) in [
        ("out/page.html", "<script>0123456789"),
        ("out/empty", ""),
        ("out/deep/numbers", &numbers),
        ("out/a \"b\" é.txt", "x"),
    ] {
        let url = at(&task, &format!("files/{}", percent_encoded(path)));
        let answer = web.get(&url).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, content), "{path}");
        // A browser must neither show it nor guess what it is.
        let disposition = answer.header("content-disposition").to_string();
        assert!(disposition.starts_with("attachment"), "{path}: {disposition}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("accept-ranges"), "bytes");
        assert_eq!(answer.header("content-length"), content.len().to_string());

        let head = HttpResponse::of(web.request("HEAD", &url)).await;
        assert_eq!((head.status, head.body.len()), (200, 0));
        for name in [
            "content-length",
            "content-disposition",
            "content-type",
            "accept-ranges",
        ] {
            assert_eq!(head.header(name), answer.header(name), "{path}: {name}");
        }
    }
    let name = web.get(&at(&task, "files/out/page.html")).await;
    assert!(
        name.header("content-disposition").contains("page.html"),
        "{}",
        name.header("content-disposition")
    );
    for missing in [
        "files/not-kept",
        "files/out",
        "files/out/",
        "files/out/deep",
        "files/out/page.htm",
        "files/out/..%2f..%2f..%2fetc%2fpasswd",
        "files/%2fetc%2fpasswd",
        "files/",
        "files",
    ] {
        let answer = web.get(&at(&task, missing)).await;
        assert_eq!(answer.assert_problem(404)["status"], 404, "{missing}");
    }
    web.get(&at(&task, "files/%FF"))
        .await
        .assert_problem_at(422, "path", "UTF-8");
    let unknown = json!({"id": "01890a5d-ac96-774b-bcce-b302099a8057"});
    for path in ["files/out/page.html", "files.zip", "files.tar"] {
        web.get(&at(&unknown, path)).await.assert_problem(404);
    }
}

#[tokio::test]
async fn ranges_of_a_file_are_downloaded() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    // In the second half of a large file, too: it is not read from its beginning.
    let command = "printf 0123456789 > small; head -c 3000000 /dev/zero | tr '\\0' x > large; echo end >> large; : > empty";
    let task = json!({"keep": ["*"], "execute": {"command": command}});
    let task = web.run(&task).await;
    let ask = async |path: &str, range: &str| {
        let request = web.request("GET", &at(&task, path)).header("Range", range);
        HttpResponse::of(request).await
    };
    for (path, range, body, content_range) in [
        ("files/small", "bytes=0-0", "0", "bytes 0-0/10"),
        ("files/small", "bytes=2-4", "234", "bytes 2-4/10"),
        ("files/small", "bytes=5-", "56789", "bytes 5-9/10"),
        ("files/small", "bytes=7-100", "789", "bytes 7-9/10"),
        ("files/small", "bytes=-3", "789", "bytes 7-9/10"),
        ("files/small", "bytes=-100", "0123456789", "bytes 0-9/10"),
        (
            "files/large",
            "bytes=2999998-",
            "xxend\n",
            "bytes 2999998-3000003/3000004",
        ),
        (
            "files/large",
            "bytes=-4",
            "end\n",
            "bytes 3000000-3000003/3000004",
        ),
    ] {
        let answer = ask(path, range).await;
        assert_eq!(
            (
                answer.status,
                answer.text().as_str(),
                answer.header("content-range")
            ),
            (206, body, content_range),
            "{path} {range}"
        );
        assert_eq!(answer.header("content-length"), body.len().to_string());
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        let disposition = answer.header("content-disposition").to_string();
        assert!(disposition.starts_with("attachment"), "{disposition}");
    }
    for (path, range, content_range) in [
        ("files/small", "bytes=10-", "bytes */10"),
        ("files/small", "bytes=10-20", "bytes */10"),
        ("files/small", "bytes=-0", "bytes */10"),
        ("files/empty", "bytes=0-", "bytes */0"),
    ] {
        let answer = ask(path, range).await;
        assert_eq!(
            (answer.status, answer.header("content-range")),
            (416, content_range),
            "{path} {range}"
        );
    }
    // A range that is malformed, or of another unit, is ignored (RFC 9110).
    for range in ["bytes=4-2", "bytes=x-", "bytes", "lines=1-2", "bytes=-"] {
        let answer = ask("files/small", range).await;
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, "0123456789"),
            "{range}"
        );
    }
    // With `If-Range`, a client that continues a download of another file gets the whole file.
    let tag = web
        .get(&at(&task, "files/small"))
        .await
        .header("etag")
        .to_string();
    assert!(!tag.is_empty(), "no etag");
    for (tag, status) in [(tag.as_str(), 206), ("\"another\"", 200)] {
        let request = web.request("GET", &at(&task, "files/small"));
        let request = request.header("Range", "bytes=5-").header("If-Range", tag);
        assert_eq!(HttpResponse::of(request).await.status, status);
    }
}

#[tokio::test]
async fn all_files_are_downloaded_as_an_archive() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let deep = "deep/".repeat(30);
    let long = "n".repeat(200);
    let command = format!(
        "mkdir -p out/{deep}; printf a > out/a; : > out/empty; printf '#!/bin/sh\\n' > out/run; chmod +x out/run; \
         printf l > out/{deep}{long}; printf u > 'out/é 世'; head -c 2000000 /dev/urandom > out/large"
    );
    let task = json!({"keep": ["out/**"], "execute": {"command": command}});
    let task = web.run(&task).await;
    let files = task["result"]["files"].as_array().expect("files");
    assert_eq!(files.len(), 6, "{task:#}");

    let answer = web.get(&at(&task, "files.zip")).await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, "application/zip")
    );
    let disposition = answer.header("content-disposition").to_string();
    assert!(disposition.starts_with("attachment"), "{disposition}");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    let mut archive = ZipArchive::new(Cursor::new(answer.body)).expect("a zip");
    assert_eq!(archive.len(), files.len());
    for file in files {
        let path = file["path"].as_str().expect("a path");
        let mut entry = archive
            .by_name(path)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let mode = entry.unix_mode().expect("a mode");
        assert_eq!(mode & 0o100 != 0, file["executable"] == true, "{path}: {mode:o}");
        let mut bytes = Vec::new();
        // The zip reader checks the CRC.
        entry.read_to_end(&mut bytes).expect("its content");
        assert_eq!(file["sha256"], sha256_hex(&bytes), "{path}");
    }

    let answer = web.get(&at(&task, "files.tar")).await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, "application/x-tar")
    );
    let disposition = answer.header("content-disposition").to_string();
    assert!(disposition.starts_with("attachment"), "{disposition}");
    let folder = node.system.folder.path().join("unpacked");
    std::fs::create_dir(&folder).expect("a folder");
    let mut tar = Command::new("tar");
    tar.args(["-x", "-C"]).arg(&folder).stdin(Stdio::piped());
    let mut tar = tar.spawn().expect("tar starts");
    let mut stdin = tar.stdin.take().expect("a stdin");
    stdin.write_all(&answer.body).expect("tar reads");
    drop(stdin);
    assert!(tar.wait().expect("tar ends").success());
    for file in files {
        let path = folder.join(file["path"].as_str().expect("a path"));
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(file["sha256"], sha256_hex(&bytes), "{}", path.display());
        let mode = std::fs::metadata(&path).expect("its mode").permissions().mode();
        assert_eq!(mode & 0o100 != 0, file["executable"] == true, "{mode:o}");
    }

    // A task without files has an empty archive.
    let none = web.run(&json!({"execute": {"command": "true"}})).await;
    let answer = web.get(&at(&none, "files.zip")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(ZipArchive::new(Cursor::new(answer.body)).expect("a zip").len(), 0);
    let answer = web.get(&at(&none, "files.tar")).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.iter().all(|byte| *byte == 0), "an empty tar is zeros");
}

#[tokio::test]
async fn files_of_a_task_that_is_not_done_do_not_exist_yet() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let gate = node.gate("gate");
    let command = format!("echo x > out; {}", gate.wait());
    let task = json!({"keep": ["out"], "execute": {"command": command}});
    let task = web.post("/api/v1/tasks", &task).await.json();
    for path in ["files/out", "files.zip", "files.tar"] {
        let problem = web.get(&at(&task, path)).await.assert_problem(404);
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains("yet"), "{path}: {detail}");
    }
    gate.open();
    wait_until("the file", std::time::Duration::from_secs(60), async || {
        (web.get(&at(&task, "files/out")).await.status == 200).then_some(())
    })
    .await;
}
