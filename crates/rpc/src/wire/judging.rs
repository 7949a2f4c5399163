use std::collections::BTreeMap;

use model::{
    Case, CaseName, Check, Content, GroupScoring, InvalidField, JudgeProgram, JudgeProtocol, Judging, Points,
    ProblemRef, StopRule, TokenCheck, Tolerance,
};

use super::ids::{parse_language, parse_problem, parse_root, parse_user};
use super::proto::{self, judge_check::Kind};
use super::task::{encode_files, parse_files};
use super::{ParseMessage, parse_each, parse_optional, parse_required};

impl From<Judging> for proto::Judging {
    fn from(judging: Judging) -> Self {
        let Judging {
            cases,
            check,
            stop,
            groups,
            problem,
        } = judging;
        let group = |(name, scoring): (CaseName, GroupScoring)| proto::CaseGroup {
            name: name.to_string(),
            scoring: scoring.as_str().to_string(),
        };
        proto::Judging {
            cases: cases.into_iter().map(Into::into).collect(),
            check: Some(check.into()),
            stop: stop.as_str().to_string(),
            groups: groups.into_iter().map(group).collect(),
            problem: problem.map(Into::into),
        }
    }
}

impl ParseMessage<Judging> for proto::Judging {
    /// Errors name the fields without a prefix, as users know them.
    fn parse(self) -> Result<Judging, InvalidField> {
        Ok(Judging {
            cases: parse_each("cases", self.cases)?,
            check: parse_required("check", self.check)?,
            stop: parse_word("stop", &self.stop, &StopRule::ALL, StopRule::as_str)?,
            groups: parse_groups(self.groups)?,
            problem: parse_optional("problem", self.problem)?,
        })
    }
}

fn parse_groups(groups: Vec<proto::CaseGroup>) -> Result<BTreeMap<CaseName, GroupScoring>, InvalidField> {
    let mut map = BTreeMap::new();
    for proto::CaseGroup { name, scoring } in groups {
        let field = format!("groups.{name}");
        let scoring = parse_word(&field, &scoring, &GroupScoring::ALL, GroupScoring::as_str)?;
        if map.insert(parse_case_name(&field, name)?, scoring).is_some() {
            return Err(InvalidField::new(field, "is given twice"));
        }
    }
    Ok(map)
}

/// Parses one of a few words. A word that only newer versions know is an error: the task has a newer form then.
fn parse_word<T: Copy>(
    field: &str,
    word: &str,
    all: &[T],
    as_str: fn(T) -> &'static str,
) -> Result<T, InvalidField> {
    let known = all.iter().find(|value| as_str(**value) == word);
    known
        .copied()
        .ok_or_else(|| InvalidField::new(field, format!("'{word}' is not known")))
}

pub(super) fn parse_case_name(field: &str, name: String) -> Result<CaseName, InvalidField> {
    CaseName::new(name).map_err(|wrong| InvalidField::new(field, wrong.to_string()))
}

impl From<Case> for proto::JudgeCase {
    fn from(case: Case) -> Self {
        let Case {
            name,
            input,
            answer,
            args,
            files,
            points,
            group,
            limits,
            is_sample,
        } = case;
        proto::JudgeCase {
            name: name.to_string(),
            input: Some(input.into()),
            answer: answer.map(Into::into),
            args,
            files: encode_files(files),
            points: points.millionths(),
            group: group.map(|name| name.to_string()),
            limits: Some(limits.into()),
            is_sample,
        }
    }
}

impl ParseMessage<Case> for proto::JudgeCase {
    fn parse(self) -> Result<Case, InvalidField> {
        let points = Points::from_millionths(self.points);
        if points > Points::MAX {
            let problem = "are too many";
            return Err(InvalidField::over_limit("points", problem, Points::MAX, points));
        }
        Ok(Case {
            name: parse_case_name("name", self.name)?,
            input: parse_optional("input", self.input)?.unwrap_or_else(Content::empty),
            answer: parse_optional("answer", self.answer)?,
            args: self.args,
            files: parse_files("files", self.files)?,
            points,
            group: self
                .group
                .map(|name| parse_case_name("group", name))
                .transpose()?,
            limits: self.limits.unwrap_or_default().into(),
            is_sample: self.is_sample,
        })
    }
}

