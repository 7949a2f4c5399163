//! The command line as a person uses it: arguments in; output, words and exit code out.

use std::fmt;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use crate::conclave;

/// Runs `conclave` against one server.
pub struct Cli {
    server: String,
}

/// How a command ended, and all that it wrote.
pub struct Said {
    /// As a shell has it: 128 and the signal for one that was killed.
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Cli {
    pub fn new(server: &str) -> Cli {
        Cli {
            server: server.to_string(),
        }
    }

    /// The command, before it is started. Nothing of our own environment that conclave would read is passed on.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(conclave());
        Cli::prepare(&mut command);
        command.args(args).env("CONCLAVE_SERVER", &self.server);
        command
    }

    /// What every command needs that is asked something and gives an answer.
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

    pub async fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).spawn().expect("conclave starts")).await
    }

    /// The same, started in a folder.
    pub async fn run_in(&self, folder: &Path, args: &[&str]) -> Said {
        let mut command = self.command(args);
        Said::of(command.current_dir(folder).spawn().expect("conclave starts")).await
    }

    /// The same, with something to read.
    pub async fn feed(&self, args: &[&str], input: &[u8]) -> Said {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("conclave starts");
        let mut stdin = child.stdin.take().expect("a stdin");
        let input = input.to_vec();
        // Beside the reading: a command that answers before it has read all must not hang with us.
        tokio::spawn(async move {
            let _ = stdin.write_all(&input).await;
        });
        Said::of(child).await
    }

    /// What a command that must do well prints as JSON.
    pub async fn json(&self, args: &[&str]) -> Value {
        self.run(args).await.well().json()
    }
}

impl Said {
    pub async fn of(child: Child) -> Said {
        use std::os::unix::process::ExitStatusExt;
        let output = child.wait_with_output().await.expect("its output");
        let signal = || 128 + output.status.signal().unwrap_or_default();
        Said {
            code: output.status.code().unwrap_or_else(signal),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            stdout: output.stdout,
        }
    }

    /// It ended well, and had no reason to complain.
    pub fn well(self) -> Said {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{self:?}");
        self
    }

    /// It ended with this code and said these words.
    pub fn fails(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "no '{word}' in {self:?}");
        }
        assert!(!self.stderr.contains("panicked"), "{self:?}");
    }

    /// The word that follows this one on stderr, without the punctuation at its end.
    pub fn advised(&self, flag: &str) -> &str {
        let mut words = self.stderr.split_whitespace().skip_while(|word| *word != flag);
        let value = words.nth(1).unwrap_or_else(|| panic!("no {flag} in {self:?}"));
        value.trim_end_matches([',', ':', ';'])
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A list: one object on each line.
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

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Said { code, stdout, stderr } = self;
        let stdout = String::from_utf8_lossy(stdout);
        write!(f, "code {code}\n-- stdout\n{stdout}\n-- stderr\n{stderr}")
    }
}
