//! A row of the language table in TOML.

use std::collections::BTreeMap;

use api::Limits;
use model::{Language, LanguageExample, LanguageLimits, LanguageName, RootName, WorkspacePath};
use serde::Deserialize;

/// A row of the language table as the TOML file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LanguageRow {
    #[serde(default = "yes")]
    enabled: bool,
    title: String,
    compiler: Option<String>,
    #[serde(default)]
    aliases: Vec<String>,
    extensions: Option<Vec<String>>,
    source: String,
    /// Empty for no compile step, so that a file can remove that of a built-in row.
    compile: Option<String>,
    execute: String,
    programs: Vec<String>,
    version: Option<String>,
    #[serde(default)]
    packages: Vec<String>,
    root: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    class_name: Option<String>,
    time_factor: Option<f64>,
    memory_factor: Option<f64>,
    #[serde(default)]
    compile_limits: Limits,
    #[serde(default)]
    execute_limits: Limits,
    #[serde(default)]
    example: String,
    example_output: Option<String>,
}

fn yes() -> bool {
    true
}

impl LanguageRow {
    /// The language and its Debian packages, or what is wrong with the row. `None` if it is disabled.
    pub(crate) fn into_language(self, name: &str) -> Result<Option<(Language, Vec<String>)>, String> {
        if !self.enabled {
            return Ok(None);
        }
        let in_field = |field: &str, problem: &dyn std::fmt::Display| format!("{field}: {problem}");
        let source_name = WorkspacePath::new(self.source).map_err(|error| in_field("source", &error))?;
        let extension = source_name
            .as_str()
            .rsplit_once('.')
            .map(|(_, extension)| extension.to_string());
        let aliases = self.aliases.into_iter().map(LanguageName::new);
        let compile = self.compile.filter(|command| !command.trim().is_empty());
        let has_class_name = match self.class_name.as_deref() {
            None => false,
            Some("java") => true,
            Some(_) => return Err("class_name: may only be \"java\"".into()),
        };
        if !has_class_name {
            for (field, command) in [
                ("compile", compile.as_deref()),
                ("execute", Some(self.execute.as_str())),
            ] {
                if command.is_some_and(|command| command.contains("{class}")) {
                    return Err(format!("{{class}} in {field} needs class_name = \"java\""));
                }
            }
        }
        if self.execute.trim().is_empty() {
            return Err("execute: is empty; give the command that runs the program".into());
        }
        if let Some(program) = self.programs.iter().find(|program| !is_program(program)) {
            return Err(format!(
                "programs: '{program}' is not the name or path of a program"
            ));
        }
        let language = Language {
            name: LanguageName::new(name).map_err(|error| error.to_string())?,
            compiler: self.compiler.unwrap_or_else(|| self.title.clone()),
            title: self.title,
            aliases: aliases
                .collect::<Result<_, _>>()
                .map_err(|error| in_field("aliases", &error))?,
            extensions: self.extensions.unwrap_or_else(|| extension.into_iter().collect()),
            source_name,
            compile,
            execute: self.execute,
            programs: self.programs,
            version: self.version.filter(|command| !command.trim().is_empty()),
            root: self
                .root
                .map(RootName::new)
                .transpose()
                .map_err(|error| in_field("root", &error))?,
            env: self.env,
            has_class_name,
            limits: LanguageLimits {
                time_factor: factor("time_factor", self.time_factor)?,
                memory_factor: factor("memory_factor", self.memory_factor)?,
                compile: self.compile_limits.into(),
                execute: self.execute_limits.into(),
            },
            example: LanguageExample {
                source: self.example,
                output: self
                    .example_output
                    .unwrap_or_else(|| LanguageExample::USUAL_OUTPUT.to_string()),
            },
        };
        Ok(Some((language, self.packages)))
    }
}

fn factor(field: &str, factor: Option<f64>) -> Result<f64, String> {
    let factor = factor.unwrap_or(1.0);
    match (0.01..=100.0).contains(&factor) {
        true => Ok(factor),
        false => Err(format!("{field}: must be from 0.01 to 100, this one is {factor}")),
    }
}

/// Executors look for the programs by a shell line.
fn is_program(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+' | '-' | '/');
    !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
}
