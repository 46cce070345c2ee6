//! A port for a server that is yet to be started.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

/// A port of loopback for a server, reserved against other programs: it is bound, and never
/// listened on.
#[derive(Debug)]
pub struct ReservedPort {
    address: SocketAddr,
    _socket: OwnedFd,
}

impl ReservedPort {
    /// Any that is free.
    ///
    /// # Errors
    ///
    /// When no port or descriptor is left.
    pub fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        // Only now: two that may share a port could be given the same.
        net::sockopt::set_socket_reuseaddr(&socket, true)?;
        let address = net::getsockname(&socket)?.try_into()?;
        Ok(Self { address, _socket: socket })
    }

    /// Address for the server to listen on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.port()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::net::{self, AddressFamily, SocketType};

    use super::ReservedPort;

    #[test]
    fn the_port_is_given_to_a_server_and_to_nobody_else() {
        let reserved = ReservedPort::new().expect("a port is free");
        let other = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        assert_eq!(net::bind(&other, &reserved.address()), Err(rustix::io::Errno::ADDRINUSE));
        // It says that it may share the port, as servers do.
        TcpListener::bind(reserved.address()).expect("it is reserved for a server");
    }
}
