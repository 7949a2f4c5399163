//! Roots that `conclave root build` makes of real packages, and tasks that run in them.

use cluster_tests::BuiltRoot;
use serde_json::{Value, json};

use crate::harness::SingleNode;

/// Runs Python code as a task in this root, and returns its execute step.
async fn run_python(root: &BuiltRoot, code: &str) -> Value {
    let setting = format!("sandbox.root={}", root.folder.display());
    let node = SingleNode::up(&["--slots", "1", "--isolation", "cell", "--set", &setting]);
    let task = json!({
        "user": "tests",
        "source": {"main.py": code},
        "execute": {"command": ["python3", "main.py"], "limits": {"wall": "60s"}},
    });
    let done = node.web.run(&task).await;
    assert_eq!(done["status"], "success", "{done:#}");
    done["result"]["execute"].clone()
}

#[tokio::test]
async fn a_task_runs_in_a_root_of_debian_packages() {
    let root = BuiltRoot::of("minimal", &["--packages", "python3-minimal"]).await;
    assert!(root.json["set_id_bits"].as_u64() > Some(0), "{}", root.json);
    assert!(root.json["special_files"].as_u64() > Some(0), "{}", root.json);
    assert!(!root.folder.join("usr/share/doc/bash/README").exists());
    assert!(!root.folder.join("usr/bin/apt-get").exists());
    let outcome = run_python(
        &root,
        "import os, sys\nprint(sys.version_info[0], os.path.exists('/usr/bin/gcc'), os.path.exists('/etc/apt/sources.list'))",
    )
    .await;
    assert_eq!(outcome["stdout"], "3 False False\n", "{outcome:#}");
}

/// The first recipe of docs/roots.md: Python packages of Debian.
#[tokio::test]
async fn numpy_and_pandas_come_from_debian_packages() {
    let root = BuiltRoot::of("debian-pandas", &["--packages", "python3-numpy,python3-pandas"]).await;
    let outcome = run_python(&root, PANDAS).await;
    assert_eq!(outcome["stdout"], "6.0\n", "{outcome:#}");
}

/// The second recipe of docs/roots.md: versions of the user's choice, by pip.
#[tokio::test]
async fn numpy_and_pandas_come_from_pip_with_pinned_versions() {
    let root = BuiltRoot::of("pip-pandas", &["--pip", "numpy==1.26.4,pandas==2.2.2"]).await;
    let code = format!("{PANDAS}print(numpy.__version__, pandas.__version__)\n");
    let outcome = run_python(&root, &code).await;
    assert_eq!(outcome["stdout"], "6.0\n1.26.4 2.2.2\n", "{outcome:#}");
    // How this machine downloads is none of the root's business.
    assert!(!root.folder.join("etc/pip.conf").exists());
    assert!(!root.folder.join("tmp/conclave-pip").exists());
}

const PANDAS: &str =
    "import numpy, pandas\nframe = pandas.DataFrame({'x': numpy.arange(4.0)})\nprint(frame['x'].sum())\n";
