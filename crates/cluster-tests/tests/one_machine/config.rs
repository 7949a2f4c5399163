//! Settings: precedence of layers, origins, and errors.

use cluster_tests::{CommandOutput, ConclaveCli, TestSystem};
use serde_json::Value;

use crate::harness::text;

/// A folder with a configuration file, for tests of `conclave config`.
struct ConfigFixture {
    cli: ConclaveCli,
    system: TestSystem,
}

impl ConfigFixture {
    fn new() -> ConfigFixture {
        let system = TestSystem::new().expect("a folder");
        ConfigFixture {
            cli: ConclaveCli::new(&system.url("")),
            system,
        }
    }

    /// Runs `conclave config` with this file, these variables and these flags.
    async fn show(&self, file: &str, env: &[(&str, &str)], flags: &[&str]) -> CommandOutput {
        let path = self.system.folder.path().join("node.toml");
        std::fs::write(&path, file).expect("a file");
        let args = [&["config", "--config", text(&path)], flags].concat();
        let mut command = self.cli.command(&args);
        CommandOutput::of(
            command
                .envs(env.iter().copied())
                .spawn()
                .expect("conclave starts"),
        )
        .await
    }
}

fn setting<'a>(settings: &'a [Value], key: &str) -> (&'a str, &'a str) {
    let found = settings
        .iter()
        .find(|setting| setting["key"] == key)
        .expect("the key");
    let text = |name: &str| found[name].as_str().expect("text");
    (text("value"), text("from"))
}

#[tokio::test]
async fn a_later_layer_overrides_and_is_named_as_origin() {
    let settings = ConfigFixture::new();
    let file = "[judicator]\nlease = \"40s\"\nattempts = 5\n[executor]\nslots = 3\n[secrets]\ntokens_file = \"tokens\"\n";
    let env = [
        ("CONCLAVE_EXECUTOR_SLOTS", "5"),
        ("CONCLAVE_EXECUTOR_SELF_KILL", "20s"),
        ("CONCLAVE_JUDICATOR_KEEP_DONE", "1s"),
    ];
    let flags = ["--slots", "7", "--set", "gateway.max_batch=9", "--json"];
    let shown = settings
        .show(file, &env, &flags)
        .await
        .assert_success()
        .json_lines();
    let check = |key: &str, value: &str, from: &str| {
        let (found, origin) = setting(&shown, key);
        assert_eq!(found, value, "{key}");
        assert!(origin.contains(from), "{key} is from {origin}");
    };
    check("judicator.attempts", "5", "node.toml:3");
    check("executor.slots", "7", "--slots");
    check("executor.self_kill", "20s", "CONCLAVE_EXECUTOR_SELF_KILL");
    check("judicator.keep_done", "1s", "CONCLAVE_JUDICATOR_KEEP_DONE");
    check("gateway.max_batch", "9", "--set");
    check("executor.heartbeat", "2s", "default");
    // A path in a file is relative to the folder of the file.
    let tokens = settings.system.folder.path().join("tokens");
    check("secrets.tokens_file", text(&tokens), "node.toml:7");

    let without_flag = settings
        .show(file, &env, &["--json"])
        .await
        .assert_success()
        .json_lines();
    assert_eq!(setting(&without_flag, "executor.slots").0, "5");
    let without_env = settings
        .show(file, &[], &["--json"])
        .await
        .assert_success()
        .json_lines();
    assert_eq!(setting(&without_env, "executor.slots").0, "3");
    let table = settings
        .show(file, &env, &["--slots", "7"])
        .await
        .assert_success();
    let row = table
        .text()
        .lines()
        .find(|line| line.starts_with("executor.slots "))
        .unwrap();
    assert!(row.contains(" 7 ") && row.contains("--slots"), "{row}");

    // Every key is documented, and every documented key exists.
    let docs = include_str!("../../../../docs/configuration.md");
    let keys: Vec<_> = shown
        .iter()
        .map(|setting| setting["key"].as_str().unwrap())
        .collect();
    let documented = docs
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(documented.collect::<Vec<_>>(), keys);
    // The example in the docs works.
    let example = docs
        .split("```toml")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap();
    settings.show(example, &[], &[]).await.assert_success();
}

#[tokio::test]
async fn invalid_settings_are_named() {
    let settings = ConfigFixture::new();
    let check = async |file: &str, env: &[(&str, &str)], flags: &[&str], words: &[&str]| {
        settings.show(file, env, flags).await.assert_failure(1, words);
    };
    check(
        "[executor]\nslotz = 1",
        &[],
        &[],
        &["executor.slotz", "node.toml", "executor.slots"],
    )
    .await;
    check("[exekutor]\nslots = 1", &[], &[], &["exekutor", "executor"]).await;
    check("slots = 1", &[], &[], &["slots"]).await;
    check("[executor\nslots = 1", &[], &[], &["node.toml"]).await;
    check(
        "[executor]\nslots = \"many\"",
        &[],
        &[],
        &["executor.slots", "node.toml:2", "many"],
    )
    .await;
    check("[executor]\nslots = -1", &[], &[], &["executor.slots", "-1"]).await;
    check(
        "[judicator]\nlease = \"5s\"",
        &[],
        &[],
        &["executor.self_kill", "judicator.lease"],
    )
    .await;
    check(
        "",
        &[("CONCLAVE_EXECUTOR_SLOTZ", "1")],
        &[],
        &["CONCLAVE_EXECUTOR_SLOTZ", "CONCLAVE_EXECUTOR_SLOTS"],
    )
    .await;
    check(
        "",
        &[("CONCLAVE_EXECUTOR_SLOTS", "x")],
        &[],
        &["CONCLAVE_EXECUTOR_SLOTS", "'x'"],
    )
    .await;
    check(
        "",
        &[],
        &["--set", "executor.slotz=1"],
        &["--set", "executor.slotz", "executor.slots"],
    )
    .await;
    settings
        .show("", &[], &["--slots", "-3"])
        .await
        .assert_failure(2, &["-3"]);
    check("", &[], &["--slots=-3"], &["executor.slots", "-3"]).await;
    check(
        "",
        &[],
        &["--isolation", "magic"],
        &["executor.isolation", "magic"],
    )
    .await;
    check(
        "",
        &[],
        &["--set", "judicator.keep_done=soon"],
        &["judicator.keep_done", "soon"],
    )
    .await;
    check(
        "",
        &[],
        &["--listen", "nonsense"],
        &["gateway.listen", "nonsense"],
    )
    .await;
    // The node reports the same before it starts anything.
    let data = settings.system.data();
    let up = ["up", "--data", text(&data), "--set", "executor.slotz=1"];
    settings.cli.run(&up).await.assert_failure(1, &["executor.slots"]);
    assert!(!data.exists(), "a node that did not start made its folder");
    settings
        .cli
        .run(&["up", "--config", "/nowhere/node.toml"])
        .await
        .assert_failure(1, &["/nowhere/node.toml"]);
}
