//! Puts problems. The other calls about problems are those of the store.

use std::borrow::Cow;

use model::{Capacity, InvalidField, JudgeProblem, ProblemEditor, StepCommand, TaskSpec};
use rpc::CallError;
use store::ProblemBounds;

use super::add::check_space;
use crate::error::call_error;
use crate::{Judicator, now};

impl Judicator {
    pub(super) async fn on_put_problem(
        &self,
        mut problem: JudgeProblem,
        editor: ProblemEditor,
    ) -> Result<JudgeProblem, CallError> {
        problem.judging.problem = None;
        problem.update_time = now();
        problem.check(&self.options.task_size_limits)?;
        self.check_inline_bytes(&problem)?;
        self.options
            .limits
            .resolve(problem.limits)
            .map_err(|invalid| invalid.within("limits"))?;
        // Filled in now, so that a language which changes later does not change the problem.
        let program = problem.judging.check.program();
        let program = program.map(|program| Cow::Owned(program.as_task(&problem.owner)));
        let classes = self.source_classes(program).await?;
        let judging = &mut problem.judging;
        judging.fill_in_program(&self.options.languages, &problem.owner, &classes)?;
        self.check_usable(&problem).await?;
        let put = self.store.put_problem(problem, editor, ProblemBounds::default());
        put.await.map_err(call_error)
    }

    /// Refuses a problem that no task could name. Each task gets the limits that apply when it is added.
    async fn check_usable(&self, problem: &JudgeProblem) -> Result<(), CallError> {
        let mut task = TaskSpec::new(problem.owner.clone(), StepCommand::Shell("true".into()));
        task.take_problem(problem)?;
        task.check(&self.options.task_size_limits)?;
        let (policy, capacity) = (&self.options.limits, Capacity::UNKNOWN);
        policy.apply(&mut task, None, &capacity)?;
        policy.apply_to_program(&mut task, &self.options.languages, &capacity)?;
        let sizes = self.blob_sizes([&task].into_iter()).await?;
        Ok(check_space(&task, &sizes)?)
    }

    /// Refuses a problem that would make every read of it long. Its contents are meant to be blobs.
    fn check_inline_bytes(&self, problem: &JudgeProblem) -> Result<(), InvalidField> {
        let inline: u64 = problem
            .judging
            .contents()
            .map(|content| content.inline_len())
            .sum();
        let limit = self.options.task_size_limits.inline_bytes;
        match inline > limit {
            true => Err(InvalidField::over_limit(
                "cases",
                "the inline contents are too large together; upload them as blobs",
                limit,
                inline,
            )),
            false => Ok(()),
        }
    }
}
