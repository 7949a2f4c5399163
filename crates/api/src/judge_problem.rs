//! Problems in JSON: cases and a check that are kept under a name. They are called `JudgeProblem`, because a `Problem` is the
//! body of an error response.

use model::{ProblemName, StopRule, UnixTime, UserName};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::group_rule::{self, GroupRules};
use crate::object::impl_json_objects;
use crate::{Case, CasesOrFiles, Check, JudgeProgram, Limits, schema, serde_text};

/// A problem to keep under a name. A task that names it is judged by its cases, which only its owner may see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct NewJudgeProblem {
    /// The owner. On a server with tokens, the token's user; an operator keeps the owner of a problem that exists.
    #[serde(
        with = "serde_text::optional::user",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<schema::User>)]
    pub owner: Option<UserName>,
    /// For people, up to 256 characters.
    #[serde(default, deserialize_with = "title", skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    pub title: String,
    /// Limits of the execute step. A task of the problem may only set limits that the problem does not set.
    #[serde(default)]
    pub limits: Limits,
    #[schema(value_type = schema::Cases)]
    pub cases: CasesOrFiles,
    /// If it is left out: tokens where any case has an answer, and none where no case has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Check>)]
    pub check: Option<Check>,
    /// The program that talks with the judged one. It decides alone, so there is no `check` beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interact: Option<JudgeProgram>,
    #[serde(
        with = "serde_text::optional::stop",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<schema::StopRule>)]
    pub stop: Option<StopRule>,
    #[serde(with = "group_rule", default, skip_serializing_if = "GroupRules::is_empty")]
    #[schema(value_type = schema::GroupRules)]
    pub groups: GroupRules,
}

/// A problem in a response. What its cases contain and how its program judges is for its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JudgeProblem {
    #[serde(with = "serde_text::problem")]
    #[schema(value_type = schema::ProblemName)]
    pub name: ProblemName,
    #[serde(with = "serde_text::user")]
    #[schema(value_type = String)]
    pub owner: UserName,
    pub title: String,
    pub limits: Limits,
    pub cases: Vec<Case>,
    /// Null if there is `interact`.
    #[schema(value_type = Option<schema::Check>)]
    pub check: Option<Check>,
    pub interact: Option<JudgeProgram>,
    #[serde(with = "serde_text::stop")]
    #[schema(value_type = schema::StopRule)]
    pub stop: StopRule,
    #[serde(with = "group_rule")]
    #[schema(value_type = schema::GroupRules)]
    pub groups: GroupRules,
    #[serde(with = "serde_text::time")]
    #[schema(value_type = schema::Time)]
    pub update_time: UnixTime,
}

/// A problem in the list of problems.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProblemSummary {
    #[serde(with = "serde_text::problem")]
    #[schema(value_type = schema::ProblemName)]
    pub name: ProblemName,
    #[serde(with = "serde_text::user")]
    #[schema(value_type = String)]
    pub owner: UserName,
    pub title: String,
    /// How many there are.
    pub cases: u32,
    #[serde(with = "serde_text::time")]
    #[schema(value_type = schema::Time)]
    pub update_time: UnixTime,
}

/// All problems, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Problems)]
pub struct ProblemsResponse {
    pub problems: Vec<ProblemSummary>,
}

impl_json_objects! {
    NewJudgeProblem: "a problem as a JSON object";
}

const MAX_TITLE: usize = 256;

fn title<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    serde_text::deserialize_text(deserializer, "a title as text", |text| {
        let length = text.chars().count();
        if length > MAX_TITLE {
            return Err(format!("is too long (limit {MAX_TITLE}, actual {length})"));
        }
        match text.chars().any(char::is_control) {
            true => Err("must be one line without control characters".to_string()),
            false => Ok(text.to_string()),
        }
    })
}

impl NewJudgeProblem {
    pub fn new(cases: Vec<Case>) -> NewJudgeProblem {
        NewJudgeProblem {
            owner: None,
            title: String::new(),
            limits: Limits::default(),
            cases: CasesOrFiles::Listed(cases),
            check: None,
            interact: None,
            stop: None,
            groups: GroupRules::new(),
        }
    }
}

impl JudgeProblem {
    /// Leaves out what its owner alone may see.
    pub fn hide_secrets(&mut self) {
        self.cases.iter_mut().for_each(Case::hide);
        self.check.iter_mut().for_each(Check::hide);
        self.interact.iter_mut().for_each(JudgeProgram::hide);
    }
}

impl From<model::JudgeProblem> for JudgeProblem {
    fn from(problem: model::JudgeProblem) -> JudgeProblem {
        let model::JudgeProblem {
            name,
            owner,
            title,
            limits,
            judging,
            update_time,
        } = problem;
        let model::Judging {
            cases,
            check,
            stop,
            groups,
            problem: _,
        } = judging;
        let (check, interact) = Check::of_model(check);
        JudgeProblem {
            name,
            owner,
            title,
            limits: limits.into(),
            cases: cases.into_iter().map(Into::into).collect(),
            check: interact.is_none().then_some(check),
            interact,
            stop,
            groups,
            update_time,
        }
    }
}

impl From<model::ProblemSummary> for ProblemSummary {
    fn from(summary: model::ProblemSummary) -> ProblemSummary {
        let model::ProblemSummary {
            name,
            owner,
            title,
            cases,
            update_time,
        } = summary;
        ProblemSummary {
            name,
            owner,
            title,
            cases,
            update_time,
        }
    }
}
