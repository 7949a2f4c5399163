//! schemathesis checks that the server accepts what the OpenAPI description allows, and refuses what it forbids.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::harness::{SingleNode, text};

/// Much longer than a run takes; a run that hangs fails the test.
const DEADLINE: Duration = Duration::from_secs(240);

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,negative_data_rejection,\
                      positive_data_acceptance,unsupported_method";

/// The path where `scripts/setup test` installs it.
fn schemathesis() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    cache
        .map(|cache| cache.join("conclave/schemathesis/bin/schemathesis"))
        .filter(|program| program.exists())
        .expect("schemathesis is missing: `scripts/setup test` installs it")
}

#[tokio::test]
async fn the_server_conforms_to_its_openapi_description() {
    // Without slots no generated command ever runs. Requests do not wait, and limits have no maxima, which the schema does not
    // have either.
    let settings = [
        "gateway.max_wait=1ms",
        // Texts of the maximum length are generated, too; for 64 KiB that takes minutes.
        "judicator.max_command=512",
        "limits.max.wall=none",
        "limits.max.output=none",
        "limits.max.memory=none",
        "limits.max.processes=none",
        "limits.max.open_files=none",
        "limits.max.space=none",
    ];
    let set = settings.iter().flat_map(|setting| ["--set", setting]);
    let flags: Vec<&str> = ["--slots", "0"].into_iter().chain(set).collect();
    let node = SingleNode::up(&flags);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemathesis");
    let mut command = Command::new(schemathesis());
    command
        .args(["--config-file", text(&folder.join("schemathesis.toml"))])
        .args(["run", &node.system.url("/api/openapi.json")])
        .args(["--checks", CHECKS, "--no-color"])
        // The folder of the hooks, and of files that schemathesis writes.
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", &folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(node.system.folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(DEADLINE, command.output())
        .await
        .expect("schemathesis ends before the deadline")
        .expect("schemathesis starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let warned = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{warned}");
    // All operations were tried.
    assert!(
        said.contains("Operations:       38 selected / 38 total"),
        "{said}"
    );
}
