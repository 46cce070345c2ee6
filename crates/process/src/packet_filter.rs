//! Filters of the kernel for sockets that a library has opened and does not give away.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::net::{SocketType, getsockname, sockopt};

/// An instruction of a classic BPF program: linux/filter.h.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Instruction {
    /// Operation, as linux/bpf_common.h has it.
    pub code: u16,
    /// Instructions to skip if a comparison holds, and if it does not.
    pub skips: (u8, u8),
    /// Operand: offset, value or result.
    pub value: u32,
}

/// Highest number of a descriptor that is looked at; a process that has more is none of ours.
const DESCRIPTORS_MAX: i32 = 1_024;

/// Attaches a program to each UDP socket of this process on a port: one to those of IPv4, the other
/// to those of IPv6. What a program does not accept never reaches its socket. Returns the number of
/// sockets.
///
/// # Errors
/// The kernel refuses a program, or memory for it.
pub fn filter_sockets(port: u16, v4: &[Instruction], v6: &[Instruction]) -> io::Result<usize> {
    let mut count = 0;
    for number in 0..DESCRIPTORS_MAX {
        let Some(socket) = duplicate(number) else { continue };
        // Most descriptors are no sockets.
        if sockopt::socket_type(&socket) != Ok(SocketType::DGRAM) {
            continue;
        }
        let Ok(address) = getsockname(&socket) else { continue };
        let Ok(address) = std::net::SocketAddr::try_from(address) else { continue };
        if address.port() == port {
            attach(&socket, if address.is_ipv4() { v4 } else { v6 })?;
            count += 1;
        }
    }
    Ok(count)
}

fn duplicate(number: i32) -> Option<OwnedFd> {
    // SAFETY: the call reads no memory, and fails for a number that is not open.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    // SAFETY: a new descriptor that nothing else has.
    (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })
}

fn attach(socket: &OwnedFd, program: &[Instruction]) -> io::Result<()> {
    let mut filters: Vec<libc::sock_filter> = program
        .iter()
        .map(|it| libc::sock_filter { code: it.code, jt: it.skips.0, jf: it.skips.1, k: it.value })
        .collect();
    let length = u16::try_from(filters.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len: length, filter: filters.as_mut_ptr() };
    let size = libc::socklen_t::try_from(size_of_val(&program)).expect("it is small");
    // SAFETY: the program and its filters live until the call returns; the kernel copies them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
