//! Exclusive claims of tests on machine-wide resources: ports, network numbers.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// A claim of this test process on one numbered resource of the machine, such as a port. It is released when it is
/// dropped or the process ends.
///
/// It is an abstract Unix socket, which is unique in the network namespace. So two tests cannot claim the same number,
/// even if they run in different mount or pid namespaces.
pub(crate) struct ResourceClaim {
    _socket: UnixListener,
}

impl ResourceClaim {
    /// Claims one number; `None` if another test holds it.
    pub(crate) fn of(what: &str, number: u32) -> Option<ResourceClaim> {
        let name = format!("conclave-tests-{what}-{number}");
        let address = SocketAddr::from_abstract_name(name).expect("a short name");
        match UnixListener::bind_addr(&address) {
            Ok(socket) => Some(ResourceClaim { _socket: socket }),
            Err(error) if error.kind() == ErrorKind::AddrInUse => None,
            Err(error) => panic!("could not claim {what} {number}: {error}"),
        }
    }

    /// Claims the first number that no other test holds.
    pub(crate) fn first(what: &str, numbers: u32) -> (u32, ResourceClaim) {
        (0..numbers)
            .find_map(|number| ResourceClaim::of(what, number).map(|claim| (number, claim)))
            .unwrap_or_else(|| panic!("every {what} is in use"))
    }
}
