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
        StoreError::SearchTooLong { .. } => CallError::Invalid(Invalid::new("text", error.to_string())),
        StoreError::TooMuch => CallError::Invalid(Invalid::new("tasks", error.to_string())),
        StoreError::Busy { .. } => CallError::Busy(error.to_string()),
        StoreError::Full { .. } => CallError::Full(error.to_string()),
        StoreError::Closed => CallError::Unavailable("the judicator is stopping".into()),
        other if other.is_transient() => CallError::Unavailable(with_causes(&other)),
        other => CallError::Internal(with_causes(&other)),
    }
}