impl From<Check> for proto::JudgeCheck {
    fn from(check: Check) -> Self {
        let kind = match check {
            Check::None => Kind::None(proto::Nothing {}),
            Check::Exact => Kind::Exact(proto::Nothing {}),
            Check::Lines => Kind::Lines(proto::Nothing {}),
            Check::Tokens(tokens) => Kind::Tokens(tokens.into()),
            Check::Program(program) => Kind::Program(program.into()),
            Check::Interactive(program) => Kind::Interactive(program.into()),
        };
        proto::JudgeCheck { kind: Some(kind) }
    }
}

impl ParseMessage<Check> for proto::JudgeCheck {
    fn parse(self) -> Result<Check, InvalidField> {
        Ok(match self.kind {
            Some(Kind::None(_)) => Check::None,
            Some(Kind::Exact(_)) => Check::Exact,
            Some(Kind::Lines(_)) => Check::Lines,
            Some(Kind::Tokens(tokens)) => Check::Tokens(tokens.parse()?),
            Some(Kind::Program(program)) => Check::Program(program.parse()?),
            Some(Kind::Interactive(program)) => Check::Interactive(program.parse()?),
            // A check without a kind has one of a newer version. It must not be taken for one that accepts everything.
            None => return Err(InvalidField::new("kind", "is not known")),
        })
    }
}

impl From<TokenCheck> for proto::TokenCheck {
    fn from(check: TokenCheck) -> Self {
        proto::TokenCheck {
            case_sensitive: check.case_sensitive,
            space_sensitive: check.space_sensitive,
            absolute_tolerance: check.absolute_tolerance.map(Tolerance::as_f64),
            relative_tolerance: check.relative_tolerance.map(Tolerance::as_f64),
        }
    }
}

impl ParseMessage<TokenCheck> for proto::TokenCheck {
    fn parse(self) -> Result<TokenCheck, InvalidField> {
        let tolerance = |field: &str, number: Option<f64>| match number.map(Tolerance::new) {
            Some(None) => Err(InvalidField::new(field, "must be finite and not negative")),
            Some(tolerance) => Ok(tolerance),
            None => Ok(None),
        };
        Ok(TokenCheck {
            case_sensitive: self.case_sensitive,
            space_sensitive: self.space_sensitive,
            absolute_tolerance: tolerance("float_absolute_tolerance", self.absolute_tolerance)?,
            relative_tolerance: tolerance("float_relative_tolerance", self.relative_tolerance)?,
        })
    }
}

impl From<JudgeProgram> for proto::JudgeProgram {
    fn from(program: JudgeProgram) -> Self {
        let JudgeProgram {
            protocol,
            language,
            root,
            source,
            compile,
            execute,
        } = program;
        proto::JudgeProgram {
            protocol: protocol.as_str().to_string(),
            language: language.map(|name| name.to_string()),
            root: root.map(|name| name.to_string()),
            source: encode_files(source),
            compile: compile.map(Into::into),
            execute: Some(execute.into()),
        }
    }
}

impl ParseMessage<JudgeProgram> for proto::JudgeProgram {
    fn parse(self) -> Result<JudgeProgram, InvalidField> {
        let protocol = &self.protocol;
        Ok(JudgeProgram {
            protocol: parse_word("protocol", protocol, &JudgeProtocol::ALL, JudgeProtocol::as_str)?,
            language: self.language.map(parse_language).transpose()?,
            root: self.root.map(parse_root).transpose()?,
            source: parse_files("source", self.source)?,
            compile: parse_optional("compile", self.compile)?,
            execute: parse_required("execute", self.execute)?,
        })
    }
}

impl From<ProblemRef> for proto::ProblemRef {
    fn from(problem: ProblemRef) -> Self {
        proto::ProblemRef {
            name: problem.name.to_string(),
            owner: problem.owner.to_string(),
        }
    }
}

impl ParseMessage<ProblemRef> for proto::ProblemRef {
    fn parse(self) -> Result<ProblemRef, InvalidField> {
        Ok(ProblemRef {
            name: parse_problem(self.name)?,
            owner: parse_user(self.owner)?,
        })
    }
}
