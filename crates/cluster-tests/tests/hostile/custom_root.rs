//! Cells with a separate root file system and bind mounts.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use cluster_tests::TestSystem;
use serde_json::json;

use crate::harness::HostileTestNode;

const TOOLS: [&str; 4] = ["cat", "ls", "sh", "touch"];

/// A world-writable folder, so that only the cell can prevent writes.
fn make_folder(path: &Path) {
    fs::create_dir_all(path).expect("a folder");
    fs::set_permissions(path, Permissions::from_mode(0o777)).expect("a folder of our own");
}

fn make_root(root: &Path) {
    let bin = root.join("bin");
    make_folder(&bin);
    let busybox = ["/bin/busybox", "/usr/bin/busybox"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .expect("busybox-static, which `scripts/setup test` installs");
    fs::copy(busybox, bin.join("busybox")).expect("room for busybox");
    for tool in TOOLS {
        symlink("busybox", bin.join(tool)).expect("a new folder");
    }
    // These folders are replaced in every cell.
    for folder in ["box", "dev/shm", "run", "tmp"] {
        make_folder(&root.join(folder));
        fs::write(root.join(folder).join("decoy"), "x").expect("a new folder");
    }
}

#[tokio::test]
async fn cells_see_only_the_configured_root_and_binds() {
    let system = TestSystem::new().expect("a folder");
    let (root, corpus) = (
        system.folder.path().join("root"),
        system.folder.path().join("corpus"),
    );
    make_root(&root);
    make_folder(&corpus);
    fs::write(corpus.join("word"), "heron\n").unwrap();
    fs::set_permissions(corpus.join("word"), Permissions::from_mode(0o666)).unwrap();
    let settings = [
        format!("sandbox.root={}", root.display()),
        format!("sandbox.binds={}:/corpus", corpus.display()),
    ];
    let node = HostileTestNode::start_with(system, &settings).await;

    let done = node
        .task(&json!({"execute": {"command": "ls /; echo; ls /bin"}}))
        .await;
    assert_eq!(
        done["result"]["execute"]["stdout"],
        "bin\nbox\ncorpus\ndev\netc\nproc\ntmp\n\nbusybox\ncat\nls\nsh\ntouch\n",
        "{done:#}"
    );
    let done = node
        .task(&json!({"execute": {"command": ["/usr/bin/env"]}}))
        .await;
    assert_eq!(done["result"]["execute"]["exit_code"], 127, "{done:#}");

    for command in ["echo x > /corpus/word", "touch /corpus/new", "echo x > /bin/new"] {
        let done = node.task(&json!({"execute": {"command": command}})).await;
        let outcome = &done["result"]["execute"];
        assert_eq!(done["status"], "run_failed", "{command}: {done:#}");
        let said = outcome["stderr"].as_str().unwrap_or_default();
        assert!(said.contains("Read-only file system"), "{command}: {done:#}");
    }
    let done = node
        .task(&json!({"execute": {"command": "cat /corpus/word; ls /corpus"}}))
        .await;
    assert_eq!(done["result"]["execute"]["stdout"], "heron\nword\n", "{done:#}");
    assert_eq!(fs::read_to_string(corpus.join("word")).unwrap(), "heron\n");
}
