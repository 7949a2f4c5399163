//! From what a user wrote to what a judicator is asked to add.

use api::NewTask;
use model::{Add, BlobHash, Content, FilePath, Invalid, TaskId, TaskSpec};
use rpc::CallError;

use super::key::{self, Key};
use super::unpacking::Unpacking;
use crate::caller::Caller;
use crate::refusal::Refusal;

pub(super) async fn prepare(
    unpacking: &mut Unpacking<'_>,
    caller: &Caller,
    key: Option<&Key>,
    new: NewTask,
) -> Result<Add, Refusal> {
    let NewTask {
        id,
        user,
        priority,
        source,
        data,
        compile,
        execute,
    } = new;
    let user = caller.owner(user)?;
    let id = match (id, key.map(|key| key.id(&user))) {
        (Some(id), Some(made)) if id != made => {
            let problem = format!(
                "is {id}, but the {} makes it {made}; send only one of them",
                key::HEADER
            );
            return Err(Invalid::new("id", problem).into());
        }
        (_, Some(made)) => made,
        (Some(id), None) => {
            key::refuse_form_of_keys(id)?;
            id
        }
        (None, None) => TaskId::generate(),
    };
    let spec = TaskSpec {
        user,
        priority,
        compile: compile.map(Into::into),
        execute: execute.into(),
        source: unpacking.unpacked("source", source).await?,
        data: unpacking.unpacked("data", data).await?,
    };
    Ok(Add { id, spec })
}

/// An id that is taken, by the caller's task of other content or by another user's task: the answer is the same.
/// `index` is the place in a batch.
pub(super) fn blame_conflict(id: TaskId, index: Option<usize>, key: Option<&Key>) -> Refusal {
    let field = match (index, key) {
        (Some(index), Some(_)) => format!("tasks[{index}]"),
        (Some(index), None) => format!("tasks[{index}].id"),
        (None, Some(_)) => key::HEADER.to_string(),
        (None, None) => "id".to_string(),
    };
    let remedy = match key {
        Some(_) => "send another Idempotency-Key",
        None => "choose another id",
    };
    Refusal::Conflict { field, id, remedy }
}

/// A blob that a task names and nobody has put is the task's mistake, not a missing page.
pub(super) fn blame_missing_blob(error: CallError, specs: &[(String, &TaskSpec)]) -> Refusal {
    let CallError::NoBlob(missing) = error else {
        return error.into();
    };
    let named = specs
        .iter()
        .find_map(|(prefix, spec)| place_of(spec, missing).map(|place| format!("{prefix}{place}.blob")));
    let field = named.unwrap_or_else(|| "source".to_string());
    Invalid::new(field, error.to_string()).into()
}

fn place_of(spec: &TaskSpec, blob: BlobHash) -> Option<String> {
    let named = |content: &Content| content.blob() == Some(blob);
    let within = |field: &str, files: &model::Files| {
        let found = files.iter().find(|(_, file)| named(&file.content));
        found.map(|(path, _): (&FilePath, _)| format!("{field}.{path}"))
    };
    within("source", &spec.source)
        .or_else(|| within("data", &spec.data))
        .or_else(|| named(&spec.execute.input).then(|| "execute.input".to_string()))
}

#[cfg(test)]
mod tests {
    use model::{Command, File, UserName};

    use super::*;

    #[test]
    fn a_missing_blob_is_named_by_its_place() {
        let blob = BlobHash([7; 32]);
        let file = File {
            content: Content::Blob(blob),
            executable: false,
        };
        let spec = TaskSpec {
            user: UserName::new("ada").unwrap(),
            priority: 0,
            compile: None,
            execute: NewTask::new(Command::Shell("true".into())).execute.into(),
            source: model::Files::new(),
            data: [(FilePath::new("big.bin").unwrap(), file)].into(),
        };
        let refusal = blame_missing_blob(CallError::NoBlob(blob), &[("tasks[3].".into(), &spec)]);
        assert_eq!(
            refusal.problem().field.as_deref(),
            Some("tasks[3].data.big.bin.blob")
        );
        assert_eq!(refusal.problem().status, 422);
    }
}
