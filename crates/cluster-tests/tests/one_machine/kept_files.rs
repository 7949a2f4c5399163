//! Files that a task keeps: which ones, when, and how they are listed.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::harness::{SingleNode, kept_paths, percent_encoded, sha256_hex};

const ISOLATIONS: [&str; 2] = ["none", "cell"];

pub(crate) fn file(path: &str, content: &str, executable: bool) -> Value {
    json!({
        "path": path,
        "size": content.len(),
        "sha256": sha256_hex(content),
        "executable": executable,
    })
}

pub(crate) fn nothing_left_out() -> Value {
    json!({"count": 0, "bytes": 0, "why": null})
}

#[tokio::test]
async fn matching_files_are_listed_with_size_hash_and_mode() {
    let command = "mkdir -p out/deep; printf a > out/a.csv; printf bb > out/b.csv; printf c > out/c.txt; \
                   printf d > out/deep/d.csv; printf '#!/bin/sh\\n' > run.sh; chmod +x run.sh; : > empty; \
                   printf h > .hidden; chmod 000 out/b.csv";
    let a = file("out/a.csv", "a", false);
    let b = file("out/b.csv", "bb", false);
    let d = file("out/deep/d.csv", "d", false);
    let given = file("given.csv", "given", false);
    let run = file("run.sh", "#!/bin/sh\n", true);
    for isolation in ISOLATIONS {
        let node = SingleNode::up(&["--isolation", isolation]);
        for (keep, expected) in [
            (json!(["out/*.csv", "run.sh"]), json!([a, b, run])),
            (json!(["out/?.csv", "out/a.csv", "*/a.*"]), json!([a, b])),
            (json!(["**/*.csv"]), json!([given, a, b, d])),
            (json!(["out/**/d.csv", "nothing/*", "*.exe"]), json!([d])),
            (
                json!(["empty", ".*"]),
                json!([file(".hidden", "h", false), file("empty", "", false)]),
            ),
            (json!(["*.CSV", "out", "out/deep"]), json!([])),
            (json!([]), json!([])),
        ] {
            let task = json!({
                "source": {"given.csv": "given"},
                "keep": keep,
                "execute": {"command": command},
            });
            let task = node.web.run(&task).await;
            assert_eq!(task["status"], "success", "{task:#}");
            assert_eq!(task["keep"], keep);
            assert_eq!(task["result"]["files"], expected, "{isolation}: {keep}");
            assert_eq!(task["result"]["files_left_out"], nothing_left_out());
        }
        node.system.leftovers().wait_until_clean().await;
    }
}

#[tokio::test]
async fn files_are_kept_however_the_step_ends() {
    for isolation in ISOLATIONS {
        let node = SingleNode::up(&["--isolation", isolation]);
        for (end, limits, reason) in [
            ("exit 3", json!({}), "exited"),
            ("kill -9 $$", json!({}), "signalled"),
            ("sleep 600", json!({"wall": "300ms"}), "wall_limit"),
            ("while :; do :; done", json!({"cpu": "200ms"}), "time_limit"),
            ("yes", json!({"output": 1000}), "output_limit"),
        ] {
            let command = format!("mkdir out; printf partial > out/log; {end}");
            let task = json!({"keep": ["out/*"], "execute": {"command": command, "limits": limits}});
            let task = node.web.run(&task).await;
            assert_eq!(task["status"], "run_failed", "{task:#}");
            assert_eq!(task["result"]["execute"]["reason"], reason, "{end}");
            assert_eq!(
                task["result"]["files"],
                json!([file("out/log", "partial", false)]),
                "{isolation}: {end}"
            );
        }
        // The execute step never ran, so there is nothing to keep.
        let task = json!({
            "keep": ["**"],
            "compile": {"command": "echo x > made; exit 1"},
            "execute": {"command": "true"},
        });
        let task = node.web.run(&task).await;
        assert_eq!(task["status"], "compile_failed");
        assert_eq!(task["result"]["files"], json!([]));
        // Files of the compile step are there when the execute step has ended.
        let task = json!({
            "keep": ["made"],
            "compile": {"command": "printf x > made"},
            "execute": {"command": "true"},
        });
        let task = node.web.run(&task).await;
        assert_eq!(task["result"]["files"], json!([file("made", "x", false)]));
    }
}

