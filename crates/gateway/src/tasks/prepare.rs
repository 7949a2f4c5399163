//! Builds the request to the judicator from the task in an HTTP request.

use api::NewTask;
use model::{AddTask, BlobHash, Content, InvalidField, Judging, TaskFiles, TaskId, TaskSpec, WorkspacePath};
use rpc::CallError;

use super::idempotency_key::{self, IdempotencyKey};
use super::requested_judging::RequestedJudging;
use super::zip_unpacker::ZipUnpacker;
use crate::caller::Caller;
use crate::request_error::RequestError;

/// Decides the owner and the id of the task, and unpacks its zips.
pub(super) async fn prepare(
    unpacker: &mut ZipUnpacker<'_>,
    caller: &Caller,
    key: Option<&IdempotencyKey>,
    new: NewTask,
) -> Result<AddTask, RequestError> {
    let NewTask {
        id,
        user,
        priority,
        language,
        root,
        wait_for_executor,
        source_code,
        source,
        data,
        compile,
        execute,
        cases,
        check,
        interact,
        stop,
        groups,
        problem,
        keep,
        labels,
        group,
        attempts,
    } = new;
    let user = caller.owner(user)?;
    let id = match (id, key.map(|key| key.id(&user))) {
        (Some(id), Some(derived)) if id != derived => {
            let problem = format!(
                "is {id}, but the id derived from the {} is {derived}; send only one of them",
                idempotency_key::HEADER
            );
            return Err(InvalidField::new("id", problem).into());
        }
        (_, Some(derived)) => derived,
        (Some(id), None) => {
            idempotency_key::refuse_derived_form(id)?;
            id
        }
        (None, None) => TaskId(uuid::Uuid::now_v7()),
    };
    let names_source_code = source_code.is_some();
    let source = unpacker.unpack_source(source_code, source).await?;
    let judging = RequestedJudging {
        cases,
        check,
        interact,
        stop,
        groups,
    };
    let judging = judging.unpack(unpacker).await?;
    if let Some(name) = &problem {
        judging.refuse_beside_problem(name)?;
    }
    let spec = TaskSpec {
        user,
        priority,
        language,
        root,
        compile: compile.map(Into::into),
        execute: execute.into(),
        source,
        data: unpacker.unpack_files("data", data).await?,
        judging: judging.into_judging()?,
        problem,
        keep,
        labels,
        group,
        attempts,
        retry_of: None,
    };
    Ok(AddTask {
        id,
        spec,
        names_source_code,
        wait_for_executor,
    })
}

/// The error for an id that exists already, with the same text for the caller's and for another user's task.
/// `index` is the index in a batch.
pub(super) fn conflict_error(id: TaskId, index: Option<usize>, key: Option<&IdempotencyKey>) -> RequestError {
    let field = match (index, key) {
        (Some(index), Some(_)) => format!("tasks[{index}]"),
        (Some(index), None) => format!("tasks[{index}].id"),
        (None, Some(_)) => idempotency_key::HEADER.to_string(),
        (None, None) => "id".to_string(),
    };
    let remedy = match key {
        Some(_) => "send another Idempotency-Key",
        None => "choose another id",
    };
    RequestError::Conflict { field, id, remedy }
}

/// The error of a call that adds tasks, with the field as the request spells it. That of a blob that does not exist has status
/// 422, not 404.
pub(super) fn add_error(error: CallError, specs: &[(String, &TaskSpec)]) -> RequestError {
    let missing = match error {
        CallError::NoBlob(missing) => missing,
        CallError::Invalid(invalid) => return spelled_as_requested(invalid).into(),
        other => return other.into(),
    };
    let named = specs.iter().find_map(|(prefix, spec)| {
        field_with_blob(spec, missing).map(|field| format!("{prefix}{field}.blob"))
    });
    let field = named.unwrap_or_else(|| "source".to_string());
    InvalidField::new(field, error.to_string()).into()
}

/// The field that refers to the blob.
fn field_with_blob(spec: &TaskSpec, blob: BlobHash) -> Option<String> {
    let named = |content: &Content| content.blob() == Some(blob);
    let within = |field: &str, files: &model::TaskFiles| {
        let found = files.iter().find(|(_, file)| named(&file.content));
        found.map(|(path, _): (&WorkspacePath, _)| format!("{field}.{path}"))
    };
    within("source", &spec.source)
        .or_else(|| within("data", &spec.data))
        .or_else(|| named(&spec.execute.input).then(|| "execute.input".to_string()))
        .or_else(|| field_of_judging(spec.judging.as_ref()?, blob))
}

