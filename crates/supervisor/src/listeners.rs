//! The sockets that the supervisor listens on.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Connections that wait to be accepted; the kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 1_024;

/// A client that is silent for this long is asked whether it is still there, so that a client that
/// lost its power does not hold its opens for ever. Windows' server asks after two minutes as well.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(120);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 6;

/// One address we listen on.
#[derive(Debug)]
pub(super) struct Listener {
    address: SocketAddr,
    socket: OwnedFd,
}

impl Listener {
    /// Listens on an address.
    ///
    /// # Errors
    /// The address is in use, not ours, or its port is privileged and we are not.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        // A restarted server must not wait for the old one's connections to time out.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            // IPv4 has a socket of its own; otherwise the two would exclude each other.
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, BACKLOG)?;
        // A port of 0 was chosen by the kernel only now.
        let address = rustix::net::getsockname(&socket)?.try_into()?;
        Ok(Self { address, socket })
    }

    /// The address with the port that is really used.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next client, or `None` if no one waits. Its socket blocks and is closed on exec.
    ///
    /// # Errors
    /// Resources are exhausted. A client that went away while waiting is passed over.
    pub(super) fn accept(&self) -> io::Result<Option<(OwnedFd, SocketAddr)>> {
        loop {
            match rustix::net::acceptfrom_with(&self.socket, SocketFlags::CLOEXEC) {
                Ok((socket, Some(peer))) => return Ok(Some((socket, peer.try_into()?))),
                Ok((_, None)) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) if is_of_the_client(error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Linux reports errors of the new socket's network as errors of accept; they end that client
/// only: accept(2).
fn is_of_the_client(error: Errno) -> bool {
    matches!(
        error,
        Errno::CONNABORTED
            | Errno::NETDOWN
            | Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETUNREACH
            | Errno::PERM
    )
}

/// Prepares an accepted socket for SMB: small replies leave at once, a vanished peer is noticed.
pub(super) fn prepare_client(socket: &OwnedFd) -> io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
    Ok(())
}

/// Resets a connection that nobody serves: the client knows at once, and the kernel keeps nothing
/// of it.
pub(super) fn turn_away(socket: OwnedFd) {
    if let Err(error) = sockopt::set_socket_linger(&socket, Some(Duration::ZERO)) {
        tracing::debug!("cannot reset a refused connection: {error}");
    }
}

/// Every address on every port. No addresses stand for all of the machine's.
pub(super) fn wanted(addresses: &[IpAddr], ports: &[u16]) -> Vec<SocketAddr> {
    const ALL: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    let addresses = if addresses.is_empty() { &ALL[..] } else { addresses };
    ports
        .iter()
        .flat_map(|&port| addresses.iter().map(move |&address| SocketAddr::new(address, port)))
        .collect()
}

/// Whether the machine simply has no IPv6, which is no reason not to serve.
pub(super) fn is_missing_ipv6(address: SocketAddr, error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    address.is_ipv6() && matches!(errno, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

/// Binds all of `wanted`.
///
/// # Errors
/// The first address that cannot be bound, except for IPv6 where there is none.
pub(super) fn bind_all(wanted: &[SocketAddr]) -> Result<Vec<Listener>, (SocketAddr, io::Error)> {
    let mut listeners: Vec<Listener> = Vec::new();
    for &address in wanted {
        match Listener::bind(address) {
            Ok(listener) => listeners.push(listener),
            Err(error) if is_missing_ipv6(address, &error) => {
                tracing::info!("not listening on {address}: {error}");
            }
            Err(error) => return Err((address, error)),
        }
    }
    Ok(listeners)
}

/// Whether a bind failed because the port is for root, or someone else's.
pub(super) fn is_port_unavailable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::AddrInUse)
}

/// Says what to do about a failed bind, where that is known.
pub(super) fn advice(address: SocketAddr, error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => " (is another SMB server running? see `smb ports`)",
        io::ErrorKind::PermissionDenied if address.port() < 1024 => {
            " (ports below 1024 are for root; see `smb ports`, in a container CHORO_PORT)"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, TcpStream};

    use super::{Listener, bind_all, is_port_unavailable, prepare_client, wanted};

    #[test]
    fn every_address_is_served_on_every_port() {
        let all = wanted(&[], &[445, 139]);
        let text: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["0.0.0.0:445", "[::]:445", "0.0.0.0:139", "[::]:139"]);
        assert_eq!(wanted(&[Ipv4Addr::LOCALHOST.into()], &[1]).len(), 1);
    }

    #[test]
    fn clients_are_accepted_with_their_address() {
        let listener =
            Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("loopback");
        assert!(listener.accept().expect("it is open").is_none());
        let client = TcpStream::connect(listener.address()).expect("someone listens");
        let (socket, peer) = listener.accept().expect("it is open").expect("a client waits");
        assert_eq!(peer, client.local_addr().expect("it is connected"));
        prepare_client(&socket).expect("it is a TCP socket");
        assert!(rustix::net::sockopt::tcp_nodelay(&socket).expect("it is a TCP socket"));
    }

    /// The wildcard sockets of both families live side by side on one port.
    #[test]
    fn a_taken_port_is_named() {
        let first = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("loopback");
        let (address, error) = bind_all(&[first.address()]).expect_err("it is taken");
        assert_eq!(address, first.address());
        assert!(is_port_unavailable(&error));
    }
}
