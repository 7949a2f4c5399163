//! Who sent a request, and which tasks a caller may see.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use model::{InvalidField, ProblemEditor, TaskId, UserName};
use rpc::CallError;

use crate::GatewayOptions;
use crate::gateway::Gateway;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::sign_in;
use crate::task_loading::LoadedTask;

/// Who sent an HTTP request to the gateway: the user of its token, or anyone if the gateway has no tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The server has no tokens: every client may do everything, under any user name.
    Anyone,
    /// The user of the token.
    User(UserName),
    /// The same, if the operator of the server has named the user in `gateway.operators`: may operate the cluster, and may
    /// do with the tasks of all users what their owners may. What the caller adds is its own.
    Operator(UserName),
}

/// The owner of a task that names no user.
pub(crate) const DEFAULT_USER: &str = "anonymous";

/// Middleware that refuses requests without a valid token, if the server has tokens.
pub(crate) async fn authenticate(
    State(gateway): State<Arc<Gateway>>,
    mut request: Request,
    next: Next,
) -> Response {
    match Caller::of_request(&gateway, request.headers()) {
        Ok(caller) => {
            let sign_in = caller.user().and_then(|_| sign_in::time_left(request.headers()));
            request.extensions_mut().insert(caller);
            let response = next.run(request).await;
            match sign_in {
                Some(time_left) => end_events_after(time_left, response),
                None => response,
            }
        }
        Err(error) => error.into_response(),
    }
}

/// Ends a response with events when the sign-in is over with which it was requested. Downloads that have begun are not cut off.
fn end_events_after(time_left: Duration, response: Response) -> Response {
    let media_type = response.headers().get(header::CONTENT_TYPE);
    match media_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream")) {
        false => response,
        true => response
            .map(|body| Body::from_stream(body.into_data_stream().take_until(tokio::time::sleep(time_left)))),
    }
}

impl Caller {
    /// Fails if the server has tokens and the request has no valid one.
    pub(crate) fn of_request(gateway: &Gateway, headers: &HeaderMap) -> Result<Caller, RequestError> {
        match &gateway.options.tokens {
            None => Ok(Caller::Anyone),
            Some(tokens) => sign_in::authenticated_user(tokens, headers)
                .map(|user| Caller::of_user(user, &gateway.options)),
        }
    }

    pub(crate) fn of_user(user: UserName, options: &GatewayOptions) -> Caller {
        match options.operators.contains(&user) {
            true => Caller::Operator(user),
            false => Caller::User(user),
        }
    }

    /// `None` if the server has no tokens.
    pub(crate) fn user(&self) -> Option<&UserName> {
        match self {
            Caller::Anyone => None,
            Caller::User(user) | Caller::Operator(user) => Some(user),
        }
    }

    /// Whether the caller may drain and resume executors.
    pub(crate) fn may_operate(&self) -> bool {
        match self {
            Caller::Anyone | Caller::Operator(_) => true,
            Caller::User(_) => false,
        }
    }

    pub(crate) fn require_operator(&self) -> Result<(), RequestError> {
        match (self.may_operate(), self.user()) {
            (false, Some(user)) => Err(RequestError::NotOperator(user.clone())),
            _ => Ok(()),
        }
    }

    /// Whether the caller may see what the cases of this owner contain.
    pub(crate) fn may_see_cases_of(&self, owner: &UserName) -> bool {
        self.restricted_to().is_none_or(|user| user == owner)
    }

    /// Who the caller is to the judicator when it changes a problem.
    pub(crate) fn problem_editor(&self) -> ProblemEditor {
        match self.restricted_to() {
            Some(user) => ProblemEditor::Owner(user.clone()),
            None => ProblemEditor::Operator,
        }
    }

    /// The user whose tasks alone the caller may see and change. `None` for the tasks of all users.
    fn restricted_to(&self) -> Option<&UserName> {
        match self {
            Caller::Anyone | Caller::Operator(_) => None,
            Caller::User(user) => Some(user),
        }
    }

    /// The owner of a new task that names this user.
    pub(crate) fn owner(&self, named: Option<UserName>) -> Result<UserName, InvalidField> {
        match (self.user(), named) {
            (None, Some(named)) => Ok(named),
            (None, None) => {
                UserName::new(DEFAULT_USER).map_err(|error| InvalidField::new("user", error.to_string()))
            }
            (Some(user), Some(named)) if named != *user => Err(InvalidField::new(
                "user",
                format!("is '{named}', but the token belongs to '{user}'; leave the user out"),
            )),
            (Some(user), _) => Ok(user.clone()),
        }
    }

