//! Opens an address, unless strangers could reach it unasked.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use tokio::net::{TcpListener, lookup_host};

use crate::config::Address;

/// What an address is for, and what keeps strangers out of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listening<'a> {
    pub(crate) address: &'a Address,
    pub(crate) service: &'static str,
    /// The flag that chooses another address.
    pub(crate) flag: &'static str,
    pub(crate) guard: Guard,
    /// The key that would set a guard.
    pub(crate) guard_key: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Callers have to show something.
    Asked,
    /// Anyone who reaches the address may call.
    Open,
    /// As `Open`, and the operator said so.
    OpenOnPurpose,
}

pub(crate) async fn bind(listening: Listening<'_>) -> Result<TcpListener> {
    let Address(address) = listening.address;
    let found: Vec<SocketAddr> = lookup_host(address)
        .await
        .with_context(|| {
            format!(
                "{address}, for {}, is no address of this machine",
                listening.service
            )
        })?
        .collect();
    refuse_if_open(&listening, &found)?;
    bind_patiently(&found).await.map_err(|error| {
        let Listening { service, flag, .. } = listening;
        match error.kind() {
            ErrorKind::AddrInUse => anyhow!(
                "{address}, for {service}, is taken by another process; stop that one or choose another address with {flag}"
            ),
            ErrorKind::PermissionDenied => anyhow!(
                "{address}, for {service}, may not be used by this user; choose a port above 1023 with {flag}"
            ),
            _ => anyhow!(error).context(format!(
                "could not listen on {address} for {service}; choose another address with {flag}"
            )),
        }
    })
}

/// A process that was just starting another when it was killed leaves its sockets to that one, until it is a program of
/// its own. That must not keep the next life from starting.
async fn bind_patiently(addresses: &[SocketAddr]) -> std::io::Result<TcpListener> {
    const PATIENCE: Duration = Duration::from_secs(2);
    const RETRY: Duration = Duration::from_millis(20);
    let begun = Instant::now();
    loop {
        match TcpListener::bind(addresses).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse && begun.elapsed() < PATIENCE => {
                tokio::time::sleep(RETRY).await;
            }
            bound => return bound,
        }
    }
}

fn refuse_if_open(listening: &Listening<'_>, found: &[SocketAddr]) -> Result<()> {
    let reachable = found
        .iter()
        .find(|address| !address.ip().to_canonical().is_loopback());
    match (reachable, listening.guard) {
        (Some(address), Guard::Open) => bail!(
            "{address}, for {}, can be reached from other machines, and anyone there could run commands here; \
             set {} to keep strangers out, or allow it with --insecure",
            listening.service,
            listening.guard_key
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, guard: Guard, expected: Option<&str>) {
        let host = Address(address.to_string());
        let listening = Listening {
            address: &host,
            service: "the HTTP API",
            flag: "--listen",
            guard,
            guard_key: "secrets.tokens_file",
        };
        let found = refuse_if_open(&listening, &[address.parse().unwrap()]);
        match expected {
            None => assert!(found.is_ok(), "{address}"),
            Some(part) => assert!(found.unwrap_err().to_string().contains(part), "{address}"),
        }
    }

    #[test]
    fn open_doors_to_other_machines_are_refused() {
        check("127.0.0.1:0", Guard::Open, None);
        check("127.9.9.9:0", Guard::Open, None);
        check("[::1]:0", Guard::Open, None);
        check("[::ffff:127.0.0.1]:0", Guard::Open, None);
        check("0.0.0.0:0", Guard::Open, Some("--insecure"));
        check("[::]:0", Guard::Open, Some("secrets.tokens_file"));
        check("192.0.2.7:0", Guard::Open, Some("192.0.2.7"));
        check("0.0.0.0:0", Guard::Asked, None);
        check("0.0.0.0:0", Guard::OpenOnPurpose, None);
    }

    #[tokio::test]
    async fn a_port_that_comes_free_soon_is_waited_for() {
        // An address that nobody else uses, so that its port comes free for nobody else.
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let taken = TcpListener::bind((std::net::Ipv4Addr::new(127, 99, high, low), 0))
            .await
            .unwrap();
        let address = taken.local_addr().unwrap();
        let addresses = [address];
        let mut binding = std::pin::pin!(bind_patiently(&addresses));
        let tried = tokio::time::timeout(Duration::ZERO, &mut binding).await;
        assert!(tried.is_err(), "{tried:?}");
        drop(taken);
        assert_eq!(binding.await.unwrap().local_addr().unwrap(), address);
    }

    #[tokio::test]
    async fn a_taken_port_is_named_with_the_remedy() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address(taken.local_addr().unwrap().to_string());
        let listening = Listening {
            address: &address,
            service: "the HTTP API",
            flag: "--listen",
            guard: Guard::Open,
            guard_key: "secrets.tokens_file",
        };
        let wrong = bind(listening).await.unwrap_err().to_string();
        assert!(
            wrong.contains(&address.0) && wrong.contains("taken") && wrong.contains("--listen"),
            "{wrong}"
        );
    }
}
