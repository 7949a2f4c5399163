//! A running `conclave up` for a test, and gates that its tasks wait for.

use std::path::{Path, PathBuf};

use cluster_tests::{ConclaveCli, NodeProcess, RawHttpClient, TestSystem};
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
        Gate {
            path: self.system.folder.path().join(name),
        }
    }
}

fn up(system: &TestSystem, flags: &[&str]) -> NodeProcess {
    system
        .up(&[&LONG_LEASE_FLAGS, flags].concat())
        .expect("conclave up serves")
}

/// A file that a task of a test waits for, so that the test decides when the task continues.
pub(crate) struct Gate {
    path: PathBuf,
}

impl Gate {
    /// A shell command that waits until the gate is open.
    pub(crate) fn wait(&self) -> String {
        format!("until [ -e {} ]; do sleep 0.02; done", self.path.display())
    }

    /// A shell command that opens the gate.
    pub(crate) fn opening(&self) -> String {
        format!("touch {}", self.path.display())
    }

    pub(crate) fn open(&self) {
        std::fs::write(&self.path, "").expect("the gate opens");
    }

    pub(crate) fn is_open(&self) -> bool {
        self.path.exists()
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// The name of a blob with these bytes. Computed here instead of by the product's own function.
pub(crate) fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
