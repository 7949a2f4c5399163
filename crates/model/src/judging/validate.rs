//! Validates the cases and the check of a new task. Errors name the place as the caller spells it.

use std::collections::HashSet;

use super::{Case, Check, JudgeProgram, Judging};
use crate::validate::{TaskSizeLimits, check_args, check_collisions, check_limits};
use crate::{Content, InvalidField, JudgeProblem, LimitPolicy, Points, TaskSpec, UserName};

impl TaskSpec {
    pub(crate) fn check_judging(&self, bounds: &TaskSizeLimits) -> Result<(), InvalidField> {
        if self.judging.is_none() && self.problem.is_none() {
            return Ok(());
        }
        // The cases of a stored task with a problem are those of the problem.
        let own_cases = self.judging.as_ref().filter(|judging| judging.problem.is_none());
        if self.problem.is_some() && own_cases.is_some() {
            let problem =
                "cannot be used with cases or a check of the task's own; leave it out, or leave those out";
            return Err(InvalidField::new("problem", problem));
        }
        if !self.keep.is_empty() {
            let problem = "cannot be used with cases: each case has a workspace of its own; leave it out";
            return Err(InvalidField::new("keep", problem));
        }
        if self.execute.input != Content::empty() {
            let problem = "cannot be used with cases: each case has an input of its own; leave it out";
            return Err(InvalidField::new("execute.input", problem));
        }
        // A program with a network could fetch the answers.
        if self.execute.network.is_some() {
            let problem = "cannot be used with cases: programs that are judged have no network; leave it out";
            return Err(InvalidField::new("execute.network", problem));
        }
        let compile_network = self.compile.iter().find_map(|step| step.network.as_ref());
        if self.problem.is_some() && compile_network.is_some() {
            let problem =
                "cannot be used with a problem: programs that are judged have no network; leave it out";
            return Err(InvalidField::new("compile.network", problem));
        }
        match &self.judging {
            Some(judging) => judging.check(bounds, &self.user),
            None => Ok(()),
        }
    }

    /// Fills in what the problem of the task decides. Refuses limits that the problem sets.
    pub fn take_problem(&mut self, problem: &JudgeProblem) -> Result<(), InvalidField> {
        let own = self.execute.limits;
        let set = problem.limits;
        let conflicts = [
            ("wall", own.wall.is_some() && set.wall.is_some()),
            ("cpu", own.cpu.is_some() && set.cpu.is_some()),
            ("memory", own.memory.is_some() && set.memory.is_some()),
            ("output", own.output.is_some() && set.output.is_some()),
            ("processes", own.processes.is_some() && set.processes.is_some()),
            ("file_size", own.file_size.is_some() && set.file_size.is_some()),
            ("open_files", own.open_files.is_some() && set.open_files.is_some()),
            ("stack", own.stack.is_some() && set.stack.is_some()),
            ("space", own.space.is_some() && set.space.is_some()),
        ];
        if let Some((name, _)) = conflicts.into_iter().find(|(_, conflicts)| *conflicts) {
            let field = format!("execute.limits.{name}");
            let why = format!("is set by the problem '{}'; leave it out", problem.name);
            return Err(InvalidField::new(field, why));
        }
        let label = self.labels.iter().find(|(key, _)| *key == JudgeProblem::LABEL);
        if label.is_some_and(|(_, value)| value != problem.name.as_str()) {
            let why = format!(
                "must be '{}' or left out, because it names the problem of the task",
                problem.name
            );
            return Err(InvalidField::new(format!("labels.{}", JudgeProblem::LABEL), why));
        }
        let mut labels: std::collections::BTreeMap<_, _> = self
            .labels
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect();
        labels.insert(JudgeProblem::LABEL.into(), problem.name.to_string());
        self.labels = crate::Labels::new(labels)?;
        self.execute.limits = own.or(set);
        let mut judging = problem.judging.clone();
        judging.problem = Some(problem.reference());
        self.judging = Some(judging);
        Ok(())
    }
}

impl JudgeProblem {
    pub fn check(&self, bounds: &TaskSizeLimits) -> Result<(), InvalidField> {
        check_limits("limits", &self.limits)?;
        self.judging.check(bounds, &self.owner)
    }
}

impl Judging {
    fn check(&self, bounds: &TaskSizeLimits, user: &UserName) -> Result<(), InvalidField> {
        if self.cases.is_empty() {
            return Err(InvalidField::new("cases", "is empty; give at least one case"));
        }
        if self.cases.len() > Judging::MAX_CASES {
            return Err(InvalidField::over_limit(
                "cases",
                "has too many cases; divide them among tasks",
                Judging::MAX_CASES,
                self.cases.len(),
            ));
        }
        let mut names = HashSet::new();
        for (index, case) in self.cases.iter().enumerate() {
            let in_case = |invalid: InvalidField| invalid.within(&format!("cases[{index}]"));
            if !names.insert(&case.name) {
                let problem = format!(
                    "'{}' is the name of an earlier case; names must differ",
                    case.name
                );
                return Err(in_case(InvalidField::new("name", problem)));
            }
            if self.check.needs_answer() && case.answer.is_none() {
                let problem = format!(
                    "is missing in the case '{}', and the check compares the output with it; give an answer, or another check",
                    case.name
                );
                return Err(in_case(InvalidField::new("answer", problem)));
            }
            case.check(bounds).map_err(in_case)?;
        }
        for name in self.groups.keys() {
            if !self.cases.iter().any(|case| case.group.as_ref() == Some(name)) {
                let problem = "is not the group of any case; name it in a case, or leave it out";
                return Err(InvalidField::new(format!("groups.{name}"), problem));
            }
        }
        match (&self.check, self.check.program()) {
            (_, None) => Ok(()),
            (Check::Interactive(_), Some(program)) => program
                .check(bounds, user)
                .map_err(|invalid| invalid.within("interact")),
            (_, Some(program)) => program
                .check(bounds, user)
                .map_err(|invalid| invalid.within("check")),
        }
    }

