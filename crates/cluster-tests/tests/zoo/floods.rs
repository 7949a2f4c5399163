//! Those that write without end.

use serde_json::json;

use crate::stage::{Animal, Program, Zoo};

#[tokio::test]
async fn streams_are_cut() {
    let zoo = Zoo::open().await;
    for (name, text) in [("stdout flood", "yes"), ("stderr flood", "yes >&2")] {
        let outcome = zoo
            .ends_by("output_limit", Animal::new(name, Program::Shell(text)))
            .await;
        let stream = if name.starts_with("stdout") {
            "stdout"
        } else {
            "stderr"
        };
        assert_eq!(outcome[stream].as_str().unwrap().len(), 1 << 20, "{name}");
    }
}

#[tokio::test]
async fn files_are_bounded() {
    let zoo = Zoo::open().await;
    let big = "dd if=/dev/zero of=big bs=1M count=102400 2>/dev/null";
    zoo.ends_by("disk_limit", Animal::new("100 GB file", Program::Shell(big)))
        .await;
    let outcome = zoo
        .ends_by(
            "output_limit",
            Animal::new(
                "100 GB file, limited",
                Program::Shell("exec dd if=/dev/zero of=big bs=1M count=102400"),
            )
            .with("file_size", json!("4MiB")),
        )
        .await;
    assert_eq!(outcome["signal"], 25, "{outcome:#}");
    // It takes nothing, and nobody reads it.
    let sparse = "truncate -s 1T sparse && stat -c %s sparse";
    let said = zoo
        .says(Animal::new("1 TB sparse file", Program::Shell(sparse)))
        .await;
    assert_eq!(said, "1099511627776\n");
    zoo.ends_by(
        "disk_limit",
        Animal::new(
            "a million inodes",
            Program::Python("for n in range(1000000): open(str(n), 'w').close()"),
        ),
    )
    .await;
}

#[tokio::test]
async fn descriptors_run_out_for_the_program_alone() {
    let zoo = Zoo::open().await;
    let program = "import os\nfds = []\ntry:\n    while True: fds.append(os.dup(0))\nexcept OSError as e: print(e.errno, len(fds))";
    let said = zoo
        .says(Animal::new("descriptor exhaustion", Program::Python(program)))
        .await;
    assert_eq!(said, "24 253\n");
}
