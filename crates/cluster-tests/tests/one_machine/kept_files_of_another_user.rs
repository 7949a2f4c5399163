//! Kept files on a node of an ordinary user, whose tasks may run as another user and may forbid others to read their files.

use std::os::unix::fs::chown;
use std::process::Command;
use std::time::Duration;

use cluster_tests::{NodeProcess, RawHttpClient, TestSystem, conclave, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::kept_paths;
use crate::kept_files::{file, nothing_left_out};
use crate::system_call_fault::SystemCallFault;

const NOBODY: u32 = 65534;

/// Starts a node in a mount namespace in which the user has the subordinate ids of the file.
const WITH_SUBORDINATE_IDS: &str = r#"
for ids in /etc/subuid /etc/subgid; do mount --bind "$0" $ids || exit 1; done
exec "$@"
"#;

/// Leaves files and folders that others may not read, list or search, and special files among them.
const MAKE_UNREADABLE: &str = "umask 077; mkdir -p private/deep closed/inner listed
    printf own >own; printf none >none; printf p >private/deep/p.csv; printf c >closed/c.csv
    printf i >closed/inner/i.csv; printf l >listed/l.csv; printf '#!' >closed/tool; chmod 100 closed/tool
    deep=$(printf 'd/%.0s' $(seq 31)); mkdir -p $deep; printf deep >$deep/file
    ln -s OUTSIDE/secret link; ln -s OUTSIDE folder; ln -s /etc/passwd closed/link; ln -s /etc closed/etc
    mkfifo closed/fifo; printf odd >closed/$(printf 'odd\\377')
    chmod 744 listed; chmod 000 none closed/inner/i.csv closed/inner closed d .";

/// A running `conclave up` of an ordinary user with cells, in a temporary folder.
struct OrdinaryUserNode {
    up: NodeProcess,
    web: RawHttpClient,
    /// Dropped last, because the node uses the folder.
    folder: TempDir,
}

/// Whether the user of a node has subordinate ids, so that tasks run as other users.
#[derive(Clone, Copy, Debug)]
enum TaskUser {
    Subordinate,
    SameAsNode,
}

impl OrdinaryUserNode {
    fn up(task_user: TaskUser) -> OrdinaryUserNode {
        // The build folder may be below one that only root may enter, like /root.
        let folder = tempfile::tempdir_in("/tmp").expect("a folder");
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("another owner");
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("outside")).expect("a folder");
        std::fs::write(path("outside/secret"), "secret").expect("a file");
        std::fs::write(path("ids"), format!("{NOBODY}:100000:65536\n")).expect("a file");
        // Another process copies the binary, because a concurrent test could inherit the descriptor, and a file that is open
        // for writing cannot be executed.
        let mut install = Command::new("install");
        let installed = install.args(["-m", "755"]).arg(conclave()).arg(path("conclave"));
        assert!(installed.status().expect("`install`").success());

        let mut command = match task_user {
            TaskUser::Subordinate => {
                let mut command = Command::new("unshare");
                let script = ["--mount", "sh", "-c", WITH_SUBORDINATE_IDS];
                command.args(script).arg(path("ids")).arg("setpriv");
                command
            }
            TaskUser::SameAsNode => Command::new("setpriv"),
        };
        let http = TestSystem::new().expect("a free port").http().to_string();
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(path("conclave"))
            .args(["up", "--slots=1", "--isolation=cell", "--listen", &http])
            .args(["memory", "processes", "cpu"].map(|limit| format!("--allow-weaker={limit}")))
            .args([
                "--set=executor.self_kill=20s",
                "--set=judicator.lease=30s",
                "--data",
            ])
            .arg(path("data"))
            .env("HOME", folder.path());
        OrdinaryUserNode {
            up: NodeProcess::launch("up", folder.path(), command).expect("conclave up serves"),
            web: RawHttpClient::new(&format!("http://{http}")),
            folder,
        }
    }

    async fn keep(&self, keep: Value) -> Value {
        let outside = self.folder.path().join("outside");
        let command = MAKE_UNREADABLE.replace("OUTSIDE", outside.to_str().expect("a path in UTF-8"));
        let task = json!({"keep": keep, "execute": {"command": command}});
        let task = self.web.run(&task).await;
        assert_eq!(task["status"], "success", "{task:#}");
        task
    }

    /// Waits until the search for languages is over, which has a warden of its own.
    async fn wait_for_versions(&self) {
        wait_until("versions of languages", Duration::from_secs(60), async || {
            let answer = self.web.get("/api/v1/languages").await.json();
            let languages = answer["languages"].as_array()?;
            let is_known = |language: &Value| {
                language["versions"]
                    .as_object()
                    .is_some_and(|found| !found.is_empty())
            };
            languages.iter().any(is_known).then_some(())
        })
        .await;
    }

    fn wardens(&self) -> Vec<String> {
        let node = self.up.pid().to_string();
        let found = Command::new("pgrep")
            .args(["--parent", &node, "--exact", "conclave-warden"])
            .output()
            .expect("`pgrep` of procps");
        let found = String::from_utf8(found.stdout).expect("numbers");
        found.lines().map(str::to_string).collect()
    }
}