#[tokio::test]
async fn a_kept_file_is_an_input_of_a_later_task() {
    for isolation in ISOLATIONS {
        let node = SingleNode::up(&["--isolation", isolation]);
        let make = "head -c 300000 /dev/urandom > big; printf '#!/bin/sh\\necho tool \"$@\"\\n' > tool; \
                    chmod +x tool; sha256sum < big";
        let first = json!({"keep": ["big", "tool"], "execute": {"command": make}});
        let first = node.web.run(&first).await;
        let [big, tool] = &first["result"]["files"].as_array().expect("files")[..] else {
            panic!("{first:#}");
        };
        let digest = first["result"]["execute"]["stdout"].as_str().expect("output");
        assert!(
            digest.starts_with(big["sha256"].as_str().expect("a hash")),
            "{digest}"
        );
        let second = json!({
            "source": {"tool": {"blob": tool["sha256"], "executable": true}},
            "data": {"big": {"blob": big["sha256"]}},
            "execute": {"command": "sha256sum < data/big; ./tool a"},
        });
        let second = node.web.run(&second).await;
        assert_eq!(
            second["result"]["execute"]["stdout"],
            format!("{digest}tool a\n"),
            "{isolation}: {second:#}"
        );
    }
}

#[tokio::test]
async fn patterns_that_leave_the_workspace_are_refused() {
    let node = SingleNode::up(&["--slots", "0"]);
    let post = async |keep: &Value| {
        let task = json!({"keep": keep, "execute": {"command": "true"}});
        node.web.post("/api/v1/tasks", &task).await
    };
    for pattern in [
        "../secret",
        "/etc/passwd",
        "a/../../b",
        "a/..",
        "./a",
        "a//b",
        "out/",
        "",
        "a\nb",
        "a**b",
    ] {
        let problem = post(&json!(["fine", pattern])).await.assert_problem(422);
        assert_eq!(problem["field"], "keep[1]", "{pattern:?}: {problem}");
    }
    post(&json!(["x".repeat(1025)])).await.assert_problem(422);
    let many: Vec<_> = (0..101).map(|number| number.to_string()).collect();
    post(&json!(many)).await.assert_problem(422);
    post(&json!("out/*")).await.assert_problem(422);
    assert_eq!(post(&json!(many[..100])).await.status, 201);
    let found = node.web.get("/api/v1/tasks").await.json();
    assert_eq!(found["tasks"].as_array().expect("tasks").len(), 1);
}

/// Opening a FIFO would block, reading a device would never end, and following a link would show files of the machine.
#[tokio::test]
async fn links_and_special_files_are_never_read() {
    for isolation in ISOLATIONS {
        let node = SingleNode::up(&["--isolation", isolation]);
        let outside = node.system.folder.path().join("outside");
        std::fs::create_dir(&outside).expect("a folder");
        std::fs::write(outside.join("secret"), "secret").expect("a file");
        let make = format!(
            "ln -s {0}/secret link; ln -s {0} folder; ln -s regular inner; ln -s nowhere dangling; mkfifo fifo; \
             python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\"; \
             mknod zero c 1 5 2> /dev/null; printf ok > regular; ls | wc -l",
            outside.display()
        );
        let task = json!({
            "keep": ["**", "folder/*", "folder/secret"],
            "execute": {"command": make},
        });
        let task = node.web.run(&task).await;
        assert_eq!(
            task["result"]["files"],
            json!([file("regular", "ok", false)]),
            "{isolation}: {task:#}"
        );
        let made: u64 = task["result"]["execute"]["stdout"]
            .as_str()
            .and_then(|count| count.trim().parse().ok())
            .expect("a count");
        assert!(made >= 7, "{task:#}");
        let left_out = &task["result"]["files_left_out"];
        assert_eq!(left_out["count"], made - 1, "{isolation}: {task:#}");
        assert_eq!(left_out["why"], "not_regular");
    }
}

