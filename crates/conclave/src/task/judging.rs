//! Adds cases and a check to a task: those of a folder, or the name of a problem.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use api::{Case, CasesOrFiles, Check, HttpClient, JudgeProgram, NewTask};
use model::{JudgeProtocol, TokenCheck};

use super::content::{InlineBudget, content_of_file};
use super::program::LocalProgram;
use crate::args::{ComparisonKind, JudgingFlags};

impl JudgingFlags {
    /// Adds what the flags say, and uploads the contents of the cases.
    pub(crate) async fn apply_to(&self, task: &mut NewTask, client: &HttpClient) -> Result<()> {
        task.problem.clone_from(&self.problem);
        let Some(folder) = &self.cases else {
            return Ok(());
        };
        let mut budget = InlineBudget::of_shared_contents();
        task.cases = Some(CasesOrFiles::Listed(
            cases_of_folder(folder, &mut budget, client).await?,
        ));
        task.check = self.check(client).await?;
        if let Some(path) = &self.interactor {
            task.interact = Some(self.program(path, JudgeProtocol::Icpc, client).await?);
        }
        task.stop = self.stop;
        Ok(())
    }

    async fn check(&self, client: &HttpClient) -> Result<Option<Check>> {
        ensure!(
            self.judge_args.is_empty() || self.checker.is_some() || self.interactor.is_some(),
            "--judge-arg is for the program of --checker or --interactor; leave it out"
        );
        if let Some(path) = &self.checker {
            let protocol = self.protocol.unwrap_or(JudgeProtocol::Icpc);
            let program = self.program(path, protocol, client).await?;
            return Ok(Some(Check::Program(Box::new(program))));
        }
        let tokens = TokenCheck {
            absolute_tolerance: self.float_tolerance,
            relative_tolerance: self.float_tolerance,
            ..TokenCheck::default()
        };
        Ok(match (self.check, self.float_tolerance) {
            (None, None) => None,
            (None | Some(ComparisonKind::Tokens), _) => Some(Check::Tokens(tokens)),
            (Some(_), Some(_)) => bail!("--float-tolerance is for --check tokens; leave one of them out"),
            (Some(ComparisonKind::Lines), None) => Some(Check::Lines),
            (Some(ComparisonKind::Exact), None) => Some(Check::Exact),
            (Some(ComparisonKind::None), None) => Some(Check::None),
        })
    }

    /// The program that judges, in the language of its files.
    async fn program(
        &self,
        path: &Path,
        protocol: JudgeProtocol,
        client: &HttpClient,
    ) -> Result<JudgeProgram> {
        let files = LocalProgram::find(path, None, &client.languages().await?)?;
        let language = files.language.clone();
        let source = files.upload(InlineBudget::of_shared_contents(), client).await?;
        let mut program = JudgeProgram::new(protocol, language, source);
        program.args.clone_from(&self.judge_args);
        Ok(program)
    }
}

async fn cases_of_folder(folder: &Path, budget: &mut InlineBudget, client: &HttpClient) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for found in problems::cases_from_folder(folder)? {
        let mut case = Case::new(found.name);
        case.input = Some(content_of_file(&found.input, budget, client).await?);
        case.answer = match &found.answer {
            Some(path) => Some(content_of_file(path, budget, client).await?),
            None => None,
        };
        cases.push(case);
    }
    Ok(cases)
}
