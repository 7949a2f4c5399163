//! Cells with other files than this machine's own.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use cluster_tests::System;
use serde_json::json;

use crate::stage::Zoo;

const TOOLS: [&str; 4] = ["cat", "ls", "sh", "touch"];

/// Everybody may write to it, so that whoever cannot is kept from it by the cell.
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
    // What every cell has of its own is not taken from here.
    for folder in ["box", "dev/shm", "run", "tmp"] {
        make_folder(&root.join(folder));
        fs::write(root.join(folder).join("decoy"), "x").expect("a new folder");
    }
}

#[tokio::test]
async fn a_root_of_their_own_is_all_that_cells_see() {
    let system = System::new().expect("a folder");
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
    let zoo = Zoo::open_with(system, &settings).await;

    let done = zoo
        .task(&json!({"execute": {"command": "ls /; echo; ls /bin"}}))
        .await;
    assert_eq!(
        done["result"]["execute"]["stdout"],
        "bin\nbox\ncorpus\ndev\netc\nproc\ntmp\n\nbusybox\ncat\nls\nsh\ntouch\n",
        "{done:#}"
    );
    let done = zoo.task(&json!({"execute": {"command": ["/usr/bin/env"]}})).await;
    assert_eq!(done["result"]["execute"]["exit_code"], 127, "{done:#}");

    for command in ["echo x > /corpus/word", "touch /corpus/new", "echo x > /bin/new"] {
        let done = zoo.task(&json!({"execute": {"command": command}})).await;
        let outcome = &done["result"]["execute"];
        assert_eq!(done["status"], "run_failed", "{command}: {done:#}");
        let said = outcome["stderr"].as_str().unwrap_or_default();
        assert!(said.contains("Read-only file system"), "{command}: {done:#}");
    }
    let done = zoo
        .task(&json!({"execute": {"command": "cat /corpus/word; ls /corpus"}}))
        .await;
    assert_eq!(done["result"]["execute"]["stdout"], "heron\nword\n", "{done:#}");
    assert_eq!(fs::read_to_string(corpus.join("word")).unwrap(), "heron\n");
}