    /// The name that a request gives to the program that judges.
    pub fn program_field(&self) -> &'static str {
        match self.check {
            Check::Interactive(_) => "interact",
            _ => "check",
        }
    }
}

impl Case {
    fn check(&self, bounds: &TaskSizeLimits) -> Result<(), InvalidField> {
        check_limits("limits", &self.limits)?;
        // Checked again with the operator's maxima, but a problem is stored before any task has them.
        LimitPolicy::default()
            .refuse_nothing(&self.limits)
            .map_err(|invalid| invalid.within("limits"))?;
        check_args("args", &self.args, bounds)?;
        if self.files.len() > bounds.files {
            return Err(InvalidField::over_limit(
                "files",
                "has too many files",
                bounds.files,
                self.files.len(),
            ));
        }
        check_collisions("files", &self.files.keys().cloned().collect())?;
        match self.points > Points::MAX {
            true => Err(InvalidField::over_limit(
                "points",
                "is too much",
                Points::MAX,
                self.points,
            )),
            false => Ok(()),
        }
    }
}

impl JudgeProgram {
    fn check(&self, bounds: &TaskSizeLimits, user: &UserName) -> Result<(), InvalidField> {
        self.as_task(user).spec.check(bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        CaseName, ExecuteStep, JudgeProtocol, Limits, StepCommand, StopRule, TaskFile, TaskFiles,
        WorkspacePath,
    };

    fn files(paths: &[&str]) -> TaskFiles {
        let file = |path: &&str| {
            let file = TaskFile {
                content: Content::empty(),
                executable: false,
            };
            (WorkspacePath::new(*path).unwrap(), file)
        };
        paths.iter().map(file).collect()
    }

    /// A task with two cases and a checker.
    fn judged_task() -> TaskSpec {
        let case = |name: &str| Case {
            name: CaseName::new(name).unwrap(),
            input: Content::empty(),
            answer: None,
            args: vec![],
            files: TaskFiles::new(),
            points: Points::ONE,
            group: None,
            limits: Limits::default(),
            is_sample: false,
        };
        let user = UserName::new("ada").unwrap();
        let command = StepCommand::Shell("./run".into());
        let mut spec = TaskSpec::new(user, command.clone());
        let program = JudgeProgram {
            protocol: JudgeProtocol::Icpc,
            language: None,
            root: None,
            source: TaskFiles::new(),
            compile: None,
            execute: ExecuteStep {
                command,
                ..spec.execute.clone()
            },
        };
        spec.judging = Some(Judging {
            cases: vec![case("1"), case("2")],
            check: Check::Program(program),
            stop: StopRule::Never,
            groups: [].into(),
            problem: None,
        });
        spec
    }

    /// No workspace can have both files, so no executor could run the task.
    #[test]
    fn a_file_must_not_be_the_folder_of_another_one() {
        let check =
            |change: fn(&mut TaskSpec, &mut Judging, TaskFiles), paths: &[&str], expected: Option<&str>| {
                let mut spec = judged_task();
                let mut judging = spec.judging.take().unwrap();
                change(&mut spec, &mut judging, files(paths));
                spec.judging = Some(judging);
                let found = spec.check(&TaskSizeLimits::default()).err();
                let field = found.as_ref().map(|invalid| invalid.field.as_str());
                assert_eq!(field, expected, "{paths:?}: {found:?}");
            };
        let of_case = |_: &mut TaskSpec, judging: &mut Judging, files| judging.cases[1].files = files;
        check(of_case, &["a/b", "a/c", "a-b"], None);
        check(of_case, &["a", "a/b"], Some("cases[1].files"));
        check(of_case, &["a/b", "a-b", "a/b/c/d"], Some("cases[1].files"));
        let of_program = |_: &mut TaskSpec, judging: &mut Judging, files| {
            if let Check::Program(program) = &mut judging.check {
                program.source = files;
            }
        };
        check(of_program, &["a/b", "c"], None);
        check(of_program, &["a", "a/b"], Some("check.source"));
        // The files of a case replace what is in their way.
        let of_task_and_case = |spec: &mut TaskSpec, judging: &mut Judging, source: TaskFiles| {
            let beneath = |path: &WorkspacePath| path.beneath("x").unwrap();
            judging.cases[0].files = source
                .iter()
                .map(|(path, file)| (beneath(path), file.clone()))
                .collect();
            spec.source = [(
                WorkspacePath::new("x").unwrap(),
                source.values().next().unwrap().clone(),
            )]
            .into();
        };
        check(of_task_and_case, &["a"], None);
    }
}
