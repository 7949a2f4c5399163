//! What a store's failure means to a caller: one match for all of them.

use model::{Invalid, with_causes};
use rpc::CallError;
use store::StoreError;

pub(crate) fn refusal(error: StoreError) -> CallError {
    match error {
        StoreError::Conflict(id) => CallError::Conflict(id),
        StoreError::NoBlob(hash) => CallError::NoBlob(hash),
        StoreError::DamagedBlob(hash) => CallError::DamagedBlob(hash),
        StoreError::Unreadable { .. } => CallError::Unreadable(error.to_string()),
        StoreError::ForeignCursor => CallError::Invalid(Invalid::new(
            "after",
            "the cursor belongs to another search; use it with the search that gave it, or start without one",
        )),
        StoreError::TooMuch => CallError::Invalid(Invalid::new("tasks", error.to_string())),
        StoreError::Busy { .. } | StoreError::SearchTooLong { .. } => CallError::Busy(error.to_string()),
        StoreError::Full { .. } => CallError::Full(error.to_string()),
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
    fn a_search_that_was_stopped_is_no_fault_of_the_caller() {
        let limit = Duration::from_secs(5);
        let refused = refusal(StoreError::SearchTooLong { limit });
        assert!(matches!(refused, CallError::Busy(_)), "{refused:?}");
    }
}
