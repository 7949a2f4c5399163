//! `conclave root`: imports, lists, verifies and removes roots, and what it does when it is interrupted.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster_tests::{CommandOutput, ConclaveCli, TestSystem, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::harness::{pack_tar, text};

const SOON: Duration = Duration::from_secs(60);

/// A folder for roots and archives, on which a test runs `conclave root`.
struct RootFixture {
    cli: ConclaveCli,
    system: TestSystem,
}

impl RootFixture {
    fn new() -> RootFixture {
        RootFixture {
            cli: ConclaveCli::new(""),
            system: TestSystem::new().expect("a folder"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.system.folder.path().join(name)
    }

    fn roots(&self) -> PathBuf {
        self.system.data().join("roots")
    }

    /// Runs `conclave root` on the data folder of the test.
    async fn root(&self, args: &[&str]) -> CommandOutput {
        let data = self.system.data();
        self.cli
            .run(&[&["root"], args, &["--data", text(&data)]].concat())
            .await
    }

    /// The roots as `conclave root list` shows them.
    async fn list(&self) -> Vec<Value> {
        let listed = self.root(&["list", "--json"]).await;
        listed.assert_success().json_lines()
    }

    /// An archive with one file, made by tar.
    fn archive(&self, name: &str, content: &str) -> PathBuf {
        let tree = self.path(&format!("{name}.d"));
        fs::create_dir_all(tree.join("usr/bin")).expect("a folder");
        fs::write(tree.join("usr/bin/program"), content).expect("a file");
        self.pack(name, &tree, &["--gzip"])
    }

    /// A small archive that takes long to import, because it contains a large hole.
    fn slow_archive(&self) -> PathBuf {
        let tree = self.path("slow.d");
        fs::create_dir(&tree).expect("a folder");
        let file = File::create(tree.join("hole")).expect("a file");
        file.set_len(15 << 30).expect("a hole");
        self.pack("slow.tar", &tree, &["--sparse"])
    }

    fn pack(&self, name: &str, tree: &Path, options: &[&str]) -> PathBuf {
        let archive = self.path(name);
        pack_tar(tree, &archive, options);
        archive
    }

    fn entries(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.roots()) else {
            return Vec::new();
        };
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
        names.map(|name| name.expect("text")).collect()
    }

    /// Starts an import of the slow archive, and waits until it is in the middle.
    async fn begin_slow_import(&self, archive: &Path) -> (tokio::process::Child, Pid) {
        let data = self.system.data();
        let args = [
            "root",
            "import",
            text(archive),
            "--name",
            "slow",
            "--data",
            text(&data),
        ];
        let child = self.cli.command(&args).spawn().expect("conclave starts");
        let pid = i32::try_from(child.id().expect("a pid")).expect("a pid");
        let file = self.roots().join(".work-slow/generation/tree/hole");
        wait_until("the import to be in the middle", SOON, async || {
            fs::metadata(&file).ok().filter(|file| file.len() > 1 << 20)
        })
        .await;
        (child, Pid::from_raw(pid))
    }
}

#[tokio::test]
async fn a_root_is_imported_listed_verified_replaced_and_removed() {
    let roots = RootFixture::new();
    let list = roots.root(&["list"]).await.assert_success();
    assert_eq!(list.text(), "NAME  SHA256  SIZE  MADE  FROM\n");
    assert!(!roots.system.data().exists(), "nothing is created by a list");

    let first = roots.archive("tools.tar.gz", "one");
    let said = roots.root(&["import", text(&first)]).await.assert_success();
    assert!(said.text().starts_with("tools: sha256 "), "{said:?}");
    assert!(
        said.text().contains("3 files, folders and links, 3 B"),
        "{said:?}"
    );
    let listed = roots.root(&["list", "--json"]).await.assert_success().json();
    assert_eq!(listed["name"], "tools");
    assert_eq!(listed["source"], "tools.tar.gz");
    let folder = PathBuf::from(listed["folder"].as_str().expect("a path"));
    assert_eq!(
        fs::read(folder.join("usr/bin/program")).expect("the file"),
        b"one"
    );
    let verified = roots.root(&["verify"]).await.assert_success();
    assert!(verified.text().starts_with("tools: unchanged"), "{verified:?}");

    let second = roots.archive("other.tar.gz", "two");
    let replaced = roots
        .root(&["import", text(&second), "--name", "tools", "--json"])
        .await;
    let replaced = replaced.assert_success().json();
    assert_ne!(replaced["sha256"], listed["sha256"]);
    assert!(!folder.exists());

    let program = PathBuf::from(replaced["folder"].as_str().expect("a path")).join("usr/bin/program");
    fs::write(&program, "bad").expect("a file");
    let changed = roots.root(&["verify", "tools"]).await;
    assert_eq!(changed.code, 1, "{changed:?}");
    assert_eq!(
        changed.text(),
        "tools: 1 difference\n  usr/bin/program: other content\n"
    );
    let changed = roots.root(&["verify", "--json"]).await;
    assert_eq!(changed.code, 1, "{changed:?}");
    assert_eq!(changed.json()["difference_count"], 1, "{changed:?}");

    // Nobody can answer a question.
    roots
        .root(&["remove", "tools"])
        .await
        .assert_failure(1, &["--yes"]);
    let removed = roots.root(&["remove", "tools", "--yes"]).await.assert_success();
    assert_eq!(removed.text(), "tools removed\n");
    assert!(roots.entries().is_empty());
    roots
        .root(&["remove", "tools", "-y"])
        .await
        .assert_failure(1, &["no root tools"]);
    roots
        .root(&["verify", "tools"])
        .await
        .assert_failure(1, &["no root tools"]);
}

#[tokio::test]
async fn what_cannot_be_imported_is_named_and_leaves_nothing() {
    let roots = RootFixture::new();
    let tree = roots.path("tree");
    fs::create_dir(&tree).expect("a folder");
    fs::write(tree.join("file"), vec![1; 100_000]).expect("a file");
    let outside = roots.pack("outside.tar", &tree, &["--transform=s,^./file,../file,", "-P"]);
    let said = roots.root(&["import", text(&outside)]).await;
    said.assert_failure(1, &["outside.tar", "'../file'", "is refused", "'..'"]);
    let large = roots.pack("large.tar", &tree, &[]);
    let said = roots.root(&["import", text(&large), "--max-size", "50KiB"]).await;
    said.assert_failure(1, &["'./file'", "51200 bytes", "--max-size"]);
    let said = roots.root(&["import", text(&roots.path("missing.tar"))]).await;
    said.assert_failure(1, &["missing.tar", "No such file"]);
    let said = roots
        .root(&["import", text(&roots.pack("Bad Name.tar", &tree, &[]))])
        .await;
    said.assert_failure(1, &["Bad Name.tar", "--name"]);
    let said = roots.root(&["import", text(&tree)]).await;
    said.assert_failure(1, &["oci-layout"]);
    assert!(roots.entries().is_empty());
}

#[tokio::test]
async fn a_killed_import_leaves_nothing_that_is_listed() {
    let roots = RootFixture::new();
    let archive = roots.slow_archive();
    let (child, pid) = roots.begin_slow_import(&archive).await;

    // Other commands on the same name are refused, on other names they are not disturbed.
    let small = roots.archive("small.tar.gz", "x");
    let same = roots.root(&["import", text(&small), "--name", "slow"]).await;
    same.assert_failure(1, &["another command is at work on the root slow"]);
    roots.root(&["import", text(&small)]).await.assert_success();
    let listed = roots.list().await;
    assert_eq!(listed.len(), 1);
    assert!(roots.entries().contains(&".work-slow".to_string()));

    kill(pid, Signal::SIGKILL).expect("it runs");
    let ended = CommandOutput::of(child).await;
    assert_eq!(ended.code, 137, "{ended:?}");
    let listed = roots.list().await;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["name"], "small");
    assert_eq!(
        roots.entries(),
        ["small"],
        "the next command removes what was left"
    );
    roots
        .root(&["import", text(&small), "--name", "slow"])
        .await
        .assert_success();
}

