//! What every test here begins with, and what its tasks wait for.

use std::path::{Path, PathBuf};

use cluster_tests::{Cli, Node, System, Web};

/// A busy machine may let a node stand still for seconds. With the defaults a task that runs meanwhile would be lost
/// and tried again; what comes of that is tested elsewhere.
const PATIENT: [&str; 4] = ["--set", "executor.self_kill=20s", "--set", "judicator.lease=30s"];

/// `conclave up` on a folder of its own, and the ways to speak to it.
pub(crate) struct Stage {
    pub(crate) up: Node,
    pub(crate) web: Web,
    pub(crate) cli: Cli,
    /// Dropped last: the folder must outlive the node.
    pub(crate) system: System,
}

impl Stage {
    pub(crate) fn up(flags: &[&str]) -> Stage {
        Stage::on(System::new().expect("a folder"), flags)
    }

    /// The same on a folder in which there is something already.
    pub(crate) fn on(system: System, flags: &[&str]) -> Stage {
        let up = up(&system, flags);
        let base = system.url("");
        Stage {
            up,
            web: Web::new(&base),
            cli: Cli::new(&base),
            system,
        }
    }

    /// The same folder after a crash, with a new life of everything.
    pub(crate) fn again(self, flags: &[&str]) -> Stage {
        let Stage {
            up: old, cli, system, ..
        } = self;
        old.kill();
        let up = up(&system, flags);
        // The old one's connections went down with the node.
        let web = Web::new(&system.url(""));
        Stage { up, web, cli, system }
    }

    /// A place outside of every workspace.
    pub(crate) fn gate(&self, name: &str) -> Gate {
        Gate {
            path: self.system.folder.path().join(name),
        }
    }
}

fn up(system: &System, flags: &[&str]) -> Node {
    system
        .up(&[&PATIENT, flags].concat())
        .expect("conclave up serves")
}

/// A file that a task waits for: it goes on when the test says so, however long anything takes.
pub(crate) struct Gate {
    path: PathBuf,
}

impl Gate {
    /// A shell text that ends once the gate is open.
    pub(crate) fn wait(&self) -> String {
        format!("until [ -e {} ]; do sleep 0.02; done", self.path.display())
    }

    /// A shell text that opens it.
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
