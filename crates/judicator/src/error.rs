//! What a store's failure means to a caller: one match for all of them.

use std::error::Error as _;

use model::Invalid;
use rpc::CallError;
use store::StoreError;

pub(crate) fn refusal(error: StoreError) -> CallError {
    match error {
        StoreError::Conflict(id) => CallError::Conflict(id),
        StoreError::NoBlob(hash) => CallError::NoBlob(hash),
        StoreError::ForeignCursor => CallError::Invalid(Invalid::new(
            "after",
            "the cursor belongs to another search; use it with the search that gave it, or start without one",
        )),
        StoreError::SearchTooLong { .. } => CallError::Invalid(Invalid::new("text", error.to_string())),
        StoreError::Full { .. } => CallError::Full(error.to_string()),
        StoreError::Closed => CallError::Unavailable("the judicator is stopping".into()),
        other if other.is_transient() => CallError::Unavailable(whole(&other)),
        other => CallError::Internal(whole(&other)),
    }
}

/// An error with its causes, on one line.
pub(crate) fn whole(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
