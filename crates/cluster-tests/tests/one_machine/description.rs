//! The API description and the server agree: schemathesis sends what the description allows and what it forbids.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::stage::{Stage, text};

/// Far more than it takes; a run that hangs fails the test instead of holding it.
const DEADLINE: Duration = Duration::from_secs(240);

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,negative_data_rejection,\
                      positive_data_acceptance,unsupported_method";

/// Where `scripts/setup test` has put it.
fn schemathesis() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    cache
        .map(|cache| cache.join("conclave/schemathesis/bin/schemathesis"))
        .filter(|program| program.exists())
        .expect("schemathesis is missing: `scripts/setup test` installs it")
}

#[tokio::test]
async fn the_description_says_what_the_server_takes() {
    // No task ever runs, so that nothing generated here is ever a command. Nobody waits for the end of one either, and
    // the operator's maxima are not part of the form.
    let stage = Stage::up(&[
        "--slots",
        "0",
        "--set",
        "gateway.max_wait=1ms",
        "--set",
        "limits.max.wall=none",
        "--set",
        "limits.max.output=none",
        // Texts as long as may be are tried as well; those of 64 KiB take the generator minutes.
        "--set",
        "judicator.max_command=512",
    ]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemathesis");
    let mut command = Command::new(schemathesis());
    command
        .args(["--config-file", text(&folder.join("schemathesis.toml"))])
        .args(["run", &stage.system.url("/api/openapi.json")])
        .args(["--checks", CHECKS, "--no-color"])
        // Where hooks are found, and where it may leave its files.
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", &folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(stage.system.folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(DEADLINE, command.output())
        .await
        .expect("schemathesis ends before the deadline")
        .expect("schemathesis starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let warned = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{warned}");
    // All of them were tried.
    assert!(
        said.contains("Operations:       16 selected / 16 total"),
        "{said}"
    );
}
