//! Fixed addresses: one judicator that leads, and others that were told where it is.

use tokio::sync::watch;

use crate::Registry;

/// For a judicator that stands alone: it leads, for ever.
pub fn alone(address: String) -> Registry {
    fixed(vec![address], true)
}

/// For an executor or a gateway that was given the judicators' addresses.
pub fn given(addresses: Vec<String>) -> Registry {
    fixed(addresses, false)
}

fn fixed(addresses: Vec<String>, leads: bool) -> Registry {
    // A receiver keeps the last value when its sender is gone: fixed values need nobody to hold them.
    Registry {
        judicators: watch::channel(addresses).1,
        leading: watch::channel(leads).1,
    }
}
