//! Whether the files of a task fit into the space that it asks for.

use std::collections::{HashMap, HashSet};

use model::{BlobHash, Case, Content, InvalidField, JudgeProgram, Judging, TaskFiles, TaskSpec};

/// Whether anything bounds the sizes of the contents of the task.
pub(super) fn has_bound(spec: &TaskSpec) -> bool {
    spec.space().is_some() || spec.judging.is_some()
}

/// What a cell of the task holds must fit into its space. Who submits a program must not learn the sizes of the cases of a
/// problem from the error.
pub(in crate::calls) fn check_space(
    spec: &TaskSpec,
    sizes: &HashMap<BlobHash, u64>,
) -> Result<(), InvalidField> {
    check_cells(spec, sizes).map_err(|invalid| match spec.problem {
        Some(_) => InvalidField::new(
            "execute.limits.space",
            "is less than what the files of the task and those of its problem need; raise it, or send less",
        ),
        None => invalid,
    })
}

/// A blob that is used twice in a cell counts twice.
fn check_cells(spec: &TaskSpec, sizes: &HashMap<BlobHash, u64>) -> Result<(), InvalidField> {
    let sizes = ContentSizes(sizes);
    let files = sizes
        .of_files(&spec.source)
        .saturating_add(sizes.of_files(&spec.data));
    let needed = files.saturating_add(sizes.of(&spec.execute.input));
    check(
        "execute.limits.space",
        "is less than the size of the task's files and input; raise it, or send less",
        needed,
        spec.space(),
    )?;
    let Some(judging) = &spec.judging else {
        return Ok(());
    };
    check(
        "cases",
        "have contents that are too large together; leave some out, or divide them among tasks",
        sizes.of_blobs(judging.contents().filter_map(Content::blob)),
        Some(Judging::MAX_BLOB_BYTES),
    )?;
    let program = judging.check.program();
    for (index, case) in judging.cases.iter().enumerate() {
        let own = sizes.of(&case.input).saturating_add(sizes.of_files(&case.files));
        check(
            &format!("cases[{index}].limits.space"),
            "is less than the size of the task's files with those and the input of this case; raise it, or send less",
            files.saturating_add(own),
            case.limits.space.or(spec.space()),
        )?;
        if let Some(program) = program {
            check(
                &format!("{}.limits.space", judging.program_field()),
                "is less than the size of the program's files with the input and the answer of a case; raise it",
                sizes.of_judge(program, case),
                program.execute.limits.space,
            )?;
        }
    }
    Ok(())
}

fn check(field: &str, problem: &str, needed: u64, space: Option<u64>) -> Result<(), InvalidField> {
    match space {
        Some(space) if needed > space => Err(InvalidField::over_limit(
            field,
            problem,
            format!("{space} bytes"),
            format!("{needed} bytes"),
        )),
        _ => Ok(()),
    }
}

/// The sizes of the blobs that a new task names.
struct ContentSizes<'a>(&'a HashMap<BlobHash, u64>);

impl ContentSizes<'_> {
    /// The store itself refuses a missing blob.
    fn of(&self, content: &Content) -> u64 {
        match content {
            Content::Inline(bytes) => bytes.len() as u64,
            Content::Blob(hash) => self.0.get(hash).copied().unwrap_or(0),
        }
    }

    /// Each blob counts once.
    fn of_blobs(&self, blobs: impl Iterator<Item = BlobHash>) -> u64 {
        let distinct: HashSet<_> = blobs.collect();
        let sizes = distinct.iter().filter_map(|hash| self.0.get(hash));
        sizes.fold(0, |sum: u64, size| sum.saturating_add(*size))
    }

    fn of_files(&self, files: &TaskFiles) -> u64 {
        files
            .values()
            .fold(0, |sum: u64, file| sum.saturating_add(self.of(&file.content)))
    }

    /// What the cell of the program that judges holds for this case, besides the output.
    fn of_judge(&self, program: &JudgeProgram, case: &Case) -> u64 {
        let contents = [&case.input].into_iter().chain(&case.answer);
        contents.fold(self.of_files(&program.source), |sum, content| {
            sum.saturating_add(self.of(content))
        })
    }
}

#[cfg(test)]
mod tests {
    use model::{CaseName, Check, Limits, Points, ProblemName, StepCommand, StopRule, UserName};

    use super::*;

    fn bytes(count: usize) -> Content {
        Content::Inline(vec![b'x'; count].into())
    }

    fn case(input: usize, answer: usize, space: Option<u64>) -> Case {
        Case {
            name: CaseName::new(format!("{input}-{answer}")).unwrap(),
            input: bytes(input),
            answer: Some(bytes(answer)),
            args: vec![],
            files: TaskFiles::new(),
            points: Points::ONE,
            group: None,
            limits: Limits {
                space,
                ..Limits::default()
            },
            is_sample: false,
        }
    }

    /// A task with a space of 10 bytes.
    fn judged(cases: Vec<Case>) -> TaskSpec {
        let user = UserName::new("ada").unwrap();
        let mut spec = TaskSpec::new(user, StepCommand::Shell("true".into()));
        spec.execute.limits.space = Some(10);
        spec.judging = Some(Judging {
            cases,
            check: Check::Exact,
            stop: StopRule::Never,
            groups: [].into(),
            problem: None,
        });
        spec
    }

    /// Each case has a workspace of its own, so their inputs do not add up, and no answer is in the cell of the program.
    #[test]
    fn each_case_must_fit_by_itself() {
        let check = |cases: Vec<Case>, expected: Option<&str>| {
            let found = check_space(&judged(cases), &HashMap::new());
            assert_eq!(found.err().map(|invalid| invalid.field).as_deref(), expected);
        };
        check(vec![case(10, 10, None), case(10, 1000, None)], None);
        check(
            vec![case(1, 1, None), case(11, 0, None)],
            Some("cases[1].limits.space"),
        );
        check(vec![case(11, 0, Some(11))], None);
        check(vec![case(5, 0, Some(4))], Some("cases[0].limits.space"));
    }

    #[test]
    fn an_error_does_not_tell_the_size_of_a_problem() {
        let mut spec = judged(vec![case(11, 0, None)]);
        spec.problem = ProblemName::new("sum").ok();
        let invalid = check_space(&spec, &HashMap::new()).unwrap_err();
        assert_eq!(invalid.field, "execute.limits.space");
        assert_eq!((invalid.limit, invalid.actual), (None, None));
    }

    /// An executor keeps all of them at once.
    #[test]
    fn the_blobs_of_all_cases_are_bounded_together() {
        let check = |sizes: &[u64], expected: Option<&str>| {
            let blobs: Vec<_> = (0..)
                .map(|number| BlobHash([number; 32]))
                .zip(sizes.iter().copied())
                .collect();
            let cases = blobs.iter().map(|(hash, _)| Case {
                answer: Some(Content::Blob(*hash)),
                ..case(0, 0, None)
            });
            let mut spec = judged(cases.clone().chain(cases).collect());
            spec.execute.limits.space = None;
            let found = check_space(&spec, &blobs.into_iter().collect());
            assert_eq!(found.err().map(|invalid| invalid.field).as_deref(), expected);
        };
        let most = Judging::MAX_BLOB_BYTES;
        check(&[most], None);
        check(&[most - 1, 1], None);
        check(&[most - 1, 2], Some("cases"));
    }
}
