//! Connections to etcd that fail within seconds, and say why.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use etcd_client::Client;
use registry::etcd::{Access, AccessError};
use thiserror::Error;
use tokio::net::TcpStream;

/// A member that is well answers within milliseconds; one without a leader lets callers wait.
pub(crate) const ANSWER: Duration = Duration::from_secs(3);

/// Checking a password is hard work for etcd, by design, and it goes on with it when nobody waits any more.
const LOG_IN: Duration = Duration::from_secs(10);

#[derive(Debug, Error)]
pub enum DialError {
    #[error(
        "etcd at {at} does not accept this node's secret; secrets.cluster_file has to be the same on all nodes"
    )]
    WrongSecret { at: String },
    #[error("etcd at {at} asks for a login; name the cluster's secret with secrets.cluster_file")]
    NeedsSecret { at: String },
    #[error("etcd at {at} cannot be reached")]
    Connect {
        at: String,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("etcd at {at} did not answer in time")]
    Silent { at: String },
    #[error("etcd at {at} could not {what}")]
    Call {
        at: String,
        what: &'static str,
        #[source]
        source: etcd_client::Error,
    },
}

impl DialError {
    /// Whether asking again, or asking another member, cannot help.
    pub(crate) fn is_final(&self) -> bool {
        matches!(
            self,
            DialError::WrongSecret { .. }
                | DialError::NeedsSecret { .. }
                | DialError::Access(AccessError::File { .. })
        )
    }

    /// Whether etcd refused with a message that has these words in it.
    pub(crate) fn says(&self, words: &str) -> bool {
        matches!(self, DialError::Call { source, .. } if message(source).contains(words))
    }
}

/// Without a login: enough to ask about the cluster, and all that a learner allows.
pub(crate) async fn dial_anonymously(access: &Access, at: &str) -> Result<Client, DialError> {
    // The client would not tell why it cannot connect; it would only be silent.
    let connected = tokio::time::timeout(ANSWER, TcpStream::connect(at)).await;
    match connected {
        Ok(Ok(_)) => {}
        Ok(Err(source)) => {
            return Err(DialError::Connect {
                at: at.to_string(),
                source,
            });
        }
        Err(_) => return Err(DialError::Silent { at: at.to_string() }),
    }
    let anonymous = Access {
        login: None,
        ..access.at(vec![at.to_string()])
    };
    Ok(anonymous.connect().await?)
}

/// With the login, where there is one. A cluster that has not been told to ask for logins yet is taken as it is.
pub(crate) async fn dial(access: &Access, at: &str) -> Result<Client, DialError> {
    if access.login.is_none() {
        return dial_anonymously(access, at).await;
    }
    match log_in(access, at).await {
        Err(error) if error.says(NOT_ENABLED) => dial_anonymously(access, at).await,
        result => result,
    }
}

pub(crate) const NOT_ENABLED: &str = "authentication is not enabled";

/// With the login and nothing else.
pub(crate) async fn log_in(access: &Access, at: &str) -> Result<Client, DialError> {
    let mut client = dial_anonymously(access, at).await?;
    let user = access
        .login
        .as_ref()
        .map(|login| (login.user.clone(), login.password.clone()));
    within(LOG_IN, at, "log this node in", client.update_user(user)).await?;
    Ok(client)
}

/// A call with an end.
pub(crate) async fn call<T>(
    at: &str,
    what: &'static str,
    answer: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, DialError> {
    within(ANSWER, at, what, answer).await
}

async fn within<T>(
    limit: Duration,
    at: &str,
    what: &'static str,
    answer: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, DialError> {
    match tokio::time::timeout(limit, answer).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(refused(at, what, source)),
        Err(_) => Err(DialError::Silent { at: at.to_string() }),
    }
}

fn refused(at: &str, what: &'static str, source: etcd_client::Error) -> DialError {
    let at = at.to_string();
    match login_refused(&source) {
        Some(Login::Wrong) => DialError::WrongSecret { at },
        Some(Login::Missing) => DialError::NeedsSecret { at },
        None => DialError::Call { at, what, source },
    }
}

enum Login {
    Wrong,
    Missing,
}

fn login_refused(error: &etcd_client::Error) -> Option<Login> {
    let text = message(error);
    if text.contains("invalid user ID or password") {
        return Some(Login::Wrong);
    }
    let asks = text.contains("user name is empty") || text.contains("permission denied");
    asks.then_some(Login::Missing)
}

/// Whether etcd does not accept the login, or the lack of one.
pub(crate) fn refuses_login(error: &etcd_client::Error) -> bool {
    login_refused(error).is_some()
}

fn message(error: &etcd_client::Error) -> String {
    match error {
        etcd_client::Error::GRpcStatus(status) => status.message().to_string(),
        other => other.to_string(),
    }
}

/// The deepest cause: the ones above only say that something failed.
pub(crate) fn cause(error: &DialError) -> String {
    if let DialError::Silent { .. } = error {
        return "no answer in time".to_string();
    }
    if let DialError::Call { source, .. } = error
        && let etcd_client::Error::GRpcStatus(status) = source
        && status.source().is_none()
    {
        return status.message().to_string();
    }
    let mut deepest: &dyn Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
