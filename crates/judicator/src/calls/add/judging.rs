//! What a task that is judged takes from its problem, and whether an executor may run it.

use std::borrow::Cow;
use std::collections::HashMap;

use model::{AddTask, InvalidField, JudgeProblem, ProblemName, TaskSpec};
use rpc::CallError;

use super::CheckedRequirements;
use crate::Judicator;
use crate::error::call_error;

/// The problems that the tasks of a request to add name.
pub(super) struct RequestedProblems(HashMap<ProblemName, Option<JudgeProblem>>);

/// The tasks of a request are held together in memory, each with its cases, and are added in one transaction.
const MAX_CASES_PER_REQUEST: usize = 100_000;

impl RequestedProblems {
    /// Refuses tasks that have too many cases together, those of their problems among them.
    pub(super) fn check_number_of_cases(&self, adds: &[AddTask]) -> Result<(), InvalidField> {
        let judging = |add: &'_ AddTask| -> usize {
            let problem = add
                .spec
                .problem
                .as_ref()
                .and_then(|name| self.0.get(name)?.as_ref());
            let judging = problem
                .map(|problem| &problem.judging)
                .or(add.spec.judging.as_ref());
            judging.map_or(0, |judging| judging.cases.len())
        };
        let cases: usize = adds.iter().map(judging).sum();
        match cases > MAX_CASES_PER_REQUEST {
            true => Err(InvalidField::over_limit(
                "tasks",
                "have too many cases together; add fewer of these tasks at once",
                MAX_CASES_PER_REQUEST,
                cases,
            )),
            false => Ok(()),
        }
    }

    /// Fills in what the problem of the task decides, if it has one.
    pub(super) fn fill_in(&self, spec: &mut TaskSpec) -> Result<(), InvalidField> {
        let Some(name) = &spec.problem else {
            // Only a problem makes the cases of a task those of another user.
            return match spec.judging.as_ref().and_then(|judging| judging.problem.as_ref()) {
                Some(_) => Err(InvalidField::new(
                    "problem",
                    "is missing, and the cases are said to be those of a problem; name it, and leave out the cases",
                )),
                None => Ok(()),
            };
        };
        match self.0.get(name).and_then(Option::as_ref) {
            Some(problem) => spec.take_problem(problem),
            None => Err(InvalidField::new(
                "problem",
                format!("'{name}' does not exist; `conclave problem list` shows those that do"),
            )),
        }
    }
}

/// The tasks and the programs that judge them, as if each program were a task of its own.
pub(super) fn programs(adds: &[AddTask]) -> impl Iterator<Item = Cow<'_, AddTask>> {
    adds.iter().flat_map(|add| {
        let judging = add.spec.judging.as_ref();
        let program = judging.and_then(|judging| judging.check.program());
        let program = program.map(|program| Cow::Owned(program.as_task(&add.spec.user)));
        [Cow::Borrowed(add)].into_iter().chain(program)
    })
}

impl Judicator {
    /// Reads each problem once.
    pub(super) async fn read_problems(&self, adds: &[AddTask]) -> Result<RequestedProblems, CallError> {
        let mut problems = HashMap::new();
        for name in adds.iter().filter_map(|add| add.spec.problem.as_ref()) {
            if !problems.contains_key(name) {
                let problem = self.store.problem(name.clone()).await.map_err(call_error)?;
                problems.insert(name.clone(), problem);
            }
        }
        Ok(RequestedProblems(problems))
    }

    /// Refuses a task with cases if no live executor runs such tasks.
    pub(super) async fn check_executors_judge(
        &self,
        spec: &TaskSpec,
        requirements: &mut CheckedRequirements,
    ) -> Result<(), InvalidField> {
        let checked = match requirements.judging.take() {
            Some(checked) => checked,
            None => self.executors_judge().await,
        };
        let field = match spec.problem {
            Some(_) => "problem",
            None => "cases",
        };
        requirements
            .judging
            .insert(checked)
            .clone()
            .map_err(|invalid| invalid.within(field))
    }
}
