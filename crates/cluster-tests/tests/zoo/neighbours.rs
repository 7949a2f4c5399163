//! Those that look for what is not theirs, and those that leave traps for whoever comes after them.

use std::time::Duration;

use cluster_tests::{await_that, shell};
use serde_json::json;

use crate::stage::{Animal, Program, Zoo, groups, inmates};

#[tokio::test]
async fn there_is_nothing_of_others_to_be_seen() {
    let zoo = Zoo::open();
    let text = r#"
echo "processes: $(ls /proc | grep -c '^[0-9]')"
cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | sed 's/=.*//' | sort -u | tr '\n' ' '
echo
find / -xdev -newer /proc/1 -not -path '/proc*' -type f 2>/dev/null | grep -v '^/box/main.sh$' | head
ls -A / | tr '\n' ' '
echo
ls /dev | tr '\n' ' '
"#;
    let said = zoo.says(Animal::new("spy", Program::Shell(text))).await;
    let variables: Vec<_> = said
        .lines()
        .nth(1)
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    for name in &variables {
        assert!(
            [
                "CONCLAVE_EXECUTOR",
                "CONCLAVE_TASK",
                "HOME",
                "LANG",
                "OLDPWD",
                "PATH",
                "PWD",
                "SHLVL",
                "TMPDIR",
                "_"
            ]
            .contains(name),
            "{name} in {said}"
        );
    }
    let root: Vec<_> = said
        .lines()
        .nth(2)
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    for name in &root {
        assert!(
            [
                "bin", "box", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr"
            ]
            .contains(name),
            "{name} in {said}"
        );
    }
    assert_eq!(
        said.lines().nth(3).unwrap_or_default().trim(),
        "fd full null random shm stderr stdin stdout urandom zero",
        "{said}"
    );
}

#[tokio::test]
async fn what_a_compiler_left_is_run_as_what_it_is() {
    let zoo = Zoo::open();
    for (name, compile) in [
        ("a link out", "ln -s /etc/shadow main"),
        ("a link to a device", "ln -s /dev/zero main"),
        ("a pipe", "mkfifo main"),
        ("a folder", "mkdir main"),
        ("a loop of links", "ln -s main main"),
    ] {
        let task = json!({
            "compile": {"command": compile},
            "execute": {"command": ["./main"], "limits": {"wall": "5s"}},
        });
        let task = zoo.task(&task).await;
        let outcome = &task["result"]["execute"];
        assert_eq!(task["status"], "run_failed", "{name}: {task:#}");
        assert!(
            outcome["exit_code"] == 126 || outcome["exit_code"] == 127,
            "{name}: {outcome:#}"
        );
    }
}

#[tokio::test]
async fn trees_that_resist_are_gone_with_their_task() {
    let zoo = Zoo::open();
    for (name, text) in [
        (
            "closed tree",
            "mkdir -p a/b/c && touch a/b/c/f && chmod 000 a/b/c a/b a",
        ),
        ("locked workspace", "chmod 000 /box /tmp"),
    ] {
        zoo.says(Animal::new(name, Program::Shell(text))).await;
    }
    let deep =
        "import os\nfor _ in range(5000):\n    os.mkdir('d'); os.chdir('d')\nopen('leaf', 'w').close()";
    zoo.says(Animal::new("5,000 deep", Program::Python(deep))).await;
}

#[tokio::test]
async fn nothing_is_left_of_a_life_that_was_killed() {
    const SOON: Duration = Duration::from_secs(30);
    let mut zoo = Zoo::open();
    let task = zoo.system.add(shell("setsid sleep 600 & sleep 600")).await;
    await_that("two sleepers", SOON, async || {
        (inmates().len() >= 2).then_some(())
    })
    .await;
    zoo.kill_and_start_again();
    // What ran is lost with its executor, and runs again in the new life; once it is cancelled nobody is there.
    // The client's old connection went down with the node, so its first call may fail.
    await_that("the task to be cancelled", SOON, async || {
        zoo.system.client.cancel(task.id).await.ok()
    })
    .await;
    zoo.look_around().await;
    assert!(!groups(&zoo.system).is_empty());
    let system = zoo.close().await;
    assert_eq!(groups(&system), Vec::<std::path::PathBuf>::new());
}
