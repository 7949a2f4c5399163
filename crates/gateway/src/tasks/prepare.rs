//! Builds the request to the judicator from the task in an HTTP request.

use api::NewTask;
use model::{AddTask, BlobHash, Content, InvalidField, TaskFile, TaskFiles, TaskId, TaskSpec, WorkspacePath};
use rpc::CallError;

use super::idempotency_key::{self, IdempotencyKey};
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
    let mut source = unpacker.unpack_files("source", source).await?;
    let names_source_code = source_code.is_some();
    if let Some(content) = source_code {
        add_source_code(&mut source, content)?;
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

/// Adds the lone source file under the path that stands for the language's own name.
fn add_source_code(source: &mut TaskFiles, content: Content) -> Result<(), InvalidField> {
    let path = WorkspacePath::new(AddTask::SOURCE_CODE)
        .map_err(|error| InvalidField::new(AddTask::SOURCE_CODE, error.to_string()))?;
    let executable = false;
    match source.insert(path, TaskFile { content, executable }) {
        None => Ok(()),
        Some(_) => Err(InvalidField::new(
            AddTask::SOURCE_CODE,
            "is given, and source has a file of that name; rename the file",
        )),
    }
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

/// The error for a blob that a task refers to and that does not exist: status 422 with the field, not 404.
pub(super) fn missing_blob_error(error: CallError, specs: &[(String, &TaskSpec)]) -> RequestError {
    let CallError::NoBlob(missing) = error else {
        return error.into();
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
}

#[cfg(test)]
mod tests {
    use model::{StepCommand, UserName};

    use super::*;

    #[test]
    fn the_error_for_a_missing_blob_names_its_field() {
        let blob = BlobHash([7; 32]);
        let file = TaskFile {
            content: Content::Blob(blob),
            executable: false,
        };
        let mut spec = TaskSpec::new(UserName::new("ada").unwrap(), StepCommand::Shell("true".into()));
        spec.data = [(WorkspacePath::new("big.bin").unwrap(), file)].into();
        let error = missing_blob_error(CallError::NoBlob(blob), &[("tasks[3].".into(), &spec)]);
        assert_eq!(
            error.problem().field.as_deref(),
            Some("tasks[3].data.big.bin.blob")
        );
        assert_eq!(error.problem().status, 422);
    }
}
