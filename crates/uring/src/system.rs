//! System calls for the fallback: those of the ring, made by a thread.

use std::io;
use std::os::fd::RawFd;
use std::ptr;

use libc::iovec;

use crate::operation::{Call, Operation, Step};

/// Makes the next call of an operation on a socket; never waits.
///
/// A [`Call::Poll`] always blocks here: only epoll can complete it.
pub(crate) fn attempt(operation: &mut Operation, vectors: &mut Vec<iovec>) -> Step {
    let outcome = match operation.next_call(vectors) {
        Call::Accept { socket } => accept(socket),
        Call::Poll { .. } => return Step::WouldBlock,
        Call::Receive { socket, pointer, length, .. } => {
            // SAFETY: the operation owns `length` writable bytes at `pointer`.
            count(unsafe {
                libc::recv(socket, pointer.cast(), length as usize, libc::MSG_DONTWAIT)
            })
        }
        Call::Send { socket, .. } => send(socket, vectors),
        Call::ReadAt { .. } | Call::Sync { .. } | Call::WriteAt { .. } => {
            unreachable!("operations on files have no readiness")
        }
    };
    // SAFETY: `outcome` is that of the call just described, and the call has returned.
    unsafe { operation.advance(outcome) }
}

/// Reads from the page cache if it has the whole range, or the file has ended.
///
/// `None` means that a thread has to read, or was requested; no byte was consumed.
pub(crate) fn read_cached(operation: &mut Operation) -> Option<Step> {
    let Call::ReadAt { file, offset, pointer, length, in_thread: false } =
        operation.next_call(&mut Vec::new())
    else {
        return None;
    };
    let vector = iovec { iov_base: pointer.cast(), iov_len: length as usize };
    let offset = i64::try_from(offset).expect("verified on submission");
    // SAFETY: `vector` describes `length` writable bytes that the operation owns.
    let outcome =
        count(unsafe { libc::preadv2(file, &raw const vector, 1, offset, libc::RWF_NOWAIT) });
    // A short count may be the end of the file or of the cached range. EAGAIN means an empty cache;
    // other errors (EOPNOTSUPP of some file systems first) are left to a plain read.
    if !matches!(outcome, Ok(read) if read == length as usize || read == 0) {
        return None;
    }
    // SAFETY: `outcome` is that of the call just described, and the call has returned.
    Some(unsafe { operation.advance(outcome) })
}

/// Makes the calls of an operation on a file until it is done; blocks.
pub(crate) fn run(operation: &mut Operation) -> io::Result<usize> {
    loop {
        let outcome = match operation.next_call(&mut Vec::new()) {
            Call::ReadAt { file, offset, pointer, length, .. } => {
                let offset = i64::try_from(offset).expect("verified on submission");
                // SAFETY: the operation owns `length` writable bytes at `pointer`.
                count(unsafe { libc::pread64(file, pointer.cast(), length as usize, offset) })
            }
            Call::Sync { file, data_only: true } => {
                // SAFETY: takes no pointers.
                count(unsafe { libc::fdatasync(file) } as isize)
            }
            Call::Sync { file, data_only: false } => {
                // SAFETY: takes no pointers.
                count(unsafe { libc::fsync(file) } as isize)
            }
            Call::WriteAt { file, offset, pointer, length } => {
                let offset = i64::try_from(offset).expect("verified on submission");
                // SAFETY: the operation owns `length` readable bytes at `pointer`.
                count(unsafe { libc::pwrite64(file, pointer.cast(), length as usize, offset) })
            }
            Call::Accept { .. } | Call::Poll { .. } | Call::Receive { .. } | Call::Send { .. } => {
                unreachable!("operations with readiness run on the loop")
            }
        };
        // SAFETY: `outcome` is that of the call just described, and the call has returned.
        match unsafe { operation.advance(outcome) } {
            Step::Again => {}
            Step::Done(result) => return result,
            Step::WouldBlock => unreachable!("operations on files have no readiness"),
        }
    }
}

/// Sets O_NONBLOCK first: `accept` has no MSG_DONTWAIT, and a connection that poll announced may be
/// gone, or accepted by another process, meanwhile.
fn accept(socket: RawFd) -> io::Result<usize> {
    // SAFETY: takes no pointers.
    let flags = unsafe { libc::fcntl(socket, libc::F_GETFL) };
    if flags >= 0 && flags & libc::O_NONBLOCK == 0 {
        // SAFETY: takes no pointers.
        count(unsafe { libc::fcntl(socket, libc::F_SETFL, flags | libc::O_NONBLOCK) } as isize)?;
    }
    // SAFETY: null pointers request no address.
    count(unsafe { libc::accept4(socket, ptr::null_mut(), ptr::null_mut(), libc::SOCK_CLOEXEC) }
        as isize)
}

fn send(socket: RawFd, vectors: &mut [iovec]) -> io::Result<usize> {
    // SAFETY: all zeros is a message without address, data or control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vectors.as_mut_ptr();
    message.msg_iovlen = vectors.len() as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `vectors` describes bytes that the operation owns, and sending only reads them.
    count(unsafe { libc::sendmsg(socket, &raw const message, flags) })
}

fn count(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}
