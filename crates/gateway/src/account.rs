//! To whom places and bytes are charged.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::http::Extensions;
use model::UserName;

use crate::caller::Caller;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Account {
    /// With tokens: all connections of a user together, wherever they come from.
    User(UserName),
    Address(IpAddr),
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

impl Account {
    /// `require` comes first and says who the caller is; a request without a connection exists in tests only.
    pub(crate) fn of(extensions: &Extensions) -> Account {
        match (extensions.get(), extensions.get()) {
            (Some(Caller::User(user)), _) => Account::User(user.clone()),
            (_, Some(Peer(address))) => Account::from(*address),
            (_, None) => Account::Address(Ipv4Addr::UNSPECIFIED.into()),
        }
    }
}

impl From<IpAddr> for Account {
    /// A host is given a whole IPv6 network of 64 bits and may use any address in it.
    fn from(address: IpAddr) -> Account {
        let network = match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        };
        Account::Address(network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_host_are_one_account() {
        let check = |one: &str, other: &str, same: bool| {
            let account = |text: &str| Account::from(text.parse::<IpAddr>().unwrap());
            assert_eq!(account(one) == account(other), same, "{one} {other}");
        };
        check("10.0.0.1", "10.0.0.1", true);
        check("10.0.0.1", "10.0.0.2", false);
        check("10.0.0.1", "::ffff:10.0.0.1", true);
        check("2001:db8::1", "2001:db8::ffff:2", true);
        check("2001:db8::1", "2001:db8:0:1::1", false);
    }

    #[test]
    fn a_user_is_one_account_from_everywhere() {
        let mut extensions = Extensions::new();
        extensions.insert(Peer(Ipv4Addr::LOCALHOST.into()));
        extensions.insert(Caller::Anyone);
        assert_eq!(
            Account::of(&extensions),
            Account::Address(Ipv4Addr::LOCALHOST.into())
        );
        let ada = UserName::new("ada").unwrap();
        extensions.insert(Caller::User(ada.clone()));
        assert_eq!(Account::of(&extensions), Account::User(ada));
    }
}
