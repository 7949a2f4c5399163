//! Resolves DNS names.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::decision::BootstrapWait;

/// A DNS server that does not answer must not hold up a node for long: it may know its cluster already.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);

/// The function of a [`DnsResolver`], from a DNS name to its addresses.
type LookupFn = dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync;

/// The DNS lookup with which the etcd daemon finds other nodes; tests replace the system's.
#[derive(Clone)]
pub struct DnsResolver(Arc<LookupFn>);

impl fmt::Debug for DnsResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DnsResolver")
    }
}

impl Default for DnsResolver {
    fn default() -> DnsResolver {
        DnsResolver::system()
    }
}

impl DnsResolver {
    /// Resolves names as the machine is configured to.
    pub fn system() -> DnsResolver {
        DnsResolver::new(|name| {
            Box::pin(async move {
                let found = tokio::net::lookup_host((name, 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            })
        })
    }

    pub fn new(
        lookup: impl Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync + 'static,
    ) -> DnsResolver {
        DnsResolver(Arc::new(lookup))
    }

    /// All addresses of a service, sorted. The error is what a node without them waits for.
    pub(crate) async fn resolve_service(&self, name: &str) -> Result<BTreeSet<IpAddr>, BootstrapWait> {
        let unresolved = |reason: String| BootstrapWait::Unresolved {
            name: name.to_string(),
            reason,
        };
        match tokio::time::timeout(RESOLVE_TIMEOUT, self.service_addresses(name)).await {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(error)) => Err(unresolved(error.to_string())),
            Err(_) => Err(unresolved("timed out".to_string())),
        }
    }

    /// In Docker Swarm the name itself may resolve to one virtual address, and `tasks.NAME` to the containers behind
    /// it. Elsewhere `tasks.NAME` does not exist, so either lookup may fail.
    async fn service_addresses(&self, name: &str) -> io::Result<BTreeSet<IpAddr>> {
        let (plain, tasks) = tokio::join!((self.0)(name.to_string()), (self.0)(format!("tasks.{name}")));
        match (plain, tasks) {
            (Err(error), Err(_)) => Err(error),
            (plain, tasks) => Ok(merge_addresses(
                plain.unwrap_or_default(),
                tasks.unwrap_or_default(),
            )),
        }
    }
}

/// Leaves out a virtual address: it leads to any of the containers and would be counted as one more node.
fn merge_addresses(plain: Vec<IpAddr>, tasks: Vec<IpAddr>) -> BTreeSet<IpAddr> {
    let is_virtual = matches!(&plain[..], [one] if !tasks.is_empty() && !tasks.contains(one));
    let plain = if is_virtual { Vec::new() } else { plain };
    plain.into_iter().chain(tasks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_both_names_count_but_a_virtual_one_does_not() {
        let ips = |last: &[u8]| -> Vec<IpAddr> { last.iter().map(|n| [10, 0, 0, *n].into()).collect() };
        for (plain, tasks, found) in [
            (&[][..], &[][..], &[][..]),
            (&[3, 1, 2], &[], &[1, 2, 3]),
            (&[], &[2, 1], &[1, 2]),
            (&[1, 2], &[2, 3], &[1, 2, 3]),
            (&[9], &[1, 2], &[1, 2]),
            (&[1], &[1, 2], &[1, 2]),
            (&[9], &[], &[9]),
        ] {
            let expected: BTreeSet<IpAddr> = ips(found).into_iter().collect();
            assert_eq!(
                merge_addresses(ips(plain), ips(tasks)),
                expected,
                "{plain:?} {tasks:?}"
            );
        }
    }
}