#[tokio::test]
async fn files_that_only_the_task_may_read_are_kept() {
    let deep = format!("{}file", "d/".repeat(31));
    let all = json!([
        file("closed/c.csv", "c", false),
        file("closed/inner/i.csv", "i", false),
        file("closed/tool", "#!", true),
        file(&deep, "deep", false),
        file("listed/l.csv", "l", false),
        file("none", "none", false),
        file("own", "own", false),
        file("private/deep/p.csv", "p", false),
    ]);
    let literal: Vec<_> = all
        .as_array()
        .into_iter()
        .flatten()
        .map(|file| &file["path"])
        .collect();
    let left_out = |count: u64, bytes: u64, why: &str| json!({"count": count, "bytes": bytes, "why": why});
    for task_user in [TaskUser::Subordinate, TaskUser::SameAsNode] {
        let node = OrdinaryUserNode::up(task_user);
        let logged_ids = node.up.log().contains("too few subordinate ids");
        assert_eq!(logged_ids, matches!(task_user, TaskUser::SameAsNode));
        for (keep, expected, left_out) in [
            (json!(literal), all.clone(), nothing_left_out()),
            // Four links, a pipe, and a name that is not UTF-8.
            (json!(["**"]), all.clone(), left_out(6, 3, "not_regular")),
            (
                json!(["closed/inner/*", "*/l.csv", "private/**"]),
                json!([all[1], all[4], all[7]]),
                nothing_left_out(),
            ),
            (
                json!(["link", "closed/link", "closed/fifo"]),
                json!([]),
                left_out(3, 0, "not_regular"),
            ),
            (
                json!([
                    "folder/secret",
                    "folder/*",
                    "closed/etc/passwd",
                    "closed/etc/*",
                    "closed"
                ]),
                json!([]),
                nothing_left_out(),
            ),
            (json!(["closed/odd*"]), json!([]), left_out(1, 3, "bad_name")),
        ] {
            let task = node.keep(keep.clone()).await;
            let result = &task["result"];
            assert_eq!(result["files"], expected, "{task_user:?}: {keep}");
            assert_eq!(result["files_left_out"], left_out, "{task_user:?}: {keep}");
        }
    }
}

/// The death of a warden is no outcome of the program, and must not leave out its files.
#[tokio::test]
async fn a_task_whose_warden_dies_while_it_opens_a_file_is_run_again() {
    let node = OrdinaryUserNode::up(TaskUser::Subordinate);
    node.wait_for_versions().await;
    let wardens = node.wardens();
    assert_eq!(wardens.len(), 2, "two for the one slot");
    let _fault = SystemCallFault::inject("openat2:signal=KILL", None, &wardens);
    let task = node.keep(json!(["own", "closed/*.csv"])).await;
    assert_eq!(kept_paths(&task), ["closed/c.csv", "own"], "{task:#}");
    assert_eq!(task["result"]["files_left_out"], nothing_left_out());
    let ends: Vec<_> = task["ran_on"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|attempt| &attempt["end"])
        .collect();
    assert_eq!(json!(ends), json!(["broken", "broken", "finished"]), "{task:#}");
    let replaced = node.wardens();
    assert!(
        wardens.iter().all(|warden| !replaced.contains(warden)),
        "{replaced:?}"
    );
}
