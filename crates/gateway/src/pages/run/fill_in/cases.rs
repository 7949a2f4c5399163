//! Fills the cases and the check of the form from a task.

use model::{Case, Content, JudgeProblem, Judging, Limits, TaskSpec, TokenCheck};
use serde_json::{Map, Value, json};

use super::MAX_SHOWN_TOTAL;
use crate::gateway::Gateway;
use crate::pages::run::form::{RunForm, form_case};

/// More cases than these are not rows of the form: it carries them without showing them.
const MAX_ROWS: usize = 50;

/// Fills in how the task is judged. A problem brings its own cases, limits and label: they are left to it again.
pub(super) async fn set_judging(gateway: &Gateway, form: &mut RunForm, spec: &mut TaskSpec) {
    let Some(judging) = spec.judging.take() else {
        return;
    };
    match &spec.problem {
        Some(name) => {
            form.set("problem", name.as_str());
            let problem = gateway.calls.problem(name.clone()).await.ok().flatten();
            leave_to_problem(spec, problem.as_ref());
        }
        None => {
            set_checks(form, &judging);
            set_cases(form, judging.cases);
        }
    }
}

/// Without the problem it is not known which limits are its own.
fn leave_to_problem(spec: &mut TaskSpec, problem: Option<&JudgeProblem>) {
    let limits = &mut spec.execute.limits;
    *limits = match problem {
        None => Limits::default(),
        Some(problem) => without(*limits, problem.limits),
    };
    let others = spec.labels.iter().filter(|(key, _)| *key != JudgeProblem::LABEL);
    let others = others
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    if let Ok(labels) = model::Labels::new(others) {
        spec.labels = labels;
    }
}

/// The limits that are not set by `others`.
fn without(limits: Limits, others: Limits) -> Limits {
    fn unless<T>(own: Option<T>, other: Option<T>) -> Option<T> {
        own.filter(|_| other.is_none())
    }
    Limits {
        wall: unless(limits.wall, others.wall.or(others.cpu)),
        cpu: unless(limits.cpu, others.cpu),
        memory: unless(limits.memory, others.memory),
        output: unless(limits.output, others.output),
        processes: unless(limits.processes, others.processes),
        file_size: unless(limits.file_size, others.file_size),
        open_files: unless(limits.open_files, others.open_files),
        stack: unless(limits.stack, others.stack),
        space: unless(limits.space, others.space),
    }
}

/// Adds rows for the cases, or carries them if they are too many or too large to be shown.
pub(in crate::pages::run) fn set_cases(form: &mut RunForm, cases: Vec<Case>) {
    let contents = cases.iter().flat_map(Case::contents);
    let shown: u64 = contents.map(Content::inline_len).sum();
    match form.cases.len() + cases.len() > MAX_ROWS || shown > MAX_SHOWN_TOTAL {
        false => form.cases.extend(cases.into_iter().map(form_case)),
        true => {
            let cases: Vec<_> = cases.into_iter().map(api::Case::from).collect();
            form.cases_kept = serde_json::to_string(&cases).ok();
        }
    }
}

/// Fills in what decides about the outputs.
fn set_checks(form: &mut RunForm, judging: &Judging) {
    let mut kept = Map::new();
    set_check(form, judging, &mut kept);
    if !judging.groups.is_empty() {
        let groups = judging.groups.iter();
        let groups = groups.map(|(name, scoring)| (name.to_string(), json!({"score": scoring.as_str()})));
        kept.insert("groups".into(), Value::Object(groups.collect()));
    }
    if !kept.is_empty() {
        form.check_kept = Some(Value::Object(kept).to_string());
    }
    form.set("stop", judging.stop.as_str());
}

/// What the controls of the form can say is in them; anything else is kept as it is.
fn set_check(form: &mut RunForm, judging: &Judging, kept: &mut Map<String, Value>) {
    use model::Check;
    match &judging.check {
        Check::None => form.set("check.kind", "none"),
        Check::Exact => form.set("check.kind", "exact"),
        Check::Lines => form.set("check.kind", "lines"),
        Check::Tokens(tokens) if *tokens == TokenCheck::default() => form.set("check.kind", "tokens"),
        other => {
            let (check, interact) = api::Check::of_model(other.clone());
            let as_json = |value: serde_json::Result<Value>| value.unwrap_or_default();
            match interact {
                Some(program) => drop(kept.insert("interact".into(), as_json(serde_json::to_value(program)))),
                None => drop(kept.insert("check".into(), as_json(serde_json::to_value(check)))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use model::{ProblemName, Task, TaskStatus, Verdict};

    use super::*;
    use crate::fake_calls::{FakeCalls, gateway};
    use crate::pages::task::case_strip_fixtures::{judged_task, judging};

    async fn filled(task: Task) -> (RunForm, TaskSpec) {
        let (gateway, _) = gateway(Arc::new(FakeCalls::default()));
        let (mut form, mut spec) = (RunForm::default(), task.spec);
        set_judging(&gateway, &mut form, &mut spec).await;
        (form, spec)
    }

    #[tokio::test]
    async fn cases_of_a_task_are_rows() {
        let mut task = judged_task(&[Verdict::Accepted, Verdict::WrongAnswer]);
        let judging = task.spec.judging.as_mut().unwrap();
        judging.groups = [(judging.cases[0].name.clone(), model::GroupScoring::Min)].into();
        let (form, _) = filled(task).await;
        assert_eq!(form.cases.len(), 2);
        assert_eq!(
            (form.cases[0].name.as_str(), form.cases[0].answer.as_str()),
            ("1", "3\n")
        );
        assert_eq!(form.get("check.kind"), "tokens");
        assert_eq!(
            form.check_kept.as_deref(),
            Some("{\"groups\":{\"1\":{\"score\":\"min\"}}}")
        );
    }

    #[tokio::test]
    async fn many_cases_are_carried_without_being_shown() {
        let names: Vec<String> = (0..=MAX_ROWS).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut task = judged_task(&[]);
        task.spec.judging = Some(judging(&names));
        let (form, _) = filled(task).await;
        assert!(form.cases.is_empty());
        let again = form.to_json().unwrap();
        assert_eq!(again["cases"].as_array().map(Vec::len), Some(MAX_ROWS + 1));
    }

    #[tokio::test]
    async fn a_problem_is_named_and_brings_its_cases_again() {
        let mut task = judged_task(&[Verdict::Accepted]);
        task.status = TaskStatus::Success;
        task.spec.problem = Some(ProblemName::new("sums").unwrap());
        task.spec.execute.limits.cpu = Some(Duration::from_secs(2));
        let labels =
            [("problem", "sums"), ("mine", "x")].map(|(key, value)| (key.to_string(), value.to_string()));
        task.spec.labels = model::Labels::new(labels.into()).unwrap();
        let (form, spec) = filled(task).await;
        assert_eq!(form.get("problem"), "sums");
        assert!(form.cases.is_empty() && form.cases_kept.is_none());
        assert_eq!(spec.execute.limits, Limits::default());
        assert_eq!(spec.labels.iter().collect::<Vec<_>>(), [("mine", "x")]);
    }

    #[test]
    fn limits_of_the_problem_are_left_to_it() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let limits = Limits {
            cpu: seconds(2),
            wall: seconds(16),
            memory: Some(5),
            ..Limits::default()
        };
        let problem = Limits {
            cpu: seconds(2),
            ..Limits::default()
        };
        assert_eq!(
            without(limits, problem),
            Limits {
                memory: Some(5),
                ..Limits::default()
            }
        );
    }
}