#[tokio::test]
async fn an_interrupted_import_cleans_up() {
    let roots = RootFixture::new();
    let archive = roots.slow_archive();
    let (child, pid) = roots.begin_slow_import(&archive).await;
    kill(pid, Signal::SIGTERM).expect("it runs");
    // Much less than the rest of the import would take.
    let ended = tokio::time::timeout(Duration::from_secs(10), CommandOutput::of(child)).await;
    let ended = ended.expect("it ends soon");
    assert_eq!(ended.code, 143, "{ended:?}");
    ended.assert_failure(143, &["interrupted; nothing was imported"]);
    assert!(roots.entries().is_empty());
}

/// Programs that a fake `mmdebstrap` needs. Without `unshare` it has no namespaces of its own, as that of an ordinary user.
const FAKE_PROGRAMS: [&str; 4] = ["sh", "grep", "sleep", "tar"];

impl RootFixture {
    /// Starts a build with a script as `mmdebstrap`.
    fn build_with(&self, script: &str) -> tokio::process::Child {
        let programs = self.path("programs");
        fs::create_dir_all(&programs).expect("a folder");
        for name in FAKE_PROGRAMS {
            let _ = std::os::unix::fs::symlink(format!("/usr/bin/{name}"), programs.join(name));
        }
        let fake = programs.join("mmdebstrap");
        let shell = programs.join("sh");
        fs::write(&fake, format!("#!{}\n{script}\n", shell.display())).expect("a file");
        fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).expect("a mode");
        let data = self.system.data();
        let mut command =
            self.cli
                .command(&["root", "build", "fake", "--pip", "numpy", "--data", text(&data)]);
        command
            .env("PATH", &programs)
            .env("TEST_FOLDER", self.system.folder.path());
        command.spawn().expect("conclave starts")
    }
}

