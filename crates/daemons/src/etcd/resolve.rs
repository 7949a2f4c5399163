//! The addresses behind a DNS name.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use futures::future::BoxFuture;

type Lookup = dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync;

/// How names are looked up.
#[derive(Clone)]
pub struct Resolver(Arc<Lookup>);

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

impl Default for Resolver {
    fn default() -> Resolver {
        Resolver::system()
    }
}

impl Resolver {
    /// As the machine is configured.
    pub fn system() -> Resolver {
        Resolver::new(|name| {
            Box::pin(async move {
                let found = tokio::net::lookup_host((name, 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            })
        })
    }

    pub fn new(
        lookup: impl Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync + 'static,
    ) -> Resolver {
        Resolver(Arc::new(lookup))
    }

    /// All addresses of a service, in order. In Docker Swarm the name itself may stand for one virtual address, and
    /// `tasks.NAME` for those of the containers; elsewhere the second does not exist. So either may fail.
    pub(crate) async fn service(&self, name: &str) -> io::Result<BTreeSet<IpAddr>> {
        let (plain, tasks) = tokio::join!((self.0)(name.to_string()), (self.0)(format!("tasks.{name}")));
        match (plain, tasks) {
            (Err(error), Err(_)) => Err(error),
            (plain, tasks) => Ok(both(plain.unwrap_or_default(), tasks.unwrap_or_default())),
        }
    }
}

/// A virtual address leads to any of the containers and is none of them: it would be counted as a node too many.
fn both(plain: Vec<IpAddr>, tasks: Vec<IpAddr>) -> BTreeSet<IpAddr> {
    let virtual_one = matches!(&plain[..], [one] if !tasks.is_empty() && !tasks.contains(one));
    let plain = if virtual_one { Vec::new() } else { plain };
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
            assert_eq!(both(ips(plain), ips(tasks)), expected, "{plain:?} {tasks:?}");
        }
    }
}
