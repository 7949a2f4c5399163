//! Tasks of a problem package: its cases and check are uploaded once, and every submission is a task with them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use api::{
    Case, CasesOrFiles, Check, CompileStep, HttpClient, JudgeProgram, Language, NewJudgeProblem, NewTask,
};
use model::{CaseName, GroupScoring, Labels, StepCommand, StopRule, TaskFile, TaskFiles};
use problems::{PackageContent, PackageFile, PackageSubmission, ProblemPackage};

use crate::task::{InlineBudget, content_of_file};

/// A package whose cases and check are uploaded.
pub(crate) struct PackageTasks<'a> {
    package: &'a ProblemPackage,
    cases: Vec<Case>,
    check: Option<Check>,
    interact: Option<JudgeProgram>,
    languages: Vec<Language>,
    client: &'a HttpClient,
}

impl<'a> PackageTasks<'a> {
    pub(crate) async fn upload(
        package: &'a ProblemPackage,
        client: &'a HttpClient,
    ) -> Result<PackageTasks<'a>> {
        let mut budget = InlineBudget::of_shared_contents();
        let mut cases = Vec::new();
        for found in &package.cases {
            let mut case = Case::new(found.name.clone());
            case.input = Some(content_of_file(&found.input, &mut budget, client).await?);
            if let Some(answer) = &found.answer {
                case.answer = Some(content_of_file(answer, &mut budget, client).await?);
            }
            case.args.clone_from(&found.args);
            case.files = upload_files(&found.files, &mut budget, client).await?.into();
            case.points = found.points;
            case.group.clone_from(&found.group);
            case.sample = found.is_sample;
            cases.push(case);
        }
        let source = match package.check.program() {
            Some(program) => upload_files(&program.files, &mut budget, client).await?,
            None => TaskFiles::new(),
        };
        let (check, interact) = match package.check.with_source(source, &package.limits) {
            model::Check::None => (Some(Check::None), None),
            model::Check::Exact => (Some(Check::Exact), None),
            model::Check::Lines => (Some(Check::Lines), None),
            model::Check::Tokens(tokens) => (Some(Check::Tokens(tokens)), None),
            model::Check::Program(program) => (Some(Check::Program(Box::new(program.into()))), None),
            model::Check::Interactive(program) => (None, Some(program.into())),
        };
        Ok(PackageTasks {
            package,
            cases,
            check,
            interact,
            languages: client.languages().await?,
            client,
        })
    }

    /// The submission as a task with all cases, or only with those of these names.
    pub(crate) async fn task(
        &self,
        submission: &PackageSubmission,
        time: Duration,
        only: Option<&[String]>,
    ) -> Result<NewTask> {
        let run = submission.run.clone().unwrap_or_else(StepCommand::of_language);
        let mut task = NewTask::new(run);
        task.language = Some(submission.language.clone());
        let files = self.package.source_of(submission);
        task.source = upload_files(&files, &mut InlineBudget::of_task(), self.client)
            .await?
            .into();
        let limits = &self.package.limits;
        if limits.compilation_time.is_some() || limits.compilation_memory.is_some() {
            task.compile = self.compile(submission);
        }
        task.execute.limits = limits.execute(time).into();
        let is_chosen =
            |case: &&Case| only.is_none_or(|names| names.iter().any(|name| name == case.name.as_str()));
        let cases: Vec<_> = self.cases.iter().filter(is_chosen).cloned().collect();
        task.groups = groups_of(&cases, &self.package.groups);
        task.cases = Some(CasesOrFiles::Listed(cases));
        task.check.clone_from(&self.check);
        task.interact.clone_from(&self.interact);
        // Every case says something about the submission, also after one that was not accepted.
        task.stop = Some(StopRule::Never);
        task.labels = submission_label(&submission.name)?;
        Ok(task)
    }

    /// The compile step with the limits of the package, if the language has such a step.
    fn compile(&self, submission: &PackageSubmission) -> Option<CompileStep> {
        let language = self.languages.iter().find(|language| {
            language.name == submission.language || language.aliases.contains(&submission.language)
        });
        let has_step = language.is_some_and(|language| language.compile.is_some());
        has_step.then(|| CompileStep {
            command: StepCommand::of_language(),
            env: Default::default(),
            network: None,
            limits: self.package.limits.compile().into(),
        })
    }

    /// The problem to keep on the server.
    pub(crate) fn problem(self, time: Option<Duration>) -> NewJudgeProblem {
        let PackageTasks {
            package,
            cases,
            check,
            interact,
            ..
        } = self;
        let limits = match time {
            Some(time) => package.limits.execute(time),
            None => model::Limits {
                memory: package.limits.memory,
                output: package.limits.output,
                ..model::Limits::default()
            },
        };
        let mut problem = NewJudgeProblem::new(cases);
        problem.title = title(&package.title);
        problem.limits = limits.into();
        problem.check = check;
        problem.interact = interact;
        problem.stop = Some(package.stop);
        problem.groups.clone_from(&package.groups);
        problem
    }
}

/// The groups that have a case here. The server refuses a task with others.
fn groups_of(cases: &[Case], groups: &BTreeMap<CaseName, GroupScoring>) -> BTreeMap<CaseName, GroupScoring> {
    let has_case = |group: &CaseName| cases.iter().any(|case| case.group.as_ref() == Some(group));
    let found = groups.iter().filter(|(group, _)| has_case(group));
    found.map(|(group, scoring)| (group.clone(), *scoring)).collect()
}

/// The label by which a submission is found in its group.
pub(crate) fn submission_label(name: &str) -> Result<Labels> {
    let value = name
        .chars()
        .filter(|letter| !letter.is_control())
        .take(Labels::MAX_VALUE);
    let label = ("submission".to_string(), value.collect());
    Labels::new([label].into()).map_err(anyhow::Error::msg)
}

/// What fits on one line of a list.
fn title(title: &str) -> String {
    const MAX_TITLE: usize = 256;
    title
        .chars()
        .filter(|letter| !letter.is_control())
        .take(MAX_TITLE)
        .collect()
}

async fn upload_files(
    files: &[PackageFile],
    budget: &mut InlineBudget,
    client: &HttpClient,
) -> Result<TaskFiles> {
    let mut uploaded = TaskFiles::new();
    for file in files {
        let content = match &file.content {
            PackageContent::Path(path) => content_of_file(path, budget, client).await?,
            PackageContent::Bytes(bytes) => {
                let copy = tempfile::NamedTempFile::new()?;
                std::fs::write(copy.path(), bytes)?;
                content_of_file(copy.path(), budget, client).await?
            }
        };
        uploaded.insert(
            file.path.clone(),
            TaskFile {
                content,
                executable: file.executable,
            },
        );
    }
    Ok(uploaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_with_some_cases_has_only_their_groups() {
        let name = |name: &str| CaseName::new(name).unwrap();
        let case = |group: Option<&str>| {
            let mut case = Case::new(name("1"));
            case.group = group.map(name);
            case
        };
        let groups = [
            (name("sample"), GroupScoring::Sum),
            (name("secret/a"), GroupScoring::Min),
        ];
        let groups = BTreeMap::from(groups);
        let check = |cases: &[Case], expected: &[&str]| {
            let found = groups_of(cases, &groups);
            let found: Vec<_> = found.keys().map(CaseName::as_str).collect();
            assert_eq!(found, expected);
        };
        check(&[case(Some("secret/a")), case(Some("secret/a"))], &["secret/a"]);
        check(
            &[case(Some("sample")), case(Some("secret/a"))],
            &["sample", "secret/a"],
        );
        check(&[case(None)], &[]);
    }
}
