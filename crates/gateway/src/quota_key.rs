//! The caller to whom permits and bytes are charged.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::http::Extensions;
use model::UserName;

use crate::caller::Caller;

/// The caller to whom the gateway's quotas charge the permits and bytes of a request: a user or an IP address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum QuotaKey {
    /// The user of a token, from all addresses together.
    User(UserName),
    /// The client's address, if the server has no tokens.
    Address(IpAddr),
}

/// The IP address of the client of a gateway connection, which quotas charge for requests without a user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress(pub(crate) IpAddr);

impl QuotaKey {
    /// `caller::authenticate` has added the caller before. A request without a peer address exists only in tests.
    pub(crate) fn from_extensions(extensions: &Extensions) -> QuotaKey {
        match (extensions.get().and_then(Caller::user), extensions.get()) {
            (Some(user), _) => QuotaKey::User(user.clone()),
            (_, Some(PeerAddress(address))) => QuotaKey::from(*address),
            (_, None) => QuotaKey::Address(Ipv4Addr::UNSPECIFIED.into()),
        }
    }
}

impl From<IpAddr> for QuotaKey {
    /// A host usually has a whole IPv6 /64 network and may use any address in it.
    fn from(address: IpAddr) -> QuotaKey {
        let network = match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        };
        QuotaKey::Address(network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_host_have_one_key() {
        let check = |one: &str, other: &str, same: bool| {
            let key = |text: &str| QuotaKey::from(text.parse::<IpAddr>().unwrap());
            assert_eq!(key(one) == key(other), same, "{one} {other}");
        };
        check("10.0.0.1", "10.0.0.1", true);
        check("10.0.0.1", "10.0.0.2", false);
        check("10.0.0.1", "::ffff:10.0.0.1", true);
        check("2001:db8::1", "2001:db8::ffff:2", true);
        check("2001:db8::1", "2001:db8:0:1::1", false);
    }

    #[test]
    fn a_user_has_one_key_from_every_address() {
        let mut extensions = Extensions::new();
        extensions.insert(PeerAddress(Ipv4Addr::LOCALHOST.into()));
        extensions.insert(Caller::Anyone);
        assert_eq!(
            QuotaKey::from_extensions(&extensions),
            QuotaKey::Address(Ipv4Addr::LOCALHOST.into())
        );
        let ada = UserName::new("ada").unwrap();
        extensions.insert(Caller::User(ada.clone()));
        assert_eq!(QuotaKey::from_extensions(&extensions), QuotaKey::User(ada));
    }
}
