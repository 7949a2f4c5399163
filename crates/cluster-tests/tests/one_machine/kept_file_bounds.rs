//! The operator's bounds on kept files: what exceeds them is left out and counted, and nothing fails.

use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{SingleNode, kept_paths, resident_bytes};

async fn keep_all(node: &SingleNode, command: &str) -> Value {
    let task = json!({"keep": ["**"], "execute": {"command": command}});
    let task = node.web.run(&task).await;
    assert_eq!(task["status"], "success", "{task:#}");
    task
}

fn left_out(count: u64, bytes: u64, why: &str) -> Value {
    json!({"count": count, "bytes": bytes, "why": why})
}

#[tokio::test]
async fn files_beyond_the_bounds_are_left_out_and_counted() {
    for isolation in ["none", "cell"] {
        let bounds = [
            "--isolation",
            isolation,
            "--set",
            "executor.keep_files=3",
            "--set",
            "executor.keep_bytes=10000B",
        ];
        let node = SingleNode::up(&bounds);
        let within = keep_all(&node, "for i in 1 2 3; do head -c 3000 /dev/zero > $i; done").await;
        assert_eq!(kept_paths(&within), ["1", "2", "3"]);
        assert_eq!(
            within["result"]["files_left_out"],
            json!({"count": 0, "bytes": 0, "why": null})
        );
        let exact = keep_all(&node, "head -c 4000 /dev/zero > a; head -c 6000 /dev/zero > b").await;
        assert_eq!(kept_paths(&exact), ["a", "b"]);

        let many = keep_all(&node, "for i in 1 2 3 4 5; do head -c 100 /dev/zero > $i; done").await;
        assert_eq!(kept_paths(&many).len(), 3, "{isolation}");
        assert_eq!(many["result"]["files_left_out"], left_out(2, 200, "too_many"));

        let large = keep_all(&node, "head -c 10001 /dev/zero > large; echo small > small").await;
        assert_eq!(kept_paths(&large), ["small"], "{isolation}");
        assert_eq!(
            large["result"]["files_left_out"],
            left_out(1, 10_001, "too_large")
        );
        // Smaller files that still fit are kept.
        let several = keep_all(
            &node,
            "head -c 6000 /dev/zero > a; head -c 6000 /dev/zero > b; head -c 1000 /dev/zero > c",
        )
        .await;
        assert_eq!(kept_paths(&several).len(), 2, "{isolation}: {several:#}");
        assert_eq!(
            several["result"]["files_left_out"],
            left_out(1, 6000, "too_large")
        );
    }
}

/// A file of 1 TB takes no space and no time to create. It must take neither when it is left out.
#[tokio::test]
async fn sparse_files_cost_nothing() {
    for isolation in ["none", "cell"] {
        let node = SingleNode::up(&["--isolation", isolation]);
        let begun = Instant::now();
        let task = keep_all(&node, "truncate -s 1T sparse; printf x > small").await;
        println!("{isolation}: a sparse file of 1 TB after {:?}", begun.elapsed());
        assert_eq!(kept_paths(&task), ["small"]);
        assert_eq!(
            task["result"]["files_left_out"],
            left_out(1, 1 << 40, "too_large")
        );
        // One that is small enough is kept as what a reader sees.
        let task = keep_all(&node, "truncate -s 20M sparse").await;
        assert_eq!(task["result"]["files"][0]["size"], 20 << 20);
        let zeros = json!({
            "data": {"sparse": {"blob": task["result"]["files"][0]["sha256"]}},
            "execute": {"command": "tr -d '\\0' < data/sparse | wc -c"},
        });
        let zeros = node.web.run(&zeros).await;
        assert_eq!(zeros["result"]["execute"]["stdout"], "0\n");
    }
}

/// Neither the time nor the memory grows with the files that are left out.
#[tokio::test]
async fn many_small_files_are_bounded() {
    const FILES: u64 = 20_000;
    for isolation in ["none", "cell"] {
        let node = SingleNode::up(&["--isolation", isolation]);
        keep_all(&node, "true").await;
        let (before, _) = resident_bytes(node.up.pid());
        let begun = Instant::now();
        let make = format!(
            "python3 -c \"import os\nfor i in range({FILES}):\n  if i % 1000 == 0: os.mkdir(str(i))\n  \
             open(f'{{i // 1000 * 1000}}/{{i}}', 'w').write('x')\""
        );
        let task = keep_all(&node, &make).await;
        println!("{isolation}: {FILES} files after {:?}", begun.elapsed());
        // The default of executor.keep_files.
        assert_eq!(kept_paths(&task).len(), 1000);
        assert_eq!(
            task["result"]["files_left_out"],
            left_out(FILES - 1000, FILES - 1000, "too_many")
        );
        let (after, _) = resident_bytes(node.up.pid());
        let more = after.saturating_sub(before) >> 20;
        println!("{isolation}: {more} MiB more resident");
        assert!(more < 64, "{more} MiB more resident");
        node.system.leftovers().wait_until_clean().await;
    }
}

/// A folder below a folder below a folder: the depth is the user's choice, and must not exhaust a stack.
#[tokio::test]
async fn deep_folders_do_no_harm() {
    let make = "import os\nfor _ in range(3000):\n  os.mkdir('d')\n  os.chdir('d')\nopen('deep', 'w')\n";
    for isolation in ["none", "cell"] {
        let node = SingleNode::up(&["--isolation", isolation]);
        let task = json!({
            "source": {"make.py": make},
            "keep": ["**/deep", "d/**", "make.py"],
            "execute": {"command": "python3 make.py"},
        });
        let task = node.web.run(&task).await;
        assert_eq!(task["status"], "success", "{task:#}");
        assert_eq!(kept_paths(&task), ["make.py"], "{isolation}");
        // No task's file can have such a path, whether it is found or not looked for.
        let left_out = &task["result"]["files_left_out"];
        assert!(left_out["count"].as_u64() <= Some(1), "{left_out}");
        let next = keep_all(&node, "printf x > next").await;
        assert_eq!(kept_paths(&next), ["next"]);
        node.system.leftovers().wait_until_clean().await;
    }
}
