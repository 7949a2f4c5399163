//! `conclave run`, `watch` and `get --follow` pass output on as it is written.

use std::process::Stdio;
use std::time::Duration;

use cluster_tests::{CommandOutput, wait_until};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::time::timeout;

use crate::harness::SingleNode;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A `conclave` command of a test that still runs, whose output the test reads as it comes.
struct RunningCommand {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl RunningCommand {
    fn start(node: &SingleNode, args: &[&str]) -> RunningCommand {
        let mut child = node.cli.command(args).spawn().expect("conclave starts");
        RunningCommand {
            stdout: BufReader::new(child.stdout.take().expect("a stdout")),
            stderr: BufReader::new(child.stderr.take().expect("a stderr")),
            child,
        }
    }

    async fn stdout_line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(TIMEOUT, self.stdout.read_line(&mut line)).await;
        read.expect("a line in time").expect("a line");
        line
    }

    async fn stderr_line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(TIMEOUT, self.stderr.read_line(&mut line)).await;
        read.expect("a line in time").expect("a line");
        line
    }

    /// The exit code, and what was not read yet.
    async fn end(mut self) -> (i32, String, String) {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let rest = async {
            self.stdout.read_to_string(&mut stdout).await.expect("text");
            self.stderr.read_to_string(&mut stderr).await.expect("text");
            self.child.wait().await.expect("its end")
        };
        let status = timeout(TIMEOUT, rest).await.expect("an end in time");
        (status.code().expect("a code"), stdout, stderr)
    }
}

/// The program continues only after the test has seen what it wrote.
#[tokio::test]
async fn run_passes_each_line_on_as_it_is_written() {
    let node = SingleNode::up(&[]);
    let (compiled, first, second) = (node.gate("compiled"), node.gate("first"), node.gate("second"));
    let compile = format!("echo compiling; {}", compiled.wait());
    let command = format!(
        "echo ready; {}; echo warning >&2; {}; printf 'no newline'; exit 4",
        first.wait(),
        second.wait()
    );
    let mut run = RunningCommand::start(&node, &["run", "--compile", &compile, "--shell", &command]);
    // Messages of the compile step go to stderr, so that stdout is the program's alone.
    assert_eq!(run.stderr_line().await, "compiling\n");
    compiled.open();
    assert_eq!(run.stdout_line().await, "ready\n");
    first.open();
    assert_eq!(run.stderr_line().await, "warning\n");
    second.open();
    assert_eq!(run.end().await, (4, "no newline".to_string(), String::new()));
}

/// As in `conclave run -- yes | head -n 1`.
#[tokio::test]
async fn a_closed_stdout_ends_run_and_its_task_and_only_the_command_of_watch() {
    let node = SingleNode::up(&["--slots", "1"]);
    let program = ["--wall", "600s", "--shell", "while sleep 0.01; do echo y; done"];
    let close = async |mut command: RunningCommand| {
        assert_eq!(command.stdout_line().await, "y\n");
        drop(command.stdout);
        let end = timeout(TIMEOUT, command.child.wait()).await;
        end.expect("an end in time").expect("its end").code()
    };
    let statuses = async || -> Vec<String> {
        let found = node.web.get("/api/v1/tasks").await.json();
        let tasks = found["tasks"].as_array().expect("tasks").iter();
        tasks
            .map(|task| task["status"].as_str().expect("a status").to_string())
            .collect()
    };
    let run = RunningCommand::start(&node, &[&["run"], &program[..]].concat());
    assert_eq!(close(run).await, Some(141));
    assert_eq!(statuses().await, ["cancelled"]);

    let added = node
        .cli
        .run(&[&["add"], &program[..]].concat())
        .await
        .assert_success();
    let id = added.text().trim_end().to_string();
    for verb in [&["watch"][..], &["get", "--follow"]] {
        let command = RunningCommand::start(&node, &[verb, &[&id]].concat());
        assert_eq!(close(command).await, Some(0), "{verb:?}");
    }
    assert_eq!(statuses().await, ["running", "cancelled"]);
    node.cli.run(&["cancel", &id]).await.assert_success();
}

