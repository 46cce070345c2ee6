//! Packets between a worker and a process that serves all of them, and the sockets for them.
//!
//! Numbers have four bytes, little-endian; a text or list is its length and its content. Nothing is
//! allocated by a length that was sent.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connections that wait for a process, as while it is started again.
const WAITING_MAX: i32 = 1_024;

/// Makes a socket in a directory that the server's user alone can connect to.
///
/// # Errors
/// Those of the file system, or no descriptors are left.
pub(crate) fn listen_at(directory: &Path, name: &str) -> io::Result<OwnedFd> {
    let path = directory.join(name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = socket(SocketFlags::NONBLOCK)?;
    at_address(directory, name, |address| rustix::net::bind(&socket, address))?;
    rustix::fs::chmod(&path, Mode::RUSR | Mode::WUSR)?;
    rustix::net::listen(&socket, WAITING_MAX)?;
    Ok(socket)
}

/// Calls `work` with the address of a socket in a directory. A path that is too long for an address
/// is replaced by one over a descriptor of the directory.
///
/// # Errors
/// Those of `work`, or the directory cannot be opened.
pub(crate) fn at_address<T>(
    directory: &Path,
    name: &str,
    work: impl FnOnce(&SocketAddrUnix) -> Result<T, Errno>,
) -> io::Result<T> {
    match SocketAddrUnix::new(directory.join(name)) {
        Err(Errno::NAMETOOLONG) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::open(directory, flags, Mode::empty())?;
            let path = format!("/proc/self/fd/{}/{name}", opened.as_raw_fd());
            Ok(work(&SocketAddrUnix::new(path)?)?)
        }
        address => Ok(work(&address?)?),
    }
}

/// Makes a socket for packets, with more flags than that it is closed by exec.
///
/// # Errors
/// No descriptors are left.
pub(crate) fn socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | flags;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Adds a number of four bytes, little-endian.
pub(crate) fn put_number(packet: &mut Vec<u8>, number: u32) {
    packet.extend(number.to_le_bytes());
}

/// Adds the length of a text or list. One that no packet has is refused by its receiver.
pub(crate) fn put_length(packet: &mut Vec<u8>, length: usize) {
    put_number(packet, u32::try_from(length).unwrap_or(u32::MAX));
}

/// Adds a text behind its length.
pub(crate) fn put_text(packet: &mut Vec<u8>, text: &str) {
    put_length(packet, text.len());
    packet.extend(text.bytes());
}

/// Takes a number; `None` if the packet is shorter.
pub(crate) fn take_number(rest: &mut &[u8]) -> Option<u32> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_le_bytes(*number))
}

/// Takes a number that is zero or one.
pub(crate) fn take_flag(rest: &mut &[u8]) -> Option<bool> {
    match take_number(rest)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Takes a text; `None` if the packet is shorter, or has no text there.
pub(crate) fn take_text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(take_number(rest)?).ok()?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    String::from_utf8(text.to_vec()).ok()
}
