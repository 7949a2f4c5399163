//! The curl and `conclave` lines that the page Run prints, run by a shell against the server.

use std::process::Stdio;

use cluster_tests::{CommandOutput, HttpResponse, conclave};
use serde_json::Value;
use tokio::process::Command;

use crate::harness::SingleNode;
use crate::multipart_builder::MultipartBuilder;

/// Characters that a shell would expand, and words that would end a here-document.
const ODD: &str = "$HOME `id` \\ \" ' !! ~ *\nEOF\n  EOF_\n%s\t{a,b} é <x> & | ;";

/// A node whose page Run prints lines that a shell runs.
struct PrintedLines {
    node: SingleNode,
}

impl PrintedLines {
    async fn print(&self, form: MultipartBuilder) -> Value {
        let request = form.request(&self.node.web, "/run/commands");
        let answer = HttpResponse::of(request.header("Accept", "application/json")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Runs a printed line as a reader would who copies it into a shell.
    async fn shell(&self, line: &str) -> CommandOutput {
        let folder = conclave().parent().expect("a folder").display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(self.node.system.folder.path())
            .env("PATH", format!("{folder}:{path}"))
            .env("TMPDIR", self.node.system.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        CommandOutput::of(command.spawn().expect("a shell")).await
    }

    /// The tasks of both lines give this output. Those of the JSON are added as the API does.
    async fn check(&self, form: MultipartBuilder, expected: &str) {
        let printed = self.print(form).await;
        let line = |name: &str| printed[name].as_str().expect("a line").to_string();
        let curl = self.shell(&line("curl")).await;
        let answer: Value = serde_json::from_slice(&curl.stdout).unwrap_or_else(|error| {
            panic!(
                "{error}: {}\n{}\n{}",
                line("curl"),
                String::from_utf8_lossy(&curl.stdout),
                curl.stderr
            )
        });
        assert_eq!(
            answer["result"]["execute"]["stdout"],
            expected,
            "{}\n{answer:#}",
            line("curl")
        );
        let cli = self.shell(&line("cli")).await;
        assert_eq!(
            String::from_utf8_lossy(&cli.stdout),
            expected,
            "{}\n{}",
            line("cli"),
            cli.stderr
        );
        if printed["note"].is_null() {
            let task: Value = serde_json::from_str(&line("json")).expect("JSON");
            let done = self.node.web.run(&task).await;
            assert_eq!(done["result"]["execute"]["stdout"], expected, "{done:#}");
        }
    }
}

fn form(fields: &[(&str, &str)]) -> MultipartBuilder {
    fields
        .iter()
        .fold(MultipartBuilder::default(), |form, (name, value)| {
            form.part(name, None, value.as_bytes())
        })
}

#[tokio::test]
async fn the_printed_lines_run_the_task_of_the_form() {
    let lines = PrintedLines {
        node: SingleNode::up(&[]),
    };
    let python = "import sys, os\nprint(sys.argv[1:], repr(sys.stdin.read()), os.environ.get('X'), '$HOME')\nEOF = 1\nEOF\n";
    lines
        .check(
            form(&[
                ("language", "python"),
                ("path", "main.py"),
                ("text", python),
                ("execute.args", "'a b' \"it's\" -x"),
                ("execute.env", "'X=$1 `'"),
                ("execute.input", "no line end"),
                ("execute.limits.wall", "20s"),
                ("execute.limits.processes", "10"),
                ("labels", "k='v w'"),
                ("group", "-g"),
                ("priority", "-1"),
            ]),
            "['a b', \"it's\", '-x'] 'no line end' $1 ` $HOME\n",
        )
        .await;
    // Many files, with names that a shell would expand, an executable and a binary one.
    lines
        .check(
            form(&[
                ("path", "run it.sh"),
                (
                    "text",
                    "#!/bin/sh\ncat 'sub/$x.txt' data/in.txt - && od -An -tx1 bin\n",
                ),
                ("executable", "true"),
                ("path", "sub/$x.txt"),
                ("text", ODD),
                ("path", "data/in.txt"),
                ("text", "\n"),
                ("path", "bin"),
                ("base64", "AP8="),
                ("compile.command", "test -x 'run it.sh'"),
                ("compile.limits.wall", "9s"),
                ("execute.command", "'./run it.sh'"),
                ("execute.input", &format!("{ODD}\n")),
                ("execute.limits.memory", "none"),
            ]),
            &format!("{ODD}\n{ODD}\n 00 ff\n"),
        )
        .await;
}

#[tokio::test]
async fn what_the_flags_cannot_describe_is_added_as_json() {
    let lines = PrintedLines {
        node: SingleNode::up(&[]),
    };
    let added = async |fields: &[(&str, &str)]| {
        let printed = lines.print(form(fields)).await;
        let added = lines.shell(printed["cli"].as_str().expect("a line")).await;
        let id = String::from_utf8_lossy(&added.stdout).trim().to_string();
        assert_eq!(added.code, 0, "{printed:#}\n{}", added.stderr);
        lines
            .node
            .web
            .get(&format!("/api/v1/tasks/{id}?wait=60"))
            .await
            .json()
    };
    // A limit of a compile step whose command is that of the language.
    let program = "int main(void) { return 7; }\n";
    let task = added(&[
        ("language", "c"),
        ("path", "main.c"),
        ("text", program),
        ("compile.limits.wall", "20s"),
    ])
    .await;
    assert_eq!(task["compile"]["limits"]["wall"], 20.0, "{task:#}");
    assert_eq!(task["result"]["execute"]["exit_code"], 7, "{task:#}");
    // A program without a name.
    let task = added(&[("language", "python"), ("path", ""), ("text", ODD)]).await;
    assert_eq!(task["source"]["main.py"], ODD, "{task:#}");
    // A content that is not in the form.
    let blob = crate::harness::sha256_hex("blob");
    let put = lines
        .node
        .web
        .request("PUT", &format!("/api/v1/blobs/{blob}"))
        .body("blob");
    assert_eq!(HttpResponse::of(put).await.status, 201);
    let task = added(&[("execute.command", "cat x"), ("path", "x"), ("blob", &blob)]).await;
    assert_eq!(task["result"]["execute"]["stdout"], "blob", "{task:#}");
}

#[tokio::test]
async fn attached_files_are_sent_by_curl_from_the_current_folder() {
    let lines = PrintedLines {
        node: SingleNode::up(&[]),
    };
    let name = "big \"1\".bin";
    std::fs::write(lines.node.system.folder.path().join(name), "attached\n").expect("a file");
    let printed = lines
        .print(form(&[("execute.command", "cat b*"), ("upload_name", name)]))
        .await;
    assert!(
        printed["note"].as_str().expect("a note").contains(name),
        "{printed:#}"
    );
    let curl = lines.shell(printed["curl"].as_str().expect("a line")).await;
    let answer: Value = serde_json::from_slice(&curl.stdout).expect("a task");
    assert_eq!(
        answer["result"]["execute"]["stdout"], "attached\n",
        "{printed:#}\n{answer:#}"
    );
    // Without scripts, the page shows the lines with the form.
    let page = HttpResponse::of(
        form(&[("execute.command", "echo '<b>'")]).request(&lines.node.web, "/run/commands"),
    )
    .await;
    let page = page.text();
    assert!(
        page.contains("curl --no-progress-meter") && page.contains("&lt;b&gt;"),
        "{page}"
    );
    assert!(page.contains("conclave run"), "{page}");
    let wrong = form(&[("execute.command", "x"), ("execute.limits.wall", "x")]);
    assert_eq!(
        HttpResponse::of(wrong.request(&lines.node.web, "/run/commands"))
            .await
            .status,
        422
    );
}
