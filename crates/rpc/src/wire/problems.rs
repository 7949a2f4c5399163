use model::{InvalidField, JudgeProblem, ProblemEditor, ProblemName, ProblemSummary, UnixTime};

use super::ids::{parse_problem, parse_user};
use super::proto::{self, problem_editor::Kind};
use super::{ParseMessage, parse_required};

/// A request to put a problem, as the RPC server parses it.
pub(crate) struct PutProblemCall {
    pub(crate) problem: JudgeProblem,
    pub(crate) editor: ProblemEditor,
}

/// A request to remove a problem, as the RPC server parses it.
pub(crate) struct RemoveProblemCall {
    pub(crate) name: ProblemName,
    pub(crate) editor: ProblemEditor,
}

impl From<PutProblemCall> for proto::PutProblemRequest {
    fn from(call: PutProblemCall) -> Self {
        proto::PutProblemRequest {
            problem: Some(call.problem.into()),
            editor: Some(call.editor.into()),
        }
    }
}

impl ParseMessage<PutProblemCall> for proto::PutProblemRequest {
    /// Errors name a field of the problem without a prefix, as users know it.
    fn parse(self) -> Result<PutProblemCall, InvalidField> {
        let problem = self.problem;
        let problem = problem.ok_or_else(|| InvalidField::new("problem", "is missing"))?;
        Ok(PutProblemCall {
            problem: problem.parse()?,
            editor: parse_required("editor", self.editor)?,
        })
    }
}

impl From<RemoveProblemCall> for proto::RemoveProblemRequest {
    fn from(call: RemoveProblemCall) -> Self {
        proto::RemoveProblemRequest {
            name: call.name.to_string(),
            editor: Some(call.editor.into()),
        }
    }
}

impl ParseMessage<RemoveProblemCall> for proto::RemoveProblemRequest {
    fn parse(self) -> Result<RemoveProblemCall, InvalidField> {
        Ok(RemoveProblemCall {
            name: parse_problem(self.name)?,
            editor: parse_required("editor", self.editor)?,
        })
    }
}

impl ParseMessage<ProblemName> for proto::ProblemRequest {
    fn parse(self) -> Result<ProblemName, InvalidField> {
        parse_problem(self.name)
    }
}

impl From<ProblemEditor> for proto::ProblemEditor {
    fn from(editor: ProblemEditor) -> Self {
        let kind = match editor {
            ProblemEditor::Owner(user) => Kind::Owner(user.to_string()),
            ProblemEditor::Operator => Kind::Operator(proto::Nothing {}),
        };
        proto::ProblemEditor { kind: Some(kind) }
    }
}

impl ParseMessage<ProblemEditor> for proto::ProblemEditor {
    fn parse(self) -> Result<ProblemEditor, InvalidField> {
        match self.kind {
            Some(Kind::Owner(user)) => parse_user(user).map(ProblemEditor::Owner),
            Some(Kind::Operator(_)) => Ok(ProblemEditor::Operator),
            None => Err(InvalidField::new("kind", "is missing")),
        }
    }
}

impl From<JudgeProblem> for proto::JudgeProblem {
    fn from(problem: JudgeProblem) -> Self {
        let JudgeProblem {
            name,
            owner,
            title,
            limits,
            judging,
            update_time,
        } = problem;
        proto::JudgeProblem {
            name: name.to_string(),
            owner: owner.to_string(),
            title,
            limits: Some(limits.into()),
            judging: Some(judging.into()),
            update_time: update_time.0,
        }
    }
}

impl ParseMessage<JudgeProblem> for proto::JudgeProblem {
    fn parse(self) -> Result<JudgeProblem, InvalidField> {
        let judging = self.judging;
        let judging = judging.ok_or_else(|| InvalidField::new("cases", "are missing"))?;
        Ok(JudgeProblem {
            name: parse_problem(self.name)?,
            owner: parse_user(self.owner)?,
            title: self.title,
            limits: self.limits.unwrap_or_default().into(),
            judging: judging.parse()?,
            update_time: UnixTime(self.update_time),
        })
    }
}

impl From<ProblemSummary> for proto::ProblemSummary {
    fn from(summary: ProblemSummary) -> Self {
        let ProblemSummary {
            name,
            owner,
            title,
            cases,
            update_time,
        } = summary;
        proto::ProblemSummary {
            name: name.to_string(),
            owner: owner.to_string(),
            title,
            cases,
            update_time: update_time.0,
        }
    }
}

impl ParseMessage<ProblemSummary> for proto::ProblemSummary {
    fn parse(self) -> Result<ProblemSummary, InvalidField> {
        Ok(ProblemSummary {
            name: parse_problem(self.name)?,
            owner: parse_user(self.owner)?,
            title: self.title,
            cases: self.cases,
            update_time: UnixTime(self.update_time),
        })
    }
}
