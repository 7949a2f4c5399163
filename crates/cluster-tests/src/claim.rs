//! What a test takes for itself: a port, the number of a network.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// An abstract socket, which the kernel keeps for the network that the test is on and closes with the process. So tests
/// do not meet, even if they see neither each other's files nor each other's processes.
pub(crate) struct Claim {
    _socket: UnixListener,
}

impl Claim {
    /// `None` if another test has it.
    pub(crate) fn of(what: &str, number: u32) -> Option<Claim> {
        let name = format!("conclave-tests-{what}-{number}");
        let address = SocketAddr::from_abstract_name(name).expect("a short name");
        match UnixListener::bind_addr(&address) {
            Ok(socket) => Some(Claim { _socket: socket }),
            Err(error) if error.kind() == ErrorKind::AddrInUse => None,
            Err(error) => panic!("could not claim {what} {number}: {error}"),
        }
    }

    /// The first number that no other test has.
    pub(crate) fn first(what: &str, numbers: u32) -> (u32, Claim) {
        (0..numbers)
            .find_map(|number| Claim::of(what, number).map(|claim| (number, claim)))
            .unwrap_or_else(|| panic!("every {what} is in use"))
    }
}
