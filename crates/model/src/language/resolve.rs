//! Fills in what a task with a language leaves out.

use super::Language;
use super::class_name::{MainClass, MainMethod, SourceClasses, main_class};
use crate::{
    AddTask, BlobHash, CompileStep, Content, InvalidField, Limits, StepCommand, TaskFile, TaskSpec,
    WorkspacePath,
};
use std::collections::BTreeMap;

/// The source files of a task, as a language's commands name them.
struct ProgramSource<'a> {
    language: &'a Language,
    classes: &'a SourceClasses,
    /// The file with which the program begins.
    main: &'a WorkspacePath,
    main_file: &'a TaskFile,
    /// All files in the language, the main one first.
    all: Vec<&'a WorkspacePath>,
}

impl Language {
    /// The blobs whose class decides what [`Language::fill_in`] does.
    pub fn blobs_to_read(&self, add: &AddTask) -> Vec<BlobHash> {
        let spec = &add.spec;
        let source_code = match add.names_source_code {
            true => spec
                .source
                .keys()
                .find(|path| path.as_str() == AddTask::SOURCE_CODE),
            false => None,
        };
        let decides = source_code.is_some() || self.takes_compile(spec) || takes_execute(spec);
        match self.has_class_name && decides {
            true => self
                .main_candidates(spec, source_code)
                .into_iter()
                .filter_map(|(_, file)| file.content.blob())
                .collect(),
            false => vec![],
        }
    }

    /// Fills in the name of the source file, the commands, variables and root that the request leaves out. What the task
    /// says itself is not changed. A source file that is a blob without a class in `classes` has the class of its name.
    pub fn fill_in(&self, add: &mut AddTask, classes: &SourceClasses) -> Result<(), InvalidField> {
        let source_code = self.name_source_code(add, classes)?;
        let spec = &mut add.spec;
        let takes_compile = self.takes_compile(spec);
        let takes_execute = takes_execute(spec);
        if takes_compile || takes_execute {
            let source = self.program_source(spec, source_code.as_ref(), classes)?;
            let compile = match (&self.compile, takes_compile) {
                (Some(line), true) => Some(source.expand(line)),
                (None, true) => {
                    let problem = format!(
                        "is missing, and {} has no compile step: give one, or leave out compile",
                        self.name
                    );
                    return Err(InvalidField::new("compile.command", problem));
                }
                (_, false) => None,
            };
            let execute = takes_execute.then(|| source.expand(&self.execute));
            if let Some(command) = compile {
                let step = spec.compile.get_or_insert_with(empty_compile_step);
                step.command = StepCommand::Shell(command);
            }
            if let Some(command) = execute {
                spec.execute.command = StepCommand::Shell(command);
            }
        }
        for env in spec
            .compile
            .iter_mut()
            .map(|step| &mut step.env)
            .chain([&mut spec.execute.env])
        {
            for (name, value) in &self.env {
                env.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        spec.language = Some(self.name.clone());
        if spec.root.is_none() {
            spec.root.clone_from(&self.root);
        }
        Ok(())
    }

    fn takes_compile(&self, spec: &TaskSpec) -> bool {
        match &spec.compile {
            Some(step) => step.command.is_of_language(),
            None => self.compile.is_some(),
        }
    }

    /// Stores the lone source file under the name that the language gives it, and returns that name.
    fn name_source_code(
        &self,
        add: &mut AddTask,
        classes: &SourceClasses,
    ) -> Result<Option<WorkspacePath>, InvalidField> {
        if !add.names_source_code {
            return Ok(None);
        }
        let source = &mut add.spec.source;
        let place = source
            .keys()
            .find(|path| path.as_str() == AddTask::SOURCE_CODE)
            .cloned();
        let Some(file) = place.and_then(|place| source.remove(&place)) else {
            return Err(InvalidField::new("source_code", "is missing"));
        };
        let path = match self.class_of(&file, classes) {
            Some(class) => WorkspacePath::new(format!("{}.{}", class.file_stem, self.main_extension()))
                .map_err(|error| {
                    InvalidField::new("source_code", format!("has a class name that {error}"))
                })?,
            None => self.source_name.clone(),
        };
        if source.contains_key(&path) {
            let problem = format!("is stored as {path}, which source has as well; leave one of them out");
            return Err(InvalidField::new("source_code", problem));
        }
        source.insert(path.clone(), file);
        add.names_source_code = false;
        Ok(Some(path))
    }

    fn class_of(&self, file: &TaskFile, classes: &SourceClasses) -> Option<MainClass> {
        match &file.content {
            _ if !self.has_class_name => None,
            Content::Inline(bytes) => main_class(&String::from_utf8_lossy(bytes)),
            Content::Blob(hash) => classes.get(*hash).cloned(),
        }
    }

    fn main_extension(&self) -> &str {
        let name = self.source_name.as_str();
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    fn is_source(&self, path: &WorkspacePath) -> bool {
        let extension = path.as_str().rsplit_once('.').map(|(_, extension)| extension);
        extension.is_some_and(|extension| self.extensions.iter().any(|own| own == extension))
    }

    /// The files of which one is the main one; `source_code` is the lone source file, if the task has one.
    fn main_candidates<'a>(
        &self,
        spec: &'a TaskSpec,
        source_code: Option<&WorkspacePath>,
    ) -> Vec<(&'a WorkspacePath, &'a TaskFile)> {
        let source = &spec.source;
        let named = source_code.and_then(|path| source.get_key_value(path));
        if let Some(named) = named.or_else(|| source.get_key_value(&self.source_name)) {
            return vec![named];
        }
        let candidates: Vec<_> = source.iter().filter(|(path, _)| self.is_source(path)).collect();
        match candidates.is_empty() && source.len() == 1 {
            // A program may be in a file without an extension.
            true => source.iter().collect(),
            false => candidates,
        }
    }

    fn program_source<'a>(
        &'a self,
        spec: &'a TaskSpec,
        source_code: Option<&WorkspacePath>,
        classes: &'a SourceClasses,
    ) -> Result<ProgramSource<'a>, InvalidField> {
        let candidates = self.main_candidates(spec, source_code);
        let with_main = |least: MainMethod| {
            let has_main = |(_, file): &&(&WorkspacePath, &TaskFile)| {
                self.class_of(file, classes)
                    .is_some_and(|class| class.main >= least)
            };
            let mut found = candidates.iter().filter(has_main);
            match (found.next(), found.next()) {
                (Some(found), None) => Some(*found),
                _ => None,
            }
        };
        let main = match candidates.as_slice() {
            [only] => Some(*only),
            _ => with_main(MainMethod::Static).or_else(|| with_main(MainMethod::Other)),
        };
        let Some((main, main_file)) = main else {
            let problem = match spec.source.is_empty() {
                true => format!(
                    "has no file: give the program as source_code, or as {} in source",
                    self.source_name
                ),
                false => format!(
                    "has no file {name} and not just one .{extension} file: name the main one {name}, or give the commands",
                    name = self.source_name,
                    extension = self.main_extension(),
                ),
            };
            return Err(InvalidField::new("source", problem));
        };
        let others = spec
            .source
            .keys()
            .filter(|path| self.is_source(path) && *path != main);
        Ok(ProgramSource {
            language: self,
            classes,
            main,
            main_file,
            all: std::iter::once(main).chain(others).collect(),
        })
    }
}