#[tokio::test]
async fn watch_and_get_follow_a_running_task() {
    let node = SingleNode::up(&["--slots", "1"]);
    for verb in [
        &["watch"][..],
        &["get", "--follow"],
        &["get", "--follow", "--only", "stdout"],
    ] {
        let gate = node.gate(&verb.join(""));
        let command = format!("echo begun; echo oops >&2; {}; echo ended; exit 5", gate.wait());
        let added = node.cli.run(&["add", "--shell", &command]).await.assert_success();
        let id = added.text().trim_end().to_string();
        wait_until("the task to run", TIMEOUT, async || {
            let task = node.web.get(&format!("/api/v1/tasks/{id}")).await.json();
            (task["status"] == "running").then_some(())
        })
        .await;
        // Two at once: one from the beginning on, and one that comes late.
        let mut early = RunningCommand::start(&node, &[verb, &[&id]].concat());
        assert_eq!(early.stdout_line().await, "begun\n", "{verb:?}");
        let mut late = RunningCommand::start(&node, &[verb, &[&id]].concat());
        assert_eq!(late.stdout_line().await, "begun\n", "{verb:?}");
        gate.open();
        for follower in [early, late] {
            let (code, stdout, stderr) = follower.end().await;
            assert_eq!((code, stdout.as_str()), (5, "ended\n"), "{verb:?}: {stderr}");
            let is_stderr_wanted = !verb.contains(&"--only");
            assert_eq!(stderr.contains("oops\n"), is_stderr_wanted, "{verb:?}: {stderr}");
        }
        // The same of a task that is done.
        let after = node.cli.run(&[verb, &[&id]].concat()).await;
        assert_eq!((after.code, after.text()), (5, "begun\nended\n"), "{after:?}");
    }
}

/// Byte for byte, beyond what is in the JSON of a task, and with the exit code of the task.
#[tokio::test]
async fn much_output_passes_through_run_unchanged() {
    let node = SingleNode::up(&[]);
    let numbers: String = (1..=300_000).map(|number| format!("{number}\n")).collect();
    let said = node
        .cli
        .run(&["run", "--shell", "seq 1 300000; seq 1 300000 >&2; exit 7"])
        .await;
    assert_eq!(said.code, 7);
    assert!(said.stdout == numbers.as_bytes(), "{} bytes", said.stdout.len());
    assert!(said.stderr.starts_with(&numbers), "{} bytes", said.stderr.len());
    let id = node.web.get("/api/v1/tasks").await.json()["tasks"][0]["id"]
        .as_str()
        .expect("an id")
        .to_string();
    let said = node
        .cli
        .run(&["get", "--only", "stdout", &id])
        .await
        .assert_success();
    assert!(said.stdout == numbers.as_bytes(), "{} bytes", said.stdout.len());
}

#[tokio::test]
async fn run_passes_standard_input_on_if_asked() {
    let node = SingleNode::up(&[]);
    let said = node
        .cli
        .run_with_input(&["run", "-i", "--", "cat"], b"\xff\0typed")
        .await
        .assert_success();
    assert_eq!(said.stdout, b"\xff\0typed");
    let megabytes = vec![b'm'; 3 << 20];
    let said = node
        .cli
        .run_with_input(&["run", "-i", "--", "wc", "-c"], &megabytes)
        .await
        .assert_success();
    assert_eq!(said.text(), format!("{}\n", 3 << 20));
    node.cli
        .run(&["run", "-i", "--input", "x", "--", "cat"])
        .await
        .assert_failure(2, &["--input"]);

    // Without `-i` the command gets no input, and one line on stderr says so.
    let waiting = async |args: &[&str]| {
        let mut command = node.cli.command(args);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("conclave starts");
        let mut stdin = child.stdin.take().expect("a stdin");
        stdin.write_all(b"typed").await.expect("it is taken");
        let output = CommandOutput::of(child).await;
        drop(stdin);
        output
    };
    // The pipe may be empty when the command looks, so the input comes from a file.
    let file = node.system.folder.path().join("input");
    std::fs::write(&file, "typed").expect("a file");
    let mut command = node.cli.command(&["run", "--", "cat"]);
    let input = std::fs::File::open(&file).expect("a file");
    let said = CommandOutput::of(command.stdin(input).spawn().expect("conclave starts")).await;
    assert_eq!((said.code, said.text()), (0, ""), "{said:?}");
    assert_eq!(said.stderr.lines().count(), 1, "{said:?}");
    assert!(said.stderr.contains("-i"), "{said:?}");
    // A pipe that stays open delays nothing.
    let said = waiting(&["run", "--", "echo", "done"]).await;
    assert_eq!((said.code, said.text()), (0, "done\n"), "{said:?}");
    let said = waiting(&["run", "--input", "/dev/null", "--", "echo", "done"]).await;
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    // Nothing waits, so nothing is said.
    node.cli.run(&["run", "--", "cat"]).await.assert_success();
}