    /// The owner of a group that exists. Without a name, it is the caller.
    pub(crate) fn group_owner(&self, named: Option<UserName>) -> Result<UserName, InvalidField> {
        match (self.restricted_to(), named) {
            (None, Some(named)) => Ok(named),
            (_, named) => self.owner(named),
        }
    }

    /// Fails as if the task did not exist if it belongs to another user.
    pub(crate) fn check_owner(&self, loaded: LoadedTask) -> Result<LoadedTask, RequestError> {
        match self.restricted_to() {
            Some(user) if loaded.task.spec.user != *user => Err(CallError::NoTask(loaded.task.id).into()),
            _ => Ok(loaded),
        }
    }

    /// Like `check_owner`, for calls that would change the task or reveal it before the owner is known.
    pub(crate) async fn require_owner(
        &self,
        gateway: &Gateway,
        quota: &RequestQuota,
        id: TaskId,
    ) -> Result<(), RequestError> {
        match self.restricted_to() {
            None => Ok(()),
            Some(_) => {
                let loaded = gateway.load_task(quota, gateway.calls.get(id, None)).await?;
                self.check_owner(loaded).map(drop)
            }
        }
    }

    /// The user whose tasks a search may find.
    pub(crate) fn user_to_search(&self, named: Option<UserName>) -> Result<Option<UserName>, InvalidField> {
        match self.restricted_to() {
            None => Ok(named),
            Some(_) => self.owner(named).map(Some),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, RequestError> {
        // A route without `authenticate` has no caller; refusing the request is the safe choice.
        parts.extensions.get().cloned().ok_or(RequestError::MissingToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserName {
        UserName::new(name).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn events_end_with_the_sign_in() {
        const LEFT: Duration = Duration::from_secs(60);
        let ends_after = async |media_type: &'static str| {
            let hour = tokio::time::sleep(60 * LEFT);
            let body = Body::from_stream(
                futures::stream::iter([Ok::<_, std::io::Error>("data: x\n\n")])
                    .chain(futures::stream::pending().take_until(hour)),
            );
            let response = ([(header::CONTENT_TYPE, media_type)], body).into_response();
            let begun = tokio::time::Instant::now();
            let bytes = axum::body::to_bytes(end_events_after(LEFT, response).into_body(), 1 << 10);
            assert_eq!(bytes.await.unwrap(), "data: x\n\n");
            begun.elapsed()
        };
        assert!((LEFT..2 * LEFT).contains(&ends_after("text/event-stream").await));
        assert!(ends_after("application/zip").await >= 60 * LEFT);
    }

    #[test]
    fn the_token_decides_the_owner() {
        let ada = Caller::User(user("ada"));
        assert_eq!(ada.owner(None), Ok(user("ada")));
        assert_eq!(ada.owner(Some(user("ada"))), Ok(user("ada")));
        assert_eq!(ada.owner(Some(user("bob"))).unwrap_err().field, "user");
        assert_eq!(Caller::Anyone.owner(Some(user("bob"))), Ok(user("bob")));
        assert_eq!(Caller::Anyone.owner(None), Ok(user("anonymous")));
        assert_eq!(Caller::Anyone.user_to_search(None), Ok(None));
        assert_eq!(ada.user_to_search(None), Ok(Some(user("ada"))));
        assert_eq!(ada.group_owner(Some(user("bob"))).unwrap_err().field, "user");
    }

    #[test]
    fn an_operator_sees_all_tasks_and_owns_what_it_adds() {
        let options = GatewayOptions {
            operators: [user("root")].into(),
            ..GatewayOptions::default()
        };
        let operator = Caller::of_user(user("root"), &options);
        assert_eq!(operator, Caller::Operator(user("root")));
        assert_eq!(operator.owner(None), Ok(user("root")));
        assert_eq!(operator.owner(Some(user("bob"))).unwrap_err().field, "user");
        assert_eq!(operator.group_owner(Some(user("bob"))), Ok(user("bob")));
        assert_eq!(operator.group_owner(None), Ok(user("root")));
        assert_eq!(operator.user_to_search(None), Ok(None));
        assert_eq!(operator.user_to_search(Some(user("bob"))), Ok(Some(user("bob"))));
        let ada = Caller::of_user(user("ada"), &options);
        assert_eq!(ada, Caller::User(user("ada")));
        for (caller, expected) in [(operator, true), (ada, false), (Caller::Anyone, true)] {
            assert_eq!(caller.may_operate(), expected);
            assert_eq!(caller.require_operator().is_ok(), expected);
        }
    }
}
