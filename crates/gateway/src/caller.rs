//! Who is calling, and what is theirs.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{Invalid, TaskId, UserName};
use rpc::CallError;

use crate::admission::Admission;
use crate::gateway::Gateway;
use crate::loaded::Loaded;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// There are no tokens: everyone may do everything, under any name.
    Anyone,
    User(UserName),
}

/// The owner of a task when nobody says.
const NOBODY: &str = "anonymous";

/// Lets in who has a token, when there are tokens.
pub(crate) async fn require(
    State(gateway): State<Arc<Gateway>>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = match &gateway.options.tokens {
        None => Caller::Anyone,
        Some(tokens) => {
            let Some(token) = token(request.headers()) else {
                return challenge(&request, Refusal::NoToken);
            };
            match tokens.user(&token) {
                Some(user) => Caller::User(user),
                None => return challenge(&request, Refusal::UnknownToken),
            }
        }
    };
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// A program sends the token as it is; a browser sends it as the password that it asks a person for.
fn token(headers: &HeaderMap) -> Option<String> {
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

fn challenge(request: &Request, refusal: Refusal) -> Response {
    let mut response = refusal.into_response();
    if !request.uri().path().starts_with("/api/") {
        let basic = HeaderValue::from_static("Basic realm=\"Conclave: any name, the token as password\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, basic);
    }
    response
}

impl Caller {
    /// The owner of a new task.
    pub(crate) fn owner(&self, named: Option<UserName>) -> Result<UserName, Invalid> {
        match (self, named) {
            (Caller::Anyone, Some(named)) => Ok(named),
            (Caller::Anyone, None) => {
                UserName::new(NOBODY).map_err(|error| Invalid::new("user", error.to_string()))
            }
            (Caller::User(user), Some(named)) if named != *user => Err(Invalid::new(
                "user",
                format!("is '{named}', but the token is {user}'s; leave it out"),
            )),
            (Caller::User(user), _) => Ok(user.clone()),
        }
    }

    /// Another user's task is as good as none: not even its existence is told.
    pub(crate) fn own(&self, loaded: Loaded) -> Result<Loaded, Refusal> {
        match self {
            Caller::User(user) if loaded.task.spec.user != *user => {
                Err(CallError::NoTask(loaded.task.id).into())
            }
            _ => Ok(loaded),
        }
    }

    /// Looks first where the answer alone would tell or change too much.
    pub(crate) async fn must_own(
        &self,
        gateway: &Gateway,
        admission: &Admission,
        id: TaskId,
    ) -> Result<(), Refusal> {
        match self {
            Caller::Anyone => Ok(()),
            Caller::User(_) => {
                let loaded = gateway.load(admission, gateway.calls.get(id, None)).await?;
                self.own(loaded).map(drop)
            }
        }
    }

    /// Whose tasks a search may find.
    pub(crate) fn searched(&self, named: Option<UserName>) -> Result<Option<UserName>, Invalid> {
        match self {
            Caller::Anyone => Ok(named),
            Caller::User(_) => self.owner(named).map(Some),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Refusal> {
        // A route outside of `require` has no caller; refusing is the safe reading.
        parts.extensions.get().cloned().ok_or(Refusal::NoToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserName {
        UserName::new(name).unwrap()
    }

    #[test]
    fn tokens_come_in_two_ways() {
        let check = |value: &str, expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            assert_eq!(token(&headers).as_deref(), expected, "{value}");
        };
        check("Bearer abc", Some("abc"));
        check("bearer  abc", Some("abc"));
        check("Basic eDphYmM=", Some("abc"));
        check("Basic !", None);
        check("Digest abc", None);
        check("abc", None);
        assert_eq!(token(&HeaderMap::new()), None);
    }

    #[test]
    fn a_token_names_the_owner() {
        let ada = Caller::User(user("ada"));
        assert_eq!(ada.owner(None), Ok(user("ada")));
        assert_eq!(ada.owner(Some(user("ada"))), Ok(user("ada")));
        assert_eq!(ada.owner(Some(user("bob"))).unwrap_err().field, "user");
        assert_eq!(Caller::Anyone.owner(Some(user("bob"))), Ok(user("bob")));
        assert_eq!(Caller::Anyone.owner(None), Ok(user("anonymous")));
        assert_eq!(Caller::Anyone.searched(None), Ok(None));
        assert_eq!(ada.searched(None), Ok(Some(user("ada"))));
    }
}