/// A name is any sequence of bytes without 0 and `/`. UTF-8 names are kept, the others are counted.
#[tokio::test]
async fn names_with_every_odd_byte_are_kept_or_counted() {
    let make = "import os\nos.mkdir('out')\nfor byte in range(1, 256):\n  if byte != 47:\n    \
                open(b'out/n' + bytes([byte]), 'w').write(str(byte))\n\
                open('out/' + 'long' * 63, 'w').write('long')\n\
                open('out/\u{e9}\u{4e16}\u{1f980}', 'w').write('wide')\n\
                open('out/..x', 'w').write('dots')\n";
    for isolation in ISOLATIONS {
        let node = SingleNode::up(&["--isolation", isolation]);
        let task = json!({
            "source": {"make.py": make},
            "keep": ["out/**"],
            "execute": {"command": "LC_ALL=C.UTF-8 python3 make.py"},
        });
        let task = node.web.run(&task).await;
        assert_eq!(task["status"], "success", "{task:#}");
        let files = task["result"]["files"].as_array().expect("files");
        let left_out = &task["result"]["files_left_out"];
        // Bytes above 127 are not UTF-8 on their own.
        assert_eq!(files.len(), 126 + 3, "{isolation}: {left_out}");
        assert_eq!(
            (&left_out["count"], &left_out["why"]),
            (&json!(128), &json!("bad_name"))
        );
        let id = task["id"].as_str().expect("an id");
        for file in files {
            let path = file["path"].as_str().expect("a path");
            let url = format!("/api/v1/tasks/{id}/files/{}", percent_encoded(path));
            let answer = node.web.get(&url).await;
            assert_eq!(answer.status, 200, "{path:?}: {}", answer.text());
            assert_eq!(file["sha256"], sha256_hex(&answer.body), "{path:?}");
            let expected = match path {
                "out/\u{e9}\u{4e16}\u{1f980}" => "wide".to_string(),
                "out/..x" => "dots".to_string(),
                long if long.starts_with("out/long") => "long".to_string(),
                other => other.as_bytes()[5].to_string(),
            };
            assert_eq!(answer.text(), expected, "{path:?}");
        }
    }
}

/// Whatever another process does to the files meanwhile, what is listed is what was stored. Only without a cell can
/// anything change them: the test, as root.
#[tokio::test]
async fn files_that_change_or_vanish_while_they_are_collected_do_no_harm() {
    let node = SingleNode::up(&["--slots", "2"]);
    let stop = Arc::new(AtomicBool::new(false));
    let meddling = std::thread::spawn({
        let (stop, work) = (stop.clone(), node.system.data().join("executor/work"));
        move || {
            let mut changes = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                changes += meddle(&work, changes);
            }
            changes
        }
    });
    let make = "mkdir out untouched; for i in $(seq 120); do head -c 90000 /dev/zero > out/$i; done; echo > untouched/file";
    for _ in 0..4 {
        let task = json!({"keep": ["out/*", "untouched/*"], "execute": {"command": make}});
        let task = node.web.run(&task).await;
        let id = task["id"].as_str().expect("an id");
        // Collecting goes on, whatever happens to the other files.
        let paths = kept_paths(&task);
        assert!(paths.contains(&"untouched/file"), "{task:#}");
        for path in paths {
            let files = task["result"]["files"].as_array().expect("files");
            let file = files.iter().find(|file| file["path"] == path).expect("a file");
            let answer = node.web.get(&format!("/api/v1/tasks/{id}/files/{path}")).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(file["size"], answer.body.len(), "{path}");
            assert_eq!(file["sha256"], sha256_hex(&answer.body), "{path}");
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(meddling.join().expect("a thread") > 0);
    node.system.leftovers().wait_until_clean().await;
}

/// Truncates, extends, replaces and removes files of tasks, and returns how many.
fn meddle(work: &Path, mut number: u64) -> u64 {
    let list = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    // Opening a FIFO, which another turn has made, must not block.
    let options = || {
        let mut options = std::fs::File::options();
        options.custom_flags(nix::libc::O_NONBLOCK);
        options
    };
    let before = number;
    for slot in list(work) {
        for file in list(&slot.path().join("box/out")) {
            number += 1;
            let path = file.path();
            // The task may be at its end; then these fail.
            let _ = match number % 23 {
                0 => std::fs::remove_file(&path),
                1 => options()
                    .write(true)
                    .open(&path)
                    .and_then(|file| file.set_len(10)),
                2 => options()
                    .append(true)
                    .open(&path)
                    .and_then(|mut file| std::io::Write::write_all(&mut file, &[1; 5000])),
                3 => std::fs::remove_file(&path)
                    .and_then(|()| std::os::unix::fs::symlink("/etc/passwd", &path)),
                4 => std::fs::remove_file(&path).and_then(|()| {
                    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).map_err(Into::into)
                }),
                _ => Ok(()),
            };
        }
    }
    number - before
}
