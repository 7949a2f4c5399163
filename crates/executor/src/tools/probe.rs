//! Runs commands that look for languages, in cells like those of tasks.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::{Language, LanguageName};
use sandbox::{
    CapturedStream, CommandEndReason, CommandInput, CommandIsolation, CommandLimits, CommandOutcome,
    CommandSpec, Warden, WardenControl, WardenError, WardenLaunchError, WardenLauncher,
};
use thiserror::Error;

use crate::cell_roots::{CellRootError, HeldRoot};
use crate::now;
use crate::run::default_environment;

/// One shell line looks for all programs, which takes milliseconds.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(30);
/// A compiler on the Java virtual machine takes seconds to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the search for the versions of a root's languages goes on. The rest is left to the next search.
const VERSIONS_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_OUTPUT: u64 = 64 << 10;
const MAX_VERSION: usize = 32;

/// Looks for languages in one root of this executor, with a warden that it starts and ends.
pub(crate) struct LanguageProbe {
    pub(crate) launcher: WardenLauncher,
    /// The shell of the root.
    pub(crate) shell: &'static str,
    /// Keeps the files of a named root.
    pub(crate) _root: Option<HeldRoot>,
}

/// Ends a probe from another thread.
#[derive(Default)]
pub(crate) struct ProbeStop(Mutex<ProbeState>);

/// Whether a probe has to stop, and the warden that it uses.
#[derive(Default)]
struct ProbeState {
    is_stopped: bool,
    warden: Option<WardenControl>,
}

