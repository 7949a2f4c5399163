//! What a request says about judging: unpacks its files, and decides what it leaves out.

use std::collections::BTreeMap;

use api::{CasesOrFiles, cases_of_files};
use model::{
    Case, CaseName, Check, Content, ExecuteStep, GroupScoring, InvalidField, JudgeProgram, Judging,
    ProblemName, StopRule, TokenCheck,
};

use super::zip_unpacker::ZipUnpacker;
use crate::request_error::RequestError;

/// The fields about judging in a request that adds a task or a problem.
pub(crate) struct RequestedJudging {
    pub(crate) cases: Option<CasesOrFiles>,
    pub(crate) check: Option<api::Check>,
    pub(crate) interact: Option<api::JudgeProgram>,
    pub(crate) stop: Option<StopRule>,
    pub(crate) groups: BTreeMap<CaseName, GroupScoring>,
}

/// The same fields when their files are unpacked.
#[derive(Debug, Default, Clone)]
pub(crate) struct UnpackedJudging {
    cases: Option<Vec<Case>>,
    check: Option<Check>,
    interact: Option<JudgeProgram>,
    stop: Option<StopRule>,
    groups: BTreeMap<CaseName, GroupScoring>,
}

impl RequestedJudging {
    pub(crate) async fn unpack(
        self,
        unpacker: &mut ZipUnpacker<'_>,
    ) -> Result<UnpackedJudging, RequestError> {
        let cases = match self.cases {
            None => None,
            Some(CasesOrFiles::Files(files)) => {
                Some(cases_of_files(unpacker.unpack_files("cases", files).await?)?)
            }
            Some(CasesOrFiles::Listed(listed)) => {
                let mut cases = Vec::with_capacity(listed.len());
                for (index, case) in listed.into_iter().enumerate() {
                    let case = unpack_case(unpacker, case).await;
                    cases.push(case.map_err(|error| error.within(&format!("cases[{index}]")))?);
                }
                Some(cases)
            }
        };
        let check = match self.check {
            None => None,
            Some(api::Check::None) => Some(Check::None),
            Some(api::Check::Exact) => Some(Check::Exact),
            Some(api::Check::Lines) => Some(Check::Lines),
            Some(api::Check::Tokens(check)) => Some(Check::Tokens(check)),
            Some(api::Check::Program(program)) => {
                let program = unpack_program(unpacker, *program).await;
                Some(Check::Program(program.map_err(|error| error.within("check"))?))
            }
        };
        let interact = match self.interact {
            None => None,
            Some(program) => {
                let program = unpack_program(unpacker, program).await;
                Some(program.map_err(|error| error.within("interact"))?)
            }
        };
        Ok(UnpackedJudging {
            cases,
            check,
            interact,
            stop: self.stop,
            groups: self.groups,
        })
    }
}

impl UnpackedJudging {
    /// Refuses what a problem brings, in a task that names one.
    pub(crate) fn refuse_beside_problem(&self, name: &ProblemName) -> Result<(), InvalidField> {
        let of_problem = self
            .cases
            .is_some()
            .then_some("cases")
            .or(self.field_beside_cases());
        match of_problem {
            None => Ok(()),
            Some(field) => {
                let problem = format!("is set by the problem '{name}'; leave out one of the two");
                Err(InvalidField::new(field, problem))
            }
        }
    }

    /// `None` if nothing is judged.
    pub(crate) fn into_judging(self) -> Result<Option<Judging>, InvalidField> {
        let beside_cases = self.field_beside_cases();
        let Some(cases) = self.cases else {
            return match beside_cases {
                None => Ok(None),
                Some(field) => Err(InvalidField::new(
                    field,
                    "is for tasks with cases; give `cases`, or leave it out",
                )),
            };
        };
        let check = match (self.check, self.interact) {
            (Some(_), Some(_)) => {
                let problem =
                    "cannot be used with `interact`, whose program decides alone; leave out one of the two";
                return Err(InvalidField::new("check", problem));
            }
            (Some(check), None) => check,
            (None, Some(program)) => Check::Interactive(program),
            (None, None) => default_check(&cases),
        };
        Ok(Some(Judging {
            cases,
            check,
            stop: self.stop.unwrap_or_default(),
            groups: self.groups,
            problem: None,
        }))
    }

