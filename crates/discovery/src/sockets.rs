//! Sockets for multicast on one interface.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::BindToDevice;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// A group of machines that speak a protocol, in both families.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
    pub(crate) port: u16,
}

/// Group of WS-Discovery: 2.4 of its specification.
pub(crate) const WSD: Group = Group {
    v4: Ipv4Addr::new(239, 255, 255, 250),
    v6: Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 0xC),
    port: crate::wsd::PORT,
};

/// Group of LLMNR: RFC 4795 2.
pub(crate) const LLMNR: Group = Group {
    v4: Ipv4Addr::new(224, 0, 0, 252),
    v6: Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 1, 3),
    port: crate::llmnr::PORT,
};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 16;

impl Group {
    /// Returns the address of the group in one family, on one interface.
    pub(crate) fn address(&self, is_v6: bool, index: u32) -> SocketAddr {
        match is_v6 {
            false => (self.v4, self.port).into(),
            true => std::net::SocketAddrV6::new(self.v6, self.port, 0, index).into(),
        }
    }

    /// Opens a socket that gets what comes in by one interface, and sends by it. It never waits.
    ///
    /// # Errors
    /// The kernel refuses, or a program that does not share has the port.
    pub(crate) fn join(&self, is_v6: bool, index: u32, interface: &str) -> io::Result<UdpSocket> {
        let family = if is_v6 { AddressFamily::INET6 } else { AddressFamily::INET };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        setsockopt(&socket, BindToDevice, &OsString::from(interface))?;
        if is_v6 {
            sockopt::set_ipv6_v6only(&socket, true)?;
            rustix::net::bind(&socket, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, self.port)))?;
            sockopt::set_ipv6_add_membership(&socket, &self.v6, index)?;
            sockopt::set_ipv6_multicast_if(&socket, index)?;
            sockopt::set_ipv6_multicast_hops(&socket, 1)?;
        } else {
            rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, self.port)))?;
            let any = Ipv4Addr::UNSPECIFIED;
            sockopt::set_ip_add_membership_with_ifindex(&socket, &self.v4, &any, index)?;
            sockopt::set_ip_multicast_if_with_ifindex(&socket, &any, &any, index)?;
            sockopt::set_ip_multicast_ttl(&socket, 1)?;
        }
        Ok(socket.into())
    }
}

/// Listens on an address of an interface. It never waits.
///
/// # Errors
/// Another program has the port.
pub(crate) fn listen(address: IpAddr, index: u32, port: u16) -> io::Result<TcpListener> {
    let (family, address) = match address {
        IpAddr::V4(address) => (AddressFamily::INET, SocketAddr::from((address, port))),
        IpAddr::V6(address) => {
            // Only an address of the link alone has an interface.
            let scope = if address.is_unicast_link_local() { index } else { 0 };
            let address = std::net::SocketAddrV6::new(address, port, 0, scope);
            (AddressFamily::INET6, SocketAddr::from(address))
        }
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}
