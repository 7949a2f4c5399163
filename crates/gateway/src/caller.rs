//! Authentication by token, and which tasks a caller may see.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{InvalidField, TaskId, UserName};
use rpc::CallError;

use crate::gateway::Gateway;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
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
const DEFAULT_USER: &str = "anonymous";

/// Middleware that refuses requests without a valid token, if the server has tokens.
pub(crate) async fn authenticate(
    State(gateway): State<Arc<Gateway>>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = match &gateway.options.tokens {
        None => Caller::Anyone,
        Some(tokens) => {
            let Some(token) = token_from_headers(request.headers()) else {
                return challenge(&request, RequestError::MissingToken);
            };
            match tokens.user(&token) {
                Some(user) => Caller::User(user),
                None => return challenge(&request, RequestError::UnknownToken),
            }
        }
    };
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// The token of a `Bearer` header, or the password of a `Basic` header, which browsers send.
fn token_from_headers(headers: &HeaderMap) -> Option<String> {
    let (scheme, value) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        Some(value.trim().to_string())
    } else if scheme.eq_ignore_ascii_case("basic") {
        let decoded = String::from_utf8(STANDARD.decode(value.trim()).ok()?).ok()?;
        decoded.split_once(':').map(|(_, password)| password.to_string())
    } else {
        None
    }
}

/// Makes browsers ask for the token if the request is for a page.
fn challenge(request: &Request, error: RequestError) -> Response {
    let mut response = error.into_response();
    if !request.uri().path().starts_with("/api/") {
        let basic = HeaderValue::from_static("Basic realm=\"Conclave: any name, the token as password\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, basic);
    }
    response
}

impl Caller {
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
    fn tokens_are_read_from_bearer_and_basic_headers() {
        let check = |value: &str, expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            assert_eq!(token_from_headers(&headers).as_deref(), expected, "{value}");
        };
        check("Bearer abc", Some("abc"));
        check("bearer  abc", Some("abc"));
        check("Basic eDphYmM=", Some("abc"));
        check("Basic !", None);
        check("Digest abc", None);
        check("abc", None);
        assert_eq!(token_from_headers(&HeaderMap::new()), None);
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
