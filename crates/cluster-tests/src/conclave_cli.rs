//! Runs `conclave` commands as a user does, and captures exit code and output.

use std::fmt;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use crate::conclave;

/// Runs `conclave` commands against one gateway in a test, as a user does.
pub struct ConclaveCli {
    server: String,
}

/// The exit code and captured output of a command that a test ran.
pub struct CommandOutput {
    /// As in a shell: 128 + N for a command that signal N ended.
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl ConclaveCli {
    pub fn new(server: &str) -> ConclaveCli {
        ConclaveCli {
            server: server.to_string(),
        }
    }

    /// The command, not yet started. `CONCLAVE_*` variables of the test's environment are removed.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(conclave());
        ConclaveCli::prepare(&mut command);
        command.args(args).env("CONCLAVE_SERVER", &self.server);
        command
    }

    /// Captures output and removes `CONCLAVE_*` variables from the environment.
    pub(crate) fn prepare(command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CONCLAVE_") {
                command.env_remove(name);
            }
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
    }

    pub async fn run(&self, args: &[&str]) -> CommandOutput {
        CommandOutput::of(self.command(args).spawn().expect("conclave starts")).await
    }

    /// As `run`, in this working directory.
    pub async fn run_in(&self, folder: &Path, args: &[&str]) -> CommandOutput {
        let mut command = self.command(args);
        CommandOutput::of(command.current_dir(folder).spawn().expect("conclave starts")).await
    }

    /// As `run`, with this standard input.
    pub async fn run_with_input(&self, args: &[&str], input: &[u8]) -> CommandOutput {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("conclave starts");
        let mut stdin = child.stdin.take().expect("a stdin");
        let input = input.to_vec();
        // Written concurrently: a command that exits before it has read everything must not block the test.
        tokio::spawn(async move {
            let _ = stdin.write_all(&input).await;
        });
        CommandOutput::of(child).await
    }

    /// Runs a command that must succeed, and parses its output as JSON.
    pub async fn json(&self, args: &[&str]) -> Value {
        self.run(args).await.assert_success().json()
    }
}

impl CommandOutput {
    pub async fn of(child: Child) -> CommandOutput {
        use std::os::unix::process::ExitStatusExt;
        let output = child.wait_with_output().await.expect("its output");
        let signal = || 128 + output.status.signal().unwrap_or_default();
        CommandOutput {
            code: output.status.code().unwrap_or_else(signal),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            stdout: output.stdout,
        }
    }

    /// Asserts exit code 0 and an empty stderr.
    pub fn assert_success(self) -> CommandOutput {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{self:?}");
        self
    }

    /// Asserts the exit code, and that stderr contains each of these texts.
    pub fn assert_failure(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "no '{word}' in {self:?}");
        }
        assert!(!self.stderr.contains("panicked"), "{self:?}");
    }

    /// The value after this flag in a command that stderr suggests, without trailing punctuation.
    pub fn flag_value_on_stderr(&self, flag: &str) -> &str {
        let mut words = self.stderr.split_whitespace().skip_while(|word| *word != flag);
        let value = words.nth(1).unwrap_or_else(|| panic!("no {flag} in {self:?}"));
        value.trim_end_matches([',', ':', ';'])
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The output as JSON Lines: one value for each line.
    pub fn json_lines(&self) -> Vec<Value> {
        let lines = self.text().lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {self:?}")))
            .collect()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl fmt::Debug for CommandOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CommandOutput { code, stdout, stderr } = self;
        let stdout = String::from_utf8_lossy(stdout);
        write!(f, "code {code}\n-- stdout\n{stdout}\n-- stderr\n{stderr}")
    }
}
