//! A registry with fixed addresses, for nodes without etcd.

use tokio::sync::watch;

use crate::Registry;

/// For the only judicator of an installation: it always leads.
pub fn single_judicator(address: String) -> Registry {
    fixed(vec![address], true)
}

/// For an executor or a gateway that is configured with the judicators' addresses.
pub fn fixed_judicators(addresses: Vec<String>) -> Registry {
    fixed(addresses, false)
}

fn fixed(addresses: Vec<String>, leads: bool) -> Registry {
    // A receiver keeps the last value after its sender is dropped, so fixed values need no owner.
    Registry {
        judicators: watch::channel(addresses).1,
        leading: watch::channel(leads).1,
    }
}
