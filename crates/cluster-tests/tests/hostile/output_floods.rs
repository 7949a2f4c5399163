//! Programs that write without end.

use serde_json::json;

use crate::harness::{HostileProgram, HostileTestNode, ProgramSource};

#[tokio::test]
async fn output_beyond_the_limit_ends_the_task() {
    let node = HostileTestNode::start().await;
    for (name, text) in [("stdout flood", "yes"), ("stderr flood", "yes >&2")] {
        let outcome = node
            .assert_reason(
                "output_limit",
                HostileProgram::new(name, ProgramSource::Shell(text)),
            )
            .await;
        let stream = if name.starts_with("stdout") {
            "stdout"
        } else {
            "stderr"
        };
        // As much as the limit is kept, and the beginning of it shown.
        assert_eq!(outcome[format!("{stream}_bytes")], 1 << 20, "{name}");
        assert_eq!(outcome[stream].as_str().unwrap().len(), 64 << 10, "{name}");
    }
}

#[tokio::test]
async fn files_are_limited_in_size_and_number() {
    let node = HostileTestNode::start().await;
    let big = "dd if=/dev/zero of=big bs=1M count=102400 2>/dev/null";
    node.assert_reason(
        "disk_limit",
        HostileProgram::new("100 GB file", ProgramSource::Shell(big)),
    )
    .await;
    let outcome = node
        .assert_reason(
            "output_limit",
            HostileProgram::new(
                "100 GB file, limited",
                ProgramSource::Shell("exec dd if=/dev/zero of=big bs=1M count=102400"),
            )
            .with("file_size", json!("4MiB")),
        )
        .await;
    assert_eq!(outcome["signal"], 25, "{outcome:#}");
    // A sparse file uses no space.
    let sparse = "truncate -s 1T sparse && stat -c %s sparse";
    let said = node
        .output_of(HostileProgram::new(
            "1 TB sparse file",
            ProgramSource::Shell(sparse),
        ))
        .await;
    assert_eq!(said, "1099511627776\n");
    node.assert_reason(
        "disk_limit",
        HostileProgram::new(
            "a million inodes",
            ProgramSource::Python("for n in range(1000000): open(str(n), 'w').close()"),
        ),
    )
    .await;
}

#[tokio::test]
async fn open_files_are_limited_for_each_process() {
    let node = HostileTestNode::start().await;
    let program = "import os\nfds = []\ntry:\n    while True: fds.append(os.dup(0))\nexcept OSError as e: print(e.errno, len(fds))";
    let said = node
        .output_of(HostileProgram::new(
            "descriptor exhaustion",
            ProgramSource::Python(program),
        ))
        .await;
    assert_eq!(said, "24 253\n");
}
