//! Who sent a request, and which tasks a caller may see.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use model::{InvalidField, TaskId, UserName};
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
