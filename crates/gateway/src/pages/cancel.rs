use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Redirect;

use crate::admission::Admission;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::TaskPath;
use crate::refusal::Refusal;
use crate::tasks::cancel_own;

/// The button on a task's page; `cross_site` has made sure that it was this server's own.
pub(crate) async fn cancel(
    State(gateway): State<Arc<Gateway>>,
    Extension(admission): Extension<Admission>,
    caller: Caller,
    TaskPath(id): TaskPath,
) -> Result<Redirect, Refusal> {
    let page = Redirect::to(&format!("/tasks/{id}"));
    match cancel_own(&gateway, &admission, &caller, id).await {
        // It was quicker than the person: its page says how it ended.
        Ok(_) | Err(Refusal::Done { .. }) => Ok(page),
        Err(refusal) => Err(refusal),
    }
}
