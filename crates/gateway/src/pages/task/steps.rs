//! The two steps of a task: command, how it ended, limits and output.

use std::collections::BTreeMap;

use maud::{Markup, html};
use model::{
    CapturedOutput, Limits, NetworkName, Outcome, OutputSource, StepCommand, StepName, StreamName, Task,
    TaskStatus,
};

use super::LiveView;
use super::verdict::{resources, verdict_line};
use crate::pages::components::UserText;
use crate::pages::output_view::output_view;

/// A step of a task, with its outcome if it has ended.
pub(super) struct StepView<'t> {
    pub(super) name: StepName,
    command: &'t StepCommand,
    args: &'t [String],
    env: &'t BTreeMap<String, String>,
    limits: &'t Limits,
    network: Option<&'t NetworkName>,
    outcome: Option<&'t Outcome>,
    /// Whether it runs once for each case of the task. Then the cases have the outcomes and the outputs.
    for_each_case: bool,
}

impl StepView<'_> {
    /// The steps that the task has, in their order.
    pub(super) fn of(task: &Task) -> Vec<StepView<'_>> {
        let result = task.result.as_ref();
        let compile = task.spec.compile.as_ref().map(|step| StepView {
            name: StepName::Compile,
            command: &step.command,
            args: &[],
            env: &step.env,
            limits: &step.limits,
            network: step.network.as_ref(),
            outcome: result.and_then(|result| result.compile.as_ref()),
            for_each_case: false,
        });
        let execute = &task.spec.execute;
        let execute = StepView {
            name: StepName::Execute,
            command: &execute.command,
            args: &execute.args,
            env: &execute.env,
            limits: &execute.limits,
            network: execute.network.as_ref(),
            outcome: result.and_then(|result| result.execute.as_ref()),
            for_each_case: task.spec.judging.is_some(),
        };
        compile.into_iter().chain([execute]).collect()
    }

    /// The name of the live event with its outcome.
    pub(super) fn outcome_event(&self) -> &'static str {
        match self.name {
            StepName::Compile => "compile-outcome",
            StepName::Execute => "execute-outcome",
        }
    }

    /// How the step ended, and what it used.
    pub(super) fn outcome_part(&self, task: &Task) -> Markup {
        html! {
            @match self.outcome {
                _ if self.for_each_case => p class="dim" { "It runs once for each case, in a cell of its own. A case may have limits of its own." }
                Some(outcome) => (verdict_line(outcome, self.limits)),
                None => p class="dim" { (self.without_outcome(task)) },
            }
            (resources(self.limits, self.network, self.outcome))
        }
    }

    fn without_outcome(&self, task: &Task) -> &'static str {
        let has_begun = !task.ran_on.is_empty();
        match (self.name, task.status) {
            (StepName::Compile, TaskStatus::Compiling) | (StepName::Execute, TaskStatus::Running) => {
                "It runs."
            }
            (StepName::Compile, TaskStatus::Running) => "It has succeeded.",
            (StepName::Execute, TaskStatus::Compiling) => "It runs when the compile step has succeeded.",
            (_, TaskStatus::Cancelled) if has_begun => {
                "The task was cancelled after it had begun. What its steps wrote is not kept."
            }
            (_, TaskStatus::SystemError) if has_begun => "No attempt came to a result.",
            (_, status) if status.is_done() => "It did not run.",
            _ => "It has not begun.",
        }
    }

    pub(super) fn section(&self, task: &Task, view: LiveView) -> Markup {
        let title = match self.name {
            StepName::Compile => "Compile",
            StepName::Execute => "Execute",
        };
        html! {
            section class="step" {
                h2 { (title) }
                @if view == LiveView::Page { (self.command()) }
                div sse-swap=(self.outcome_event()) hx-swap="morph:innerHTML" { (self.outcome_part(task)) }
                @for stream in [StreamName::Stdout, StreamName::Stderr] {
                    @if !self.for_each_case && (self.outcome.is_some() || !task.status.is_done()) {
                        @let source = OutputSource { step: self.name, stream };
                        (output_view(task.id, source, self.captured(stream)))
                    }
                }
            }
        }
    }

    pub(super) fn captured(&self, stream: StreamName) -> Option<&CapturedOutput> {
        self.outcome.map(|outcome| match stream {
            StreamName::Stdout => &outcome.stdout,
            StreamName::Stderr => &outcome.stderr,
        })
    }

    fn command(&self) -> Markup {
        html! {
            pre class="command" tabindex="0" role="region" aria-label={ "Command of the " (self.name.as_str()) " step" } {
                code {
                    @match self.command {
                        StepCommand::Shell(text) => (UserText(text)),
                        StepCommand::Argv(words) => @for word in words { (UserText(&format!("{word:?}"))) " " },
                    }
                }
            }
            @if !self.args.is_empty() || !self.env.is_empty() {
                dl {
                    @if !self.args.is_empty() {
                        dt { "Arguments" }
                        dd { @for arg in self.args { code { (UserText(arg)) } " " } }
                    }
                    @for (name, value) in self.env {
                        dt { code { (UserText(name)) } }
                        dd { code { (UserText(value)) } }
                    }
                }
            }
        }
    }
}
