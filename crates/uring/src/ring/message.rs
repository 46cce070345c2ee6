//! Memory of a vectored send, apart from the data.

use std::os::fd::RawFd;

use io_uring::{opcode, squeue, types};
use libc::iovec;

/// A message header and its vectors. Boxed, so that the address of the header is stable.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) vectors: Vec<iovec>,
    header: libc::msghdr,
}

impl Default for Message {
    fn default() -> Self {
        // SAFETY: all zeros is a message without address, data or control data.
        Self { vectors: Vec::new(), header: unsafe { std::mem::zeroed() } }
    }
}

impl Message {
    /// Returns the submission that sends the bytes of `vectors`; with `at_once` without waiting for
    /// room.
    ///
    /// With MSG_WAITALL, kernels from 5.19 on continue after a short send by themselves; older ones
    /// ignore it, and the operation continues.
    pub(crate) fn send(&mut self, socket: RawFd, at_once: bool) -> squeue::Entry {
        let socket = types::Fd(socket);
        let wait = if at_once { libc::MSG_DONTWAIT } else { libc::MSG_WAITALL };
        let flags = libc::MSG_NOSIGNAL | wait;
        // A single piece needs no header for the kernel to copy.
        if let [vector] = self.vectors[..]
            && let Ok(length) = u32::try_from(vector.iov_len)
        {
            return opcode::Send::new(socket, vector.iov_base.cast_const().cast(), length)
                .flags(flags)
                .build();
        }
        self.header.msg_iov = self.vectors.as_mut_ptr();
        self.header.msg_iovlen = self.vectors.len() as _;
        opcode::SendMsg::new(socket, &raw const self.header).flags(flags.unsigned_abs()).build()
    }
}
