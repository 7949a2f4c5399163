//! Converts store errors into call errors, in one exhaustive match.

use error_causes::with_causes;
use model::InvalidField;
use rpc::CallError;
use store::StoreError;

pub(crate) fn call_error(error: StoreError) -> CallError {
    match error {
        StoreError::Conflict(id) => CallError::Conflict(id),
        StoreError::BlobNotFound(hash) => CallError::NoBlob(hash),
        StoreError::DamagedBlob(hash) => CallError::DamagedBlob(hash),
        StoreError::NotOwner(problem) => CallError::NotOwner(problem),
        StoreError::TooManyProblems { .. } | StoreError::TooManyProblemsOfOwner { .. } => {
            CallError::Invalid(InvalidField::new("name", error.to_string()))
        }
        StoreError::NewerForm(form) => CallError::NewerForm(form),
        StoreError::Unreadable { .. } => CallError::Unreadable(error.to_string()),
        StoreError::ForeignCursor => CallError::Invalid(InvalidField::new(
            "after",
            "the cursor belongs to another search; use it with the search that gave it, or start without one",
        )),
        StoreError::BatchTooLarge => CallError::Invalid(InvalidField::new("tasks", error.to_string())),
        StoreError::Busy { .. } | StoreError::SearchTimeout { .. } => CallError::Busy(error.to_string()),
        StoreError::DiskFull { .. } => CallError::Full(error.to_string()),
        StoreError::Closed => CallError::Unavailable("the judicator is stopping".into()),
        other if other.is_transient() => CallError::Unavailable(with_causes(&other)),
        other => CallError::Internal(with_causes(&other)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_search_that_ran_too_long_is_reported_as_busy() {
        let limit = Duration::from_secs(5);
        let error = call_error(StoreError::SearchTimeout { limit });
        assert!(matches!(error, CallError::Busy(_)), "{error:?}");
    }
}
