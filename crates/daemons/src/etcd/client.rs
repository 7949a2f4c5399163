//! Requests to one etcd member that time out within seconds and say why they failed.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use etcd_client::Client;
use registry::etcd::{EtcdAccess, EtcdAccessError};
use thiserror::Error;
use tokio::net::TcpStream;

/// A healthy member answers within milliseconds; a member without a leader keeps its callers waiting.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// etcd's password check is slow by design, and etcd completes it even if the client has given up. A shorter timeout
/// would only cause more checks.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);

/// What etcd answers to a login if authentication is off.
pub(crate) const AUTH_NOT_ENABLED: &str = "authentication is not enabled";

/// Why a request of the etcd daemon to an etcd member failed.
#[derive(Debug, Error)]
pub enum EtcdRequestError {
    #[error(
        "etcd at {at} does not accept this node's secret; secrets.cluster_file has to be the same on all nodes"
    )]
    WrongSecret { at: String },
    #[error("etcd at {at} requires a login; set secrets.cluster_file to the file with the cluster's secret")]
    NeedsSecret { at: String },
    #[error("could not connect to etcd at {at}")]
    Connect {
        at: String,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Access(#[from] EtcdAccessError),
    #[error("the request to etcd at {at} timed out")]
    Timeout { at: String },
    #[error("etcd at {at} could not {what}")]
    Refused {
        at: String,
        what: &'static str,
        #[source]
        source: etcd_client::Error,
    },
}

impl EtcdRequestError {
    /// Whether neither a retry nor another member can help.
    pub(crate) fn is_permanent(&self) -> bool {
        matches!(
            self,
            EtcdRequestError::WrongSecret { .. }
                | EtcdRequestError::NeedsSecret { .. }
                | EtcdRequestError::Access(EtcdAccessError::File { .. })
        )
    }

    /// Whether etcd refused the request with a message that contains `text`.
    pub(crate) fn message_contains(&self, text: &str) -> bool {
        matches!(self, EtcdRequestError::Refused { source, .. } if message(source).contains(text))
    }
}

/// Connects without a login: that is enough for questions about the cluster, and all that a learner allows.
pub(crate) async fn connect_anonymously(access: &EtcdAccess, at: &str) -> Result<Client, EtcdRequestError> {
    // The etcd client does not say why it cannot connect; a plain TCP connection does.
    let connected = tokio::time::timeout(REQUEST_TIMEOUT, TcpStream::connect(at)).await;
    match connected {
        Ok(Ok(_)) => {}
        Ok(Err(source)) => {
            return Err(EtcdRequestError::Connect {
                at: at.to_string(),
                source,
            });
        }
        Err(_) => return Err(EtcdRequestError::Timeout { at: at.to_string() }),
    }
    let anonymous = EtcdAccess {
        login: None,
        ..access.with_endpoints(vec![at.to_string()])
    };
    Ok(anonymous.connect().await?)
}

/// Connects with the login if `access` has one, and without it as long as the cluster's authentication is off.
pub(crate) async fn connect(access: &EtcdAccess, at: &str) -> Result<Client, EtcdRequestError> {
    if access.login.is_none() {
        return connect_anonymously(access, at).await;
    }
    match connect_with_login(access, at).await {
        Err(error) if error.message_contains(AUTH_NOT_ENABLED) => connect_anonymously(access, at).await,
        result => result,
    }
}

/// Connects with the login; fails if the cluster's authentication is off.
pub(crate) async fn connect_with_login(access: &EtcdAccess, at: &str) -> Result<Client, EtcdRequestError> {
    let mut client = connect_anonymously(access, at).await?;
    let user = access
        .login
        .as_ref()
        .map(|login| (login.user.clone(), login.password.clone()));
    with_timeout(LOGIN_TIMEOUT, at, "log this node in", client.update_user(user)).await?;
    Ok(client)
}

/// Awaits a response for at most [`REQUEST_TIMEOUT`]. `what` completes the sentence "etcd could not ...".
pub(crate) async fn request<T>(
    at: &str,
    what: &'static str,
    response: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, EtcdRequestError> {
    with_timeout(REQUEST_TIMEOUT, at, what, response).await
}

async fn with_timeout<T>(
    limit: Duration,
    at: &str,
    what: &'static str,
    response: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, EtcdRequestError> {
    match tokio::time::timeout(limit, response).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(refused(at, what, source)),
        Err(_) => Err(EtcdRequestError::Timeout { at: at.to_string() }),
    }
}

fn refused(at: &str, what: &'static str, source: etcd_client::Error) -> EtcdRequestError {
    let at = at.to_string();
    match login_refusal(&source) {
        Some(LoginRefusal::WrongPassword) => EtcdRequestError::WrongSecret { at },
        Some(LoginRefusal::NoLogin) => EtcdRequestError::NeedsSecret { at },
        None => EtcdRequestError::Refused { at, what, source },
    }
}

/// Why etcd refuses a request of the etcd daemon for lack of permission.
enum LoginRefusal {
    WrongPassword,
    NoLogin,
}

fn login_refusal(error: &etcd_client::Error) -> Option<LoginRefusal> {
    let text = message(error);
    if text.contains("invalid user ID or password") {
        return Some(LoginRefusal::WrongPassword);
    }
    let no_login = text.contains("user name is empty") || text.contains("permission denied");
    no_login.then_some(LoginRefusal::NoLogin)
}

/// Whether etcd refused the login, or refused the request because there was no login.
pub(crate) fn is_login_refused(error: &etcd_client::Error) -> bool {
    login_refusal(error).is_some()
}

fn message(error: &etcd_client::Error) -> String {
    match error {
        etcd_client::Error::GRpcStatus(status) => status.message().to_string(),
        other => other.to_string(),
    }
}

/// The innermost source of the error: the outer ones only say that something failed.
pub(crate) fn root_cause(error: &EtcdRequestError) -> String {
    if let EtcdRequestError::Timeout { .. } = error {
        return "timed out".to_string();
    }
    if let EtcdRequestError::Refused { source, .. } = error
        && let etcd_client::Error::GRpcStatus(status) = source
        && status.source().is_none()
    {
        return status.message().to_string();
    }
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