/// The judicator checks a program that judges like a task of its own. In a request, it has no `execute`: the fields of that step
/// are its own.
pub(crate) fn spelled_as_requested(invalid: InvalidField) -> InvalidField {
    let spelled = ["check", "interact"].into_iter().find_map(|program| {
        let (before, after) = invalid.field.split_once(&format!("{program}.execute."))?;
        // In a batch, the task comes first.
        let is_whole = before.is_empty() || before.ends_with("].");
        is_whole.then(|| format!("{before}{program}.{after}"))
    });
    match spelled {
        Some(field) => InvalidField { field, ..invalid },
        None => invalid,
    }
}

/// The field of the cases or of the program that judges.
pub(crate) fn field_of_judging(judging: &Judging, blob: BlobHash) -> Option<String> {
    let named = |content: &Content| content.blob() == Some(blob);
    let file_of = |files: &TaskFiles| {
        let found = files.iter().find(|(_, file)| named(&file.content));
        found.map(|(path, _)| path.to_string())
    };
    let cases = judging.cases.iter().enumerate();
    let in_cases = cases.filter_map(|(index, case)| {
        let member = match () {
            () if named(&case.input) => "input".to_string(),
            () if case.answer.as_ref().is_some_and(named) => "answer".to_string(),
            () => format!("files.{}", file_of(&case.files)?),
        };
        Some(format!("cases[{index}].{member}"))
    });
    let program = || {
        judging
            .check
            .program()
            .and_then(|program| file_of(&program.source))
    };
    let in_program = || program().map(|path| format!("{}.source.{path}", judging.program_field()));
    in_cases.into_iter().next().or_else(in_program)
}

#[cfg(test)]
mod tests {
    use model::{StepCommand, TaskFile, UserName};

    use super::*;
    use crate::fake_judging::judging;

    #[test]
    fn the_error_for_a_missing_blob_names_its_field() {
        let blob = BlobHash([7; 32]);
        let file = TaskFile {
            content: Content::Blob(blob),
            executable: false,
        };
        let mut spec = TaskSpec::new(UserName::new("ada").unwrap(), StepCommand::Shell("true".into()));
        spec.data = [(WorkspacePath::new("big.bin").unwrap(), file)].into();
        let error = add_error(CallError::NoBlob(blob), &[("tasks[3].".into(), &spec)]);
        assert_eq!(
            error.problem().field.as_deref(),
            Some("tasks[3].data.big.bin.blob")
        );
        assert_eq!(error.problem().status, 422);
    }

    #[test]
    fn the_error_for_a_missing_blob_names_its_place_in_the_judging() {
        let blob = BlobHash([7; 32]);
        let check = |change: fn(&mut Judging, Content), expected: &str| {
            let mut judging = judging();
            change(&mut judging, Content::Blob(blob));
            assert_eq!(field_of_judging(&judging, blob).as_deref(), Some(expected));
        };
        check(|judging, blob| judging.cases[1].input = blob, "cases[1].input");
        check(
            |judging, blob| judging.cases[0].answer = Some(blob),
            "cases[0].answer",
        );
        check(
            |judging, blob| {
                judging.cases[1]
                    .files
                    .values_mut()
                    .for_each(|file| file.content = blob.clone());
            },
            "cases[1].files.extra",
        );
        let in_program = |judging: &mut Judging, blob: Content| {
            let program = judging.check.program_mut().unwrap();
            program
                .source
                .values_mut()
                .for_each(|file| file.content = blob.clone());
        };
        check(in_program, "check.source.check.py");
        assert_eq!(field_of_judging(&judging(), blob), None);
    }

    #[test]
    fn errors_spell_fields_as_the_request_does() {
        let check = |field: &str, expected: &str| {
            assert_eq!(
                spelled_as_requested(InvalidField::new(field, "x")).field,
                expected
            );
        };
        check("check.execute.command", "check.command");
        check("interact.execute.limits.cpu", "interact.limits.cpu");
        check("tasks[7].check.execute.args[0]", "tasks[7].check.args[0]");
        check("execute.command", "execute.command");
        check("check.language", "check.language");
        check("source.check.execute.py", "source.check.execute.py");
    }
}
