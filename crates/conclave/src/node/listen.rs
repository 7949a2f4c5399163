//! Opens a listening address. Refuses one that other machines could use without authentication.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use tokio::net::{TcpListener, lookup_host};

use crate::config::HostPort;

/// An address on which a node is about to listen, and whether its callers are authenticated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenRequest<'a> {
    pub(crate) address: &'a HostPort,
    pub(crate) service: &'static str,
    /// The flag that chooses another address.
    pub(crate) flag: &'static str,
    pub(crate) access_control: AccessControl,
    /// The configuration key that would require authentication.
    pub(crate) secret_key: &'static str,
}

/// Whether the callers of an address on which a node listens are authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessControl {
    /// Callers need a secret or a token.
    Authenticated,
    /// Anyone who can reach the address may call.
    Open,
    /// As `Open`, and the operator has allowed it with `--insecure`.
    OpenAllowed,
}

pub(crate) async fn bind(request: ListenRequest<'_>) -> Result<TcpListener> {
    let HostPort(address) = request.address;
    let addresses: Vec<SocketAddr> = lookup_host(address)
        .await
        .with_context(|| format!("could not resolve {address}, the address of {}", request.service))?
        .collect();
    refuse_if_open(&request, &addresses)?;
    bind_with_retries(&addresses).await.map_err(|error| {
        let ListenRequest { service, flag, .. } = request;
        match error.kind() {
            ErrorKind::AddrInUse => anyhow!(
                "{address}, the address of {service}, is already in use by another process; stop that process or choose another address with {flag}"
            ),
            ErrorKind::PermissionDenied => anyhow!(
                "this user has no permission to listen on {address} for {service}; choose a port above 1023 with {flag}"
            ),
            _ => anyhow!(error).context(format!(
                "could not listen on {address} for {service}; choose another address with {flag}"
            )),
        }
    })
}

/// Retries while the address is in use. If this node was killed while it forked a child, the child holds the old sockets until
/// it executes its program, and that must not prevent the restart.
async fn bind_with_retries(addresses: &[SocketAddr]) -> std::io::Result<TcpListener> {
    const BIND_TIMEOUT: Duration = Duration::from_secs(2);
    const RETRY_INTERVAL: Duration = Duration::from_millis(20);
    let began = Instant::now();
    loop {
        match TcpListener::bind(addresses).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse && began.elapsed() < BIND_TIMEOUT => {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            bound => return bound,
        }
    }
}

fn refuse_if_open(request: &ListenRequest<'_>, addresses: &[SocketAddr]) -> Result<()> {
    let reachable = addresses
        .iter()
        .find(|address| !address.ip().to_canonical().is_loopback());
    match (reachable, request.access_control) {
        (Some(address), AccessControl::Open) => bail!(
            "other machines can reach {address}, the address of {}, and could run commands on this machine; \
             set {} to require authentication, or allow it with --insecure",
            request.service,
            request.secret_key
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, access_control: AccessControl, expected: Option<&str>) {
        let host = HostPort(address.to_string());
        let request = ListenRequest {
            address: &host,
            service: "the HTTP API",
            flag: "--listen",
            access_control,
            secret_key: "secrets.tokens_file",
        };
        let result = refuse_if_open(&request, &[address.parse().unwrap()]);
        match expected {
            None => assert!(result.is_ok(), "{address}"),
            Some(part) => assert!(result.unwrap_err().to_string().contains(part), "{address}"),
        }
    }

    #[test]
    fn unauthenticated_addresses_beyond_loopback_are_refused() {
        check("127.0.0.1:0", AccessControl::Open, None);
        check("127.9.9.9:0", AccessControl::Open, None);
        check("[::1]:0", AccessControl::Open, None);
        check("[::ffff:127.0.0.1]:0", AccessControl::Open, None);
        check("0.0.0.0:0", AccessControl::Open, Some("--insecure"));
        check("[::]:0", AccessControl::Open, Some("secrets.tokens_file"));
        check("192.0.2.7:0", AccessControl::Open, Some("192.0.2.7"));
        check("0.0.0.0:0", AccessControl::Authenticated, None);
        check("0.0.0.0:0", AccessControl::OpenAllowed, None);
    }

    #[tokio::test]
    async fn bind_waits_for_a_port_that_is_freed_soon() {
        // An address that no other process uses, so that none can take the port when it is freed.
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let taken = TcpListener::bind((std::net::Ipv4Addr::new(127, 99, high, low), 0))
            .await
            .unwrap();
        let address = taken.local_addr().unwrap();
        let addresses = [address];
        let mut binding = std::pin::pin!(bind_with_retries(&addresses));
        let tried = tokio::time::timeout(Duration::ZERO, &mut binding).await;
        assert!(tried.is_err(), "{tried:?}");
        drop(taken);
        assert_eq!(binding.await.unwrap().local_addr().unwrap(), address);
    }

    #[tokio::test]
    async fn the_error_names_a_used_port_and_the_flag() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = HostPort(taken.local_addr().unwrap().to_string());
        let request = ListenRequest {
            address: &address,
            service: "the HTTP API",
            flag: "--listen",
            access_control: AccessControl::Open,
            secret_key: "secrets.tokens_file",
        };
        let error = bind(request).await.unwrap_err().to_string();
        assert!(
            error.contains(&address.0) && error.contains("already in use") && error.contains("--listen"),
            "{error}"
        );
    }
}
