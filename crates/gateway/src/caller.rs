//! Who sent a request, and which tasks a caller may see.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use model::{InvalidField, TaskId, UserName};
use rpc::CallError;

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
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

impl Caller {
    /// Fails if the server has tokens and the request has no valid one.
    pub(crate) fn of_request(gateway: &Gateway, headers: &HeaderMap) -> Result<Caller, RequestError> {
        match &gateway.options.tokens {
            None => Ok(Caller::Anyone),
            Some(tokens) => sign_in::authenticated_user(tokens, headers).map(Caller::User),
        }
    }

    /// The owner of a new task that names this user.
    pub(crate) fn owner(&self, named: Option<UserName>) -> Result<UserName, InvalidField> {
        match (self, named) {
            (Caller::Anyone, Some(named)) => Ok(named),
            (Caller::Anyone, None) => {
                UserName::new(DEFAULT_USER).map_err(|error| InvalidField::new("user", error.to_string()))
            }
            (Caller::User(user), Some(named)) if named != *user => Err(InvalidField::new(
                "user",
                format!("is '{named}', but the token belongs to '{user}'; leave the user out"),
            )),
            (Caller::User(user), _) => Ok(user.clone()),
        }
    }

    /// Fails as if the task did not exist if it belongs to another user.
    pub(crate) fn check_owner(&self, loaded: LoadedTask) -> Result<LoadedTask, RequestError> {
        match self {
            Caller::User(user) if loaded.task.spec.user != *user => {
                Err(CallError::NoTask(loaded.task.id).into())
            }
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
        match self {
            Caller::Anyone => Ok(()),
            Caller::User(_) => {
                let loaded = gateway.load_task(quota, gateway.calls.get(id, None)).await?;
                self.check_owner(loaded).map(drop)
            }
        }
    }

    /// The user of the token, if the server has tokens.
    pub(crate) fn user(&self) -> Option<&UserName> {
        match self {
            Caller::Anyone => None,
            Caller::User(user) => Some(user),
        }
    }

    /// The user whose tasks a search may find.
    pub(crate) fn user_to_search(&self, named: Option<UserName>) -> Result<Option<UserName>, InvalidField> {
        match self {
            Caller::Anyone => Ok(named),
            Caller::User(_) => self.owner(named).map(Some),
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
    }
}