#[tokio::test]
async fn a_tool_that_fails_or_writes_no_archive_leaves_no_root() {
    let roots = RootFixture::new();
    for (script, expected) in [
        ("exit 7", "exit status: 7"),
        ("echo no archive; exit 0", "mmdebstrap"),
        (
            "cd $TEST_FOLDER && tar -c --files-from=/dev/null",
            "without files",
        ),
        ("cd $TEST_FOLDER && tar -cP ../", "'..'"),
    ] {
        let ended = CommandOutput::of(roots.build_with(script)).await;
        ended.assert_failure(1, &["mmdebstrap", expected]);
        assert!(roots.entries().is_empty(), "{script}");
    }
    let script = "cd $TEST_FOLDER && echo x > file && tar -c file";
    let ended = CommandOutput::of(roots.build_with(script)).await.assert_success();
    assert!(ended.text().starts_with("fake: sha256 "), "{ended:?}");
}

#[tokio::test]
async fn an_interrupted_build_stops_its_tool() {
    let roots = RootFixture::new();
    // The signals that conclave waits for must not be blocked in the tool.
    let script =
        "cd $TEST_FOLDER && grep SigBlk /proc/self/status > mask && echo $$ > pid && exec sleep 1000";
    let child = roots.build_with(script);
    let conclave = i32::try_from(child.id().expect("a pid")).expect("a pid");
    let tool = wait_until("the tool to run", SOON, async || {
        let text = fs::read_to_string(roots.path("pid")).ok()?;
        text.strip_suffix('\n')?.parse::<i32>().ok()
    })
    .await;
    let mask = fs::read_to_string(roots.path("mask")).expect("the file");
    assert_eq!(mask, "SigBlk:\t0000000000000000\n");
    kill(Pid::from_raw(conclave), Signal::SIGINT).expect("it runs");
    let ended = tokio::time::timeout(Duration::from_secs(10), CommandOutput::of(child)).await;
    let ended = ended.expect("it ends soon");
    ended.assert_failure(130, &["interrupted; nothing was built"]);
    assert!(
        !Path::new(&format!("/proc/{tool}")).exists(),
        "the tool has ended"
    );
    assert!(roots.entries().is_empty());
}

#[tokio::test]
async fn configured_folders_are_listed_and_checked_at_the_start() {
    let roots = RootFixture::new();
    let own = roots.path("own");
    fs::create_dir(&own).expect("a folder");
    let config = roots.path("node.toml");
    fs::write(
        &config,
        "[roots.own]\npath = \"own\"\n[sandbox]\nroots = \"elsewhere\"\n",
    )
    .expect("a file");
    let run = async |args: &[&str]| {
        roots
            .cli
            .run(&[&["root"], args, &["--config", text(&config)]].concat())
            .await
    };
    let small = roots.archive("small.tar.gz", "x");
    run(&["import", text(&small)]).await.assert_success();
    assert!(roots.path("elsewhere/small/current").exists());
    let listed = run(&["list", "--json"]).await.assert_success().json_lines();
    assert_eq!(listed[0]["name"], "own");
    assert_eq!(listed[0]["folder"], text(&own));
    assert!(listed[0]["sha256"].is_null());
    assert_eq!(listed[1]["name"], "small");
    for args in [&["remove", "own", "--yes"][..], &["verify", "own"]] {
        run(args).await.assert_failure(1, &["by the configuration"]);
    }
    let said = run(&["import", text(&small), "--name", "own"]).await;
    said.assert_failure(1, &["[roots.own]"]);
    let settings = roots
        .cli
        .run(&["config", "--json", "--config", text(&config)])
        .await;
    let settings = settings.assert_success().json_lines();
    let value = |key: &str| settings.iter().find(|row| row["key"] == key).expect("the key")["value"].clone();
    assert_eq!(value("roots.own.path"), text(&own));
    assert_eq!(value("sandbox.roots"), text(&roots.path("elsewhere")));

    fs::remove_dir(&own).expect("a folder");
    let mut command = roots
        .cli
        .command(&["up", "--listen", "127.0.0.1:0", "--config", text(&config)]);
    let data = roots.system.data();
    let started = CommandOutput::of(
        command
            .args(["--data", text(&data)])
            .spawn()
            .expect("conclave starts"),
    )
    .await;
    started.assert_failure(1, &["roots.own.path", "node.toml:1", text(&own)]);
}