    /// A field that was given and that has a meaning only with cases.
    fn field_beside_cases(&self) -> Option<&'static str> {
        let given = [
            ("check", self.check.is_some()),
            ("interact", self.interact.is_some()),
            ("stop", self.stop.is_some()),
            ("groups", !self.groups.is_empty()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// With answers, outputs are compared with them. Without any, every output is accepted.
fn default_check(cases: &[Case]) -> Check {
    match cases.iter().any(|case| case.answer.is_some()) {
        true => Check::Tokens(TokenCheck::default()),
        false => Check::None,
    }
}

async fn unpack_case(unpacker: &mut ZipUnpacker<'_>, case: api::Case) -> Result<Case, RequestError> {
    let api::Case {
        name,
        input,
        answer,
        args,
        files,
        points,
        group,
        limits,
        sample,
    } = case;
    Ok(Case {
        name,
        input: input.unwrap_or_else(Content::empty),
        answer,
        args,
        files: unpacker.unpack_files("files", files).await?,
        points,
        group,
        limits: limits.into(),
        is_sample: sample,
    })
}

async fn unpack_program(
    unpacker: &mut ZipUnpacker<'_>,
    program: api::JudgeProgram,
) -> Result<JudgeProgram, RequestError> {
    let api::JudgeProgram {
        protocol,
        language,
        root,
        source_code,
        source,
        compile,
        command,
        args,
        env,
        limits,
    } = program;
    if source_code.is_some() && language.is_none() {
        let problem = "needs a language, which gives the file its name; name one, or use `source`";
        return Err(InvalidField::new("source_code", problem).into());
    }
    Ok(JudgeProgram {
        protocol,
        language,
        root,
        source: unpacker.unpack_source(source_code, source).await?,
        compile: compile.map(Into::into),
        execute: ExecuteStep {
            command,
            args,
            env,
            input: Content::empty(),
            network: None,
            limits: limits.into(),
        },
    })
}

#[cfg(test)]
mod tests {
    use model::{JudgeProtocol, Limits, Points, TaskFiles};

    use super::*;

    fn case(name: &str, answer: Option<&str>) -> Case {
        Case {
            name: CaseName::new(name).unwrap(),
            input: Content::empty(),
            answer: answer.map(|answer| Content::Inline(answer.to_string().into())),
            args: Vec::new(),
            files: TaskFiles::new(),
            points: Points::ONE,
            group: None,
            limits: Limits::default(),
            is_sample: false,
        }
    }

    fn program() -> JudgeProgram {
        JudgeProgram {
            protocol: JudgeProtocol::Icpc,
            language: None,
            root: None,
            source: TaskFiles::new(),
            compile: None,
            execute: api::ExecuteStep::of_language().into(),
        }
    }

    fn with_cases(cases: &[Case]) -> UnpackedJudging {
        UnpackedJudging {
            cases: Some(cases.to_vec()),
            ..UnpackedJudging::default()
        }
    }

    #[test]
    fn the_check_that_is_left_out_depends_on_the_answers() {
        let check = |cases: &[Case], expected: Check| {
            let judging = with_cases(cases).into_judging().unwrap().unwrap();
            assert_eq!(judging.check, expected, "{cases:?}");
            assert_eq!(judging.stop, StopRule::Never);
        };
        check(&[case("1", None)], Check::None);
        check(&[], Check::None);
        let tokens = Check::Tokens(TokenCheck::default());
        check(&[case("1", Some("x"))], tokens.clone());
        check(&[case("1", None), case("2", Some(""))], tokens);
    }

    #[test]
    fn an_interactor_is_the_check() {
        let judging = UnpackedJudging {
            interact: Some(program()),
            ..with_cases(&[case("1", Some("x"))])
        };
        let judging = judging.into_judging().unwrap().unwrap();
        assert_eq!(judging.check, Check::Interactive(program()));
        assert_eq!(judging.program_field(), "interact");
    }

    #[test]
    fn fields_that_contradict_each_other_are_refused() {
        let name = ProblemName::new("hello").unwrap();
        let alone = |judging: UnpackedJudging| judging.into_judging().map(|judging| judging.is_some());
        let beside = |judging: UnpackedJudging| judging.refuse_beside_problem(&name).map(|()| false);
        let check =
            |found: Result<bool, InvalidField>, expected: Result<bool, (&str, &str)>| match (found, expected)
            {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(invalid), Err((field, words))) => {
                    assert_eq!(invalid.field, field, "{invalid}");
                    assert!(invalid.problem.contains(words), "{invalid}");
                }
                (found, expected) => panic!("{found:?} is not {expected:?}"),
            };
        let none = UnpackedJudging::default;
        let checked = || UnpackedJudging {
            check: Some(Check::Exact),
            ..none()
        };
        let interactive = || UnpackedJudging {
            interact: Some(program()),
            ..none()
        };
        let stopped = || UnpackedJudging {
            stop: Some(StopRule::Never),
            ..none()
        };
        let grouped = || UnpackedJudging {
            groups: [(CaseName::new("small").unwrap(), GroupScoring::Min)].into(),
            ..none()
        };
        let cases = || with_cases(&[case("1", None)]);
        check(alone(none()), Ok(false));
        check(alone(cases()), Ok(true));
        let without_cases = "give `cases`";
        check(alone(checked()), Err(("check", without_cases)));
        check(alone(interactive()), Err(("interact", without_cases)));
        check(alone(stopped()), Err(("stop", without_cases)));
        check(alone(grouped()), Err(("groups", without_cases)));
        let both = UnpackedJudging {
            check: Some(Check::None),
            interact: Some(program()),
            ..cases()
        };
        check(alone(both), Err(("check", "cannot be used with `interact`")));
        check(beside(none()), Ok(false));
        let set_by_problem = "is set by the problem 'hello'";
        check(beside(cases()), Err(("cases", set_by_problem)));
        check(beside(checked()), Err(("check", set_by_problem)));
        check(beside(interactive()), Err(("interact", set_by_problem)));
        check(beside(stopped()), Err(("stop", set_by_problem)));
        check(beside(grouped()), Err(("groups", set_by_problem)));
    }
}
