//! Programs in each language of the table that end in a known way, and the check that they do.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::RawHttpClient;

/// One line: some languages run a program for each line of their input.
const INPUT: &str = "Conclave\n";

/// Runs the test programs of languages on a system, in one of its roots.
pub struct LanguagePrograms<'a> {
    pub web: &'a RawHttpClient,
    /// `None` is the default root.
    pub root: Option<&'a str>,
}

/// A kind of test program, and how a task that runs it has to end.
struct ProgramCase {
    /// The name of the file, without its extension.
    program: &'static str,
    limits: Value,
    status: &'static str,
    reasons: &'static [&'static str],
}

impl LanguagePrograms<'_> {
    /// Runs the example of the language and all of its test programs. Returns a line for each that ended otherwise than it
    /// has to.
    pub async fn check(&self, language: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        let name = language["name"].as_str().unwrap_or_default();
        let example = language["example"].as_str().unwrap_or_default();
        let task = self.run(name, example, INPUT, json!({})).await;
        let stdout = &task["result"]["execute"]["stdout"];
        if task["status"] != "success" || *stdout != language["example_output"] {
            wrong.push(format!("{name} example: {}", end_of(&task)));
        }
        for case in cases() {
            let Some(path) = program(name, case.program) else {
                continue;
            };
            let source = fs::read_to_string(&path).unwrap_or_default();
            let task = self.run(name, &source, INPUT, case.limits).await;
            let last = ["execute", "compile"].map(|step| &task["result"][step]["reason"]);
            let reason = last.into_iter().find_map(Value::as_str).unwrap_or_default();
            if task["status"] != case.status || !case.reasons.contains(&reason) {
                let expected = format!("{} {:?}", case.status, case.reasons);
                wrong.push(format!(
                    "{name} {}: {}, expected {expected}",
                    case.program,
                    end_of(&task)
                ));
            }
        }
        wrong
    }

    async fn run(&self, language: &str, source: &str, input: &str, limits: Value) -> Value {
        let mut task = json!({
            "language": language,
            "source_code": source,
            "execute": {"input": input, "limits": limits},
        });
        if let Some(root) = self.root {
            task["root"] = json!(root);
        }
        self.web.run(&task).await
    }
}

fn cases() -> [ProgramCase; 5] {
    let case = |program, limits, status, reasons| ProgramCase {
        program,
        limits,
        status,
        reasons,
    };
    [
        case(
            "compile_error",
            json!({}),
            "compile_failed",
            &["exited", "signalled"],
        ),
        case("runtime_error", json!({}), "run_failed", &["exited", "signalled"]),
        case(
            "endless_loop",
            json!({"cpu": "1s"}),
            "run_failed",
            &["time_limit"],
        ),
        case(
            "memory_hog",
            json!({"memory": "256MiB"}),
            "run_failed",
            &["memory_limit"],
        ),
        case("two_threads", json!({}), "success", &["exited"]),
    ]
}

/// The file of the program; `None` if the language has none of this kind.
fn program(language: &str, program: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/languages")
        .join(language);
    let entries = fs::read_dir(folder)
        .ok()?
        .filter_map(Result::ok)
        .map(|entry| entry.path());
    let mut files = entries.filter(|path| path.file_stem().is_some_and(|stem| stem == program));
    files.next()
}

fn end_of(task: &Value) -> String {
    let part = |step: &str| {
        let outcome = &task["result"][step];
        let text = |stream: &str| {
            outcome[stream]
                .as_str()
                .unwrap_or_default()
                .chars()
                .take(300)
                .collect::<String>()
        };
        match outcome {
            Value::Null => String::new(),
            outcome => format!(
                "; {step}: {} exit {} stdout {:?} stderr {:?}",
                outcome["reason"],
                outcome["exit_code"],
                text("stdout"),
                text("stderr")
            ),
        }
    };
    format!(
        "{}{}{} {}",
        task["status"],
        part("compile"),
        part("execute"),
        task["trouble"]
    )
}
