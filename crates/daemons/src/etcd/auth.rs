//! Creates etcd's only user and enables authentication.

use registry::etcd::{EtcdAccess, EtcdLogin};

use super::client::{AUTH_NOT_ENABLED, EtcdRequestError, connect_anonymously, connect_with_login, request};

/// Several nodes may do this at once, and repeatedly: each step accepts that another node has done it already.
pub(crate) async fn ensure_auth_enabled(
    access: &EtcdAccess,
    login: &EtcdLogin,
    at: &str,
) -> Result<(), EtcdRequestError> {
    match connect_with_login(access, at).await {
        Err(error) if error.message_contains(AUTH_NOT_ENABLED) => {}
        result => return result.map(drop),
    }
    match enable_auth(access, login, at).await {
        // Another node enabled it between two of our steps. If it has the same secret, the login below works.
        Err(EtcdRequestError::NeedsSecret { .. }) => {}
        result => result?,
    }
    connect_with_login(access, at).await.map(drop)
}

async fn enable_auth(access: &EtcdAccess, login: &EtcdLogin, at: &str) -> Result<(), EtcdRequestError> {
    let mut client = connect_anonymously(access, at).await?;
    let EtcdLogin { user, password } = login;
    let user_added = request(at, "add a user", client.user_add(user, password, None)).await;
    accept_existing(user_added.map(drop))?;
    let role_added = request(at, "add a role", client.role_add("root")).await;
    accept_existing(role_added.map(drop))?;
    request(at, "grant a role", client.user_grant_role(user, "root")).await?;
    request(at, "enable authentication", client.auth_enable()).await?;
    tracing::info!("enabled authentication in etcd");
    Ok(())
}

fn accept_existing(result: Result<(), EtcdRequestError>) -> Result<(), EtcdRequestError> {
    match result {
        Err(error) if error.message_contains("already exists") => Ok(()),
        result => result,
    }
}
