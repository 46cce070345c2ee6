//! The kernel's information on a TCP connection.

use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};

/// Bytes given to the socket that the peer's TCP has not acknowledged, sent or not: `SIOCOUTQ` of
/// tcp(7).
///
/// # Errors
/// If the socket is not TCP.
pub fn unacknowledged_bytes(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ, which is SIOCOUTQ for sockets, writes one int to where the pointer points.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or_default())
}

/// State of a connection in the kernel: `struct tcp_info` of tcp(7).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TcpInfo {
    /// Time until the kernel sends unacknowledged bytes again: `tcpi_rto`.
    pub retransmission_timeout: Duration,
    /// Bytes that the peer's TCP has acknowledged since the connection began; grows also during a
    /// send: `tcpi_bytes_acked`.
    pub bytes_acknowledged: u64,
    /// Bytes received from the peer since the connection began: `tcpi_bytes_received`.
    pub bytes_received: u64,
}

/// Checks that the platform reports acknowledged bytes. Without them, a lost connection cannot be
/// told from a slow one.
///
/// # Errors
/// The missing system call.
pub fn verify_reports_acknowledged_bytes() -> io::Result<()> {
    let families = [AddressFamily::INET6, AddressFamily::INET];
    let open = |family| rustix::net::socket(family, SocketType::STREAM, None);
    // An unconnected socket reports the same fields, with zeros.
    let socket = families.into_iter().find_map(|family| open(family).ok());
    let socket = socket.ok_or_else(|| io::Error::other("there is no TCP"))?;
    let explain =
        |what: &str, error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"));
    unacknowledged_bytes(socket.as_fd()).map_err(|error| explain("SIOCOUTQ", error))?;
    info(socket.as_fd()).map_err(|error| explain("TCP_INFO", error)).map(drop)
}

/// Queries the kernel for the state of a connection.
///
/// # Errors
/// If the socket is not TCP, or the kernel counts no bytes, as before Linux 4.1.
pub fn info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>())
        .expect("a structure of the kernel is small");
    // SAFETY: the kernel writes at most `length` bytes to `info`, which has that length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let needed = offset_of!(libc::tcp_info, tcpi_bytes_received) + size_of::<u64>();
    if usize::try_from(length).is_ok_and(|written| written < needed) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel counts no bytes"));
    }
    // SAFETY: all fields are integers, which any bits are valid for; unwritten ones are zero.
    let info = unsafe { info.assume_init() };
    Ok(TcpInfo {
        retransmission_timeout: Duration::from_micros(info.tcpi_rto.into()),
        bytes_acknowledged: info.tcpi_bytes_acked,
        bytes_received: info.tcpi_bytes_received,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::thread;
    use std::time::Instant;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        (near, listener.accept().expect("one came").0)
    }

    #[test]
    fn received_bytes_are_acknowledged_and_bytes_without_room_are_not() {
        let (mut near, mut far) = pair();
        near.write_all(b"taken").expect("there is room");
        let begun = Instant::now();
        while unacknowledged_bytes(near.as_fd()).expect("TCP") > 0 {
            assert!(begun.elapsed() < Duration::from_secs(5), "loopback is faster");
            thread::sleep(Duration::from_millis(1));
        }
        far.read_exact(&mut [0; 5]).expect("it came");
        let acknowledged = info(near.as_fd()).expect("TCP").bytes_acknowledged;
        // The handshake may count as one.
        assert!((5..=6).contains(&acknowledged), "{acknowledged}");
        near.set_nonblocking(true).expect("a socket");
        let mut written: u64 = 0;
        while let Ok(count) = near.write(&[0; 65_536]) {
            written += u64::try_from(count).expect("64 bits");
        }
        thread::sleep(Duration::from_millis(100));
        let waiting = unacknowledged_bytes(near.as_fd()).expect("TCP");
        assert!(waiting > 0 && waiting <= written, "{waiting} of {written}");
    }

    #[test]
    fn the_timeout_is_that_of_a_live_connection() {
        let (near, _far) = pair();
        let timeout = info(near.as_fd()).expect("TCP").retransmission_timeout;
        assert!(timeout >= Duration::from_millis(1) && timeout <= Duration::from_secs(120));
    }

    #[test]
    fn linux_reports_acknowledged_bytes() {
        verify_reports_acknowledged_bytes().expect("it does since 4.1");
    }

    #[test]
    fn bytes_that_came_are_counted() {
        let (mut near, mut far) = pair();
        far.write_all(b"four").expect("there is room");
        near.read_exact(&mut [0; 4]).expect("it came");
        assert_eq!(info(near.as_fd()).expect("TCP").bytes_received, 4);
    }

    #[test]
    fn a_file_that_is_no_connection_has_neither() {
        let file = std::fs::File::open("/dev/null").expect("it is there");
        unacknowledged_bytes(file.as_fd()).expect_err("no socket");
        info(file.as_fd()).expect_err("no socket");
    }
}
