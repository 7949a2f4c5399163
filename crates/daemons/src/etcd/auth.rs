//! The one user, and that etcd asks for it.

use registry::etcd::{Access, Login};

use super::dial::{DialError, NOT_ENABLED, call, dial_anonymously, log_in};

/// Safe to repeat, and safe when several nodes do it at once: each step takes what it would make for made, and
/// whoever is late finds that it has to log in.
pub(crate) async fn guard(access: &Access, login: &Login, at: &str) -> Result<(), DialError> {
    match log_in(access, at).await {
        Err(error) if error.says(NOT_ENABLED) => {}
        result => return result.map(drop),
    }
    match enable(access, login, at).await {
        // Another was quicker in the middle of it; if its secret is ours, the login works.
        Err(DialError::NeedsSecret { .. }) => {}
        result => result?,
    }
    log_in(access, at).await.map(drop)
}

async fn enable(access: &Access, login: &Login, at: &str) -> Result<(), DialError> {
    let mut client = dial_anonymously(access, at).await?;
    let Login { user, password } = login;
    let user_added = call(at, "add a user", client.user_add(user, password, None)).await;
    made(user_added.map(drop))?;
    let role_added = call(at, "add a role", client.role_add("root")).await;
    made(role_added.map(drop))?;
    call(at, "grant a role", client.user_grant_role(user, "root")).await?;
    call(at, "ask for logins", client.auth_enable()).await?;
    tracing::info!("etcd asks for a login from now on");
    Ok(())
}

fn made(result: Result<(), DialError>) -> Result<(), DialError> {
    match result {
        Err(error) if error.says("already exists") => Ok(()),
        result => result,
    }
}