/// Why an executor could not look for languages.
#[derive(Debug, Error)]
pub(crate) enum ProbeError {
    #[error("the executor stops")]
    Stopped,
    #[error(transparent)]
    Root(#[from] CellRootError),
    #[error("could not start a warden")]
    Launch(#[from] WardenLaunchError),
    #[error("could not run a command")]
    Warden(#[from] WardenError),
    #[error("the shell that looks for programs ended with {reason:?}: {stderr}")]
    Search {
        reason: CommandEndReason,
        stderr: String,
    },
    #[error("the search panicked")]
    Panicked,
}

impl ProbeError {
    /// Whether no warden can start in the root, so that no task can run there.
    pub(crate) fn is_about_root(&self) -> bool {
        matches!(self, ProbeError::Root(_) | ProbeError::Launch(_))
    }
}

impl ProbeStop {
    pub(crate) fn stop(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_stopped = true;
        if let Some(warden) = &state.warden {
            // An error means that it has ended.
            let _ = warden.kill_warden();
        }
    }

    fn is_stopped(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_stopped
    }

    /// Makes the warden the one that a stop kills. Returns false after a stop.
    fn watch(&self, warden: &Warden) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.warden = Some(warden.control());
        !state.is_stopped
    }
}

impl LanguageProbe {
    /// The languages whose programs are all there.
    pub(crate) fn installed(
        &self,
        languages: &[Language],
        stop: &ProbeStop,
    ) -> Result<Vec<LanguageName>, ProbeError> {
        let mut warden = self.start(stop)?;
        let outcome = self.run(&mut warden, &search_line(languages), SEARCH_TIMEOUT, stop)?;
        if outcome.reason != CommandEndReason::Exited {
            return Err(ProbeError::Search {
                reason: outcome.reason,
                stderr: text(&outcome.stderr),
            });
        }
        let found = text(&outcome.stdout);
        let is_found = |language: &&Language| found.lines().any(|line| line == language.name.as_str());
        Ok(languages
            .iter()
            .filter(is_found)
            .map(|language| language.name.clone())
            .collect())
    }

    /// The version of each language, as far as its version command prints one. The languages that are left when the time is up
    /// are missing in the result.
    pub(crate) fn versions(
        &self,
        languages: &[Language],
        stop: &ProbeStop,
    ) -> Result<Vec<(LanguageName, Option<String>)>, ProbeError> {
        let mut warden = self.start(stop)?;
        let mut versions = Vec::new();
        let deadline = now() + VERSIONS_TIMEOUT;
        for language in languages {
            if now() >= deadline {
                break;
            }
            let version = match &language.version {
                None => None,
                Some(command) => match self.run(&mut warden, command, VERSION_TIMEOUT, stop) {
                    Ok(outcome) => {
                        version_in(&text(&outcome.stdout)).or_else(|| version_in(&text(&outcome.stderr)))
                    }
                    Err(ProbeError::Warden(error)) if !error.is_warden_lost() => {
                        let why = error_causes::with_causes(&error);
                        tracing::debug!(language = %language.name, why, "could not run a version command");
                        None
                    }
                    // The command has killed the warden, or nearly so. What was found before it counts.
                    Err(ProbeError::Warden(error)) => {
                        let why = error_causes::with_causes(&error);
                        tracing::warn!(language = %language.name, why, "a version command has ended its warden");
                        versions.push((language.name.clone(), None));
                        break;
                    }
                    Err(error) => return Err(error),
                },
            };
            versions.push((language.name.clone(), version));
        }
        Ok(versions)
    }

    fn start(&self, stop: &ProbeStop) -> Result<Warden, ProbeError> {
        let warden = self.launcher.start()?;
        match stop.watch(&warden) {
            true => Ok(warden),
            false => Err(ProbeError::Stopped),
        }
    }

    fn run(
        &self,
        warden: &mut Warden,
        line: &str,
        timeout: Duration,
        stop: &ProbeStop,
    ) -> Result<CommandOutcome, ProbeError> {
        let (directory, temporary): (PathBuf, PathBuf) = match self.launcher.isolation {
            CommandIsolation::Cell(_) => (sandbox::WORKSPACE.into(), "/tmp".into()),
            CommandIsolation::None => (std::env::temp_dir(), std::env::temp_dir()),
        };
        let spec = CommandSpec {
            argv: vec![self.shell.into(), "-c".into(), line.into()],
            env: default_environment(&directory, &temporary),
            directory,
            input: CommandInput::Bytes(Vec::new()),
            limits: CommandLimits {
                wall: Some(timeout),
                output: Some(MAX_OUTPUT),
                ..CommandLimits::default()
            },
            max_captured_bytes: MAX_OUTPUT,
            network: None,
        };
        let run_handle = warden.new_run();
        // Each command gets an empty workspace.
        let outcome = warden.run_last(&run_handle, &spec);
        match stop.is_stopped() {
            true => Err(ProbeError::Stopped),
            false => Ok(outcome?),
        }
    }
}

/// A shell line that prints the name of each language whose programs it finds. Names and programs have no character that
/// the shell interprets.
fn search_line(languages: &[Language]) -> String {
    let mut line = String::new();
    for language in languages {
        for program in &language.programs {
            line.push_str("command -v '");
            line.push_str(program);
            line.push_str("' >/dev/null && ");
        }
        line.push_str("echo '");
        line.push_str(language.name.as_str());
        line.push_str("'\n");
    }
    // The last language may be missing.
    line.push_str("true\n");
    line
}

fn text(stream: &CapturedStream) -> String {
    String::from_utf8_lossy(&stream.head).into_owned()
}

/// The first number with a dot in it: `12.2.0` in `g++ (Debian 12.2.0-14) 12.2.0`.
fn version_in(text: &str) -> Option<String> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let words = text
        .split(|c: char| !is_number(c))
        .map(|word| word.trim_matches('.'));
    let mut versions = words.filter(|word| word.contains('.') && word.len() <= MAX_VERSION);
    versions.next().map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_first_number_with_a_dot() {
        for (text, expected) in [
            ("g++ (Debian 12.2.0-14+deb12u1) 12.2.0", Some("12.2.0")),
            ("Python 3.11.2\n", Some("3.11.2")),
            ("openjdk 17.0.9 2023-10-17", Some("17.0.9")),
            ("go version go1.19.8 linux/amd64", Some("1.19.8")),
            ("v18.19.0", Some("18.19.0")),
            (
                "This is perl 5, version 36, subversion 0 (v5.36.0)",
                Some("5.36.0"),
            ),
            ("version 1.", None),
            ("... 7 ...", None),
            ("", None),
        ] {
            assert_eq!(version_in(text).as_deref(), expected, "{text}");
        }
    }
}
