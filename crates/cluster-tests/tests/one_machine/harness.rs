//! A running `conclave up` for a test.

use std::path::Path;
use std::process::Command;

use cluster_tests::{ConclaveCli, Gate, NodeProcess, RawHttpClient, TestSystem};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// On a busy machine a node may pause for seconds. With the default lease its tasks would run again, which other tests cover.
const LONG_LEASE_FLAGS: [&str; 4] = ["--set", "executor.self_kill=20s", "--set", "judicator.lease=30s"];

/// A running `conclave up` in a temporary folder, with the clients that a test needs for it.
pub(crate) struct SingleNode {
    pub(crate) up: NodeProcess,
    pub(crate) web: RawHttpClient,
    pub(crate) cli: ConclaveCli,
    /// Dropped last, because the node uses the folder.
    pub(crate) system: TestSystem,
}

impl SingleNode {
    pub(crate) fn up(flags: &[&str]) -> SingleNode {
        SingleNode::on(TestSystem::new().expect("a folder"), flags)
    }

    /// As `up`, in an existing folder.
    pub(crate) fn on(system: TestSystem, flags: &[&str]) -> SingleNode {
        let up = up(&system, flags);
        let base = system.url("");
        SingleNode {
            up,
            web: RawHttpClient::new(&base),
            cli: ConclaveCli::new(&base),
            system,
        }
    }

    /// Kills the node, and starts it again in the same folder.
    pub(crate) fn again(self, flags: &[&str]) -> SingleNode {
        let SingleNode {
            up: old, cli, system, ..
        } = self;
        old.kill();
        let up = up(&system, flags);
        // The connections of the old client ended with the node.
        let web = RawHttpClient::new(&system.url(""));
        SingleNode { up, web, cli, system }
    }

    /// A gate file outside of every workspace.
    pub(crate) fn gate(&self, name: &str) -> Gate {
        self.system.gate(name)
    }
}

fn up(system: &TestSystem, flags: &[&str]) -> NodeProcess {
    system
        .up(&[&LONG_LEASE_FLAGS, flags].concat())
        .expect("conclave up serves")
}

/// Packs the files of a folder into a tar archive, with these options of `tar`.
pub(crate) fn pack_tar(tree: &Path, archive: &Path, options: &[&str]) {
    let mut tar = Command::new("tar");
    tar.args(options)
        .arg("-cf")
        .arg(archive)
        .arg("-C")
        .arg(tree)
        .arg(".");
    assert!(tar.status().expect("tar runs").success());
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// The name of a blob with these bytes. Computed here instead of by the product's own function.
pub(crate) fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A path as a part of a URL: every byte but letters, digits and slashes is escaped.
pub(crate) fn percent_encoded(path: &str) -> String {
    let escape = |byte: u8| match byte {
        b'/' => "/".to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    path.bytes().map(escape).collect()
}

/// The resident memory of a process, and the most that it ever had.
pub(crate) fn resident_bytes(pid: i32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        number.unwrap_or_else(|| panic!("no {name} in {status}")) << 10
    };
    (kib("VmRSS:"), kib("VmHWM:"))
}

/// The paths of the kept files of a task in JSON.
pub(crate) fn kept_paths(task: &Value) -> Vec<&str> {
    let files = task["result"]["files"].as_array();
    let files = files.unwrap_or_else(|| panic!("no files in {task:#}"));
    files
        .iter()
        .map(|file| file["path"].as_str().expect("a path"))
        .collect()
}
