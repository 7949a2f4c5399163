//! Kept files on the command line: `run --keep --to`, `get --files`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::harness::{SingleNode, text};

fn is_executable(path: &Path) -> bool {
    let mode = std::fs::metadata(path).expect("a file").permissions().mode();
    mode & 0o100 != 0
}

const MAKE: &str = "mkdir -p out/deep; printf a > out/a.csv; seq 1 100000 > out/deep/numbers; \
                    printf '#!/bin/sh\\necho tool' > tool; chmod +x tool; echo said; exit 3";

fn assert_downloaded(folder: &Path) {
    let numbers: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(std::fs::read(folder.join("out/a.csv")).expect("a file"), b"a");
    let read = std::fs::read_to_string(folder.join("out/deep/numbers")).expect("a file");
    assert!(read == numbers, "{} bytes", read.len());
    assert!(is_executable(&folder.join("tool")));
    assert!(!is_executable(&folder.join("out/a.csv")));
}

#[tokio::test]
async fn kept_files_are_downloaded_to_a_folder() {
    let node = SingleNode::up(&[]);
    let cli = &node.cli;
    let [one, two] = ["one/new", "two"].map(|name| node.system.folder.path().join(name));
    let keep = ["run", "--keep", "out/**", "--keep", "tool"];
    let said = cli
        .run(&[&keep[..], &["--to", text(&one), "--shell", MAKE]].concat())
        .await;
    // The exit code is that of the program.
    assert_eq!((said.code, said.text()), (3, "said\n"), "{said:?}");
    assert_downloaded(&one);
    // Without a folder, stderr says how to download them.
    let said = cli.run(&[&keep[..], &["--shell", MAKE]].concat()).await;
    said.assert_failure(3, &["3 files were kept", "--files --to"]);
    let id = node.web.get("/api/v1/tasks").await.json()["tasks"][0]["id"]
        .as_str()
        .expect("an id")
        .to_string();
    let listed = cli.run(&["get", &id, "--files"]).await.assert_success();
    for words in ["out/a.csv", "out/deep/numbers", "tool"] {
        assert!(listed.text().contains(words), "{listed:?}");
    }
    let listed = cli.run(&["get", &id, "--files", "--json"]).await.assert_success();
    let paths: Vec<_> = listed
        .json_lines()
        .iter()
        .map(|file| file["path"].clone())
        .collect();
    assert_eq!(paths, ["out/a.csv", "out/deep/numbers", "tool"]);
    let said = cli.run(&["get", &id, "--files", "--to", text(&two)]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert_downloaded(&two);

    // Existing files are not replaced without --force, and then none is written.
    std::fs::write(two.join("out/a.csv"), "mine").expect("a file");
    std::fs::remove_file(two.join("tool")).expect("a file");
    cli.run(&["get", &id, "--files", "--to", text(&two)])
        .await
        .assert_failure(1, &["a.csv", "--force"]);
    assert_eq!(std::fs::read(two.join("out/a.csv")).expect("a file"), b"mine");
    assert!(!two.join("tool").exists());
    let said = cli
        .run(&["get", &id, "--files", "--to", text(&two), "--force"])
        .await;
    assert_eq!(said.code, 0, "{said:?}");
    assert_downloaded(&two);
}

/// The names come from an untrusted program, and links in the folder may be anybody's.
#[tokio::test]
async fn downloads_do_not_leave_the_folder() {
    let node = SingleNode::up(&[]);
    let folder = node.system.folder.path().join("to");
    let elsewhere = node.system.folder.path().join("elsewhere");
    for path in [&folder, &elsewhere] {
        std::fs::create_dir(path).expect("a folder");
    }
    std::os::unix::fs::symlink(&elsewhere, folder.join("out")).expect("a link");
    std::os::unix::fs::symlink(elsewhere.join("file"), folder.join("file")).expect("a link");
    for (pattern, command) in [("out/*", "mkdir out; echo x > out/x"), ("file", "echo x > file")] {
        for force in [&[][..], &["--force"]] {
            let args = [
                "run",
                "--keep",
                pattern,
                "--to",
                text(&folder),
                "--shell",
                command,
            ];
            let said = node.cli.run(&[&args[..], force].concat()).await;
            let left = std::fs::read_dir(&elsewhere).expect("a folder").count();
            assert_eq!(left, 0, "{pattern} left the folder: {said:?}");
        }
    }
}

#[tokio::test]
async fn mistakes_with_kept_files_are_told() {
    let node = SingleNode::up(&["--set", "executor.keep_files=1"]);
    let cli = &node.cli;
    for pattern in ["../x", "/etc/passwd", ""] {
        cli.run(&["run", "--keep", pattern, "--", "true"])
            .await
            .assert_failure(2, &["--keep"]);
    }
    cli.run(&["run", "--to", "x", "--", "true"])
        .await
        .assert_failure(2, &["--keep"]);
    // A folder that cannot be is refused before the task runs.
    let file = node.system.folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    cli.run(&["run", "--keep", "x", "--to", text(&file), "--", "true"])
        .await
        .assert_failure(125, &["file"]);
    let found = node.web.get("/api/v1/tasks").await.json();
    assert_eq!(found["tasks"], serde_json::json!([]));
    let said = cli
        .run(&["run", "--keep", "*", "--shell", "echo 1 > a; echo 2 > b"])
        .await;
    said.assert_failure(0, &["1 file was left out", "executor.keep_files"]);
}
