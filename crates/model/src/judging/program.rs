//! Judge programs: what their language and the operator's limits fill in, by the same rules as for a task.

use std::time::Duration;

use super::{JudgeProgram, Judging};
use crate::{
    AddTask, Capacity, InvalidField, LanguageTable, LimitPolicy, Limits, SourceClasses, TaskId, TaskSpec,
    UserName,
};

impl JudgeProgram {
    /// The program as if it were a task of its own, so that the same rules fill it in and bound it.
    pub fn as_task(&self, user: &UserName) -> AddTask {
        let mut spec = TaskSpec::new(user.clone(), self.execute.command.clone());
        spec.language = self.language.clone();
        spec.root = self.root.clone();
        spec.compile = self.compile.clone();
        spec.execute = self.execute.clone();
        spec.source = self.source.clone();
        AddTask {
            names_source_code: self.names_source_code(),
            ..AddTask::new(TaskId(uuid::Uuid::nil()), spec)
        }
    }

    /// Takes what was filled in for the task of [`JudgeProgram::as_task`].
    pub fn take_from(&mut self, spec: TaskSpec) {
        self.language = spec.language;
        self.root = spec.root;
        self.compile = spec.compile;
        self.execute = spec.execute;
        self.source = spec.source;
    }

    /// Whether the only source file is the lone one to which the language gives a name.
    fn names_source_code(&self) -> bool {
        self.language.is_some()
            && self
                .source
                .keys()
                .any(|path| path.as_str() == AddTask::SOURCE_CODE)
    }
}

impl Judging {
    /// Fills in what the program that judges leaves to its language, if there is one. May be repeated.
    pub fn fill_in_program(
        &mut self,
        languages: &LanguageTable,
        user: &UserName,
        classes: &SourceClasses,
    ) -> Result<(), InvalidField> {
        let field = self.program_field();
        let Some(program) = self.check.program_mut() else {
            return Ok(());
        };
        let mut task = program.as_task(user);
        let filled_in = languages.fill_in(&mut task, classes);
        filled_in.map_err(|invalid| invalid.within(field))?;
        program.take_from(task.spec);
        Ok(())
    }
}

impl LimitPolicy {
    /// Fills in the limits of the program that judges the task, if there is one. They are those of the operator with more
    /// memory: a program that judges holds a whole input, an answer and an output.
    pub fn apply_to_program(
        &self,
        spec: &mut TaskSpec,
        languages: &LanguageTable,
        capacity: &Capacity,
    ) -> Result<(), InvalidField> {
        let Some(judging) = &mut spec.judging else {
            return Ok(());
        };
        let field = judging.program_field();
        let Some(program) = judging.check.program_mut() else {
            return Ok(());
        };
        let policy = LimitPolicy {
            default: Limits {
                wall: self.default.wall.map(|wall| wall.max(MIN_DEFAULT_WALL)),
                memory: self.default.memory.map(|memory| memory.max(MIN_DEFAULT_MEMORY)),
                ..self.default
            },
            ..*self
        };
        let mut task = program.as_task(&spec.user).spec;
        let language = task.language.as_ref().and_then(|name| languages.get(name));
        let limits = language.map(|language| &language.limits);
        let applied = policy.apply(&mut task, limits, capacity);
        applied.map_err(|invalid| invalid.within(field))?;
        program.take_from(task);
        Ok(())
    }
}

/// The least default wall limit of a program that judges.
const MIN_DEFAULT_WALL: Duration = Duration::from_secs(60);
/// The least default memory of a program that judges.
const MIN_DEFAULT_MEMORY: u64 = 2 << 30;