impl ProgramSource<'_> {
    /// Replaces the placeholders of a command.
    fn expand(&self, line: &str) -> String {
        let main = self.main.as_str();
        let stem = main.rsplit_once('.').map_or(main, |(stem, _)| stem);
        let mut expanded = String::with_capacity(line.len() + main.len());
        let mut rest = line;
        while let Some(start) = rest.find('{') {
            let (before, from) = rest.split_at(start);
            expanded.push_str(before);
            let values = [("{source}", quote(main)), ("{stem}", quote(stem))];
            let value = values
                .into_iter()
                .find(|(placeholder, _)| from.starts_with(placeholder));
            let (placeholder, value) = if let Some((placeholder, value)) = value {
                (placeholder, value)
            } else if from.starts_with("{sources}") {
                let all: Vec<_> = self.all.iter().map(|path| quote(path.as_str())).collect();
                ("{sources}", all.join(" "))
            } else if from.starts_with("{class}") {
                ("{class}", quote(&self.class(stem)))
            } else {
                ("{", "{".to_string())
            };
            expanded.push_str(&value);
            rest = &from[placeholder.len()..];
        }
        expanded.push_str(rest);
        expanded
    }

    /// The class of the main file. A file whose content is not at hand is taken to have the class of its name.
    fn class(&self, stem: &str) -> String {
        let class = self.language.class_of(self.main_file, self.classes);
        class.map_or_else(|| stem.replace('/', "."), |class| class.name)
    }
}

fn takes_execute(spec: &TaskSpec) -> bool {
    spec.execute.command.is_of_language()
}

fn empty_compile_step() -> CompileStep {
    CompileStep {
        command: StepCommand::of_language(),
        env: BTreeMap::new(),
        network: None,
        limits: Limits::default(),
    }
}

/// Quotes a word for the shell, if it needs that. A path that begins with a dash would be taken for an option.
fn quote(word: &str) -> String {
    let word = match word.starts_with('-') {
        true => format!("./{word}"),
        false => word.to_string(),
    };
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ',' | '@' | '%');
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests;
