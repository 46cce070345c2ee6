//! Operations of a worker, and their completions.

use std::fmt;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

use bytes::{Bytes, BytesMut};

/// An operation with its buffers.
///
/// Descriptors are borrowed by number: the caller keeps each open until the completion. To end a
/// connection with operations in flight, shut the socket down or cancel them, and close it
/// afterwards; an operation in flight keeps the file alive in the kernel, whatever happens to the
/// number.
///
/// Order is kept per socket and direction only for operations that are in flight one at a time.
#[derive(Debug)]
pub enum Op {
    /// Accepts one connection from a listening socket.
    ///
    /// Completes with 0. The fallback makes the listening socket non-blocking.
    Accept {
        socket: RawFd,
        /// Set by the completion: the connection, close-on-exec and blocking. `None` on submission.
        accepted: Option<OwnedFd>,
    },
    /// Waits until a descriptor is readable, at its end, or broken; once.
    ///
    /// Completes with the `poll(2)` events. For descriptors without a byte stream: signalfd,
    /// eventfd, sockets whose messages carry descriptors.
    PollReadable {
        /// Any descriptor that can be polled.
        fd: RawFd,
    },
    /// Waits until a descriptor accepts bytes, or is broken; once.
    ///
    /// Completes with the `poll(2)` events. For bytes that another call transfers.
    PollWritable {
        /// A connected stream socket, or another descriptor that can be polled.
        fd: RawFd,
    },
    /// Reads a file at an offset, appending to `buffer`.
    ///
    /// Completes with the number of bytes read: 0 at or past the end of the file, fewer than
    /// `length` if the file ends before.
    ReadAt {
        file: RawFd,
        /// First byte in the file.
        offset: u64,
        /// Must have `length` bytes of spare capacity.
        buffer: BytesMut,
        /// Number of bytes to read.
        length: usize,
        /// Whether another thread reads, even cached data: copying much of it takes longer than the
        /// handover. Does not change the result.
        in_thread: bool,
    },
    /// Receives available bytes of a socket, appending to `buffer`.
    ///
    /// Completes with the number of bytes received; 0 is the end of the stream.
    Receive {
        socket: RawFd,
        /// Must have spare capacity, which limits the number of bytes.
        buffer: BytesMut,
        /// Highest number of bytes to receive.
        limit: usize,
        /// Whether to wait for readiness before the first attempt: saves a failing attempt if the
        /// next bytes are not expected yet. Does not change the result.
        poll_first: bool,
        /// Whether to complete only after `limit` bytes or at the end of the stream; otherwise any
        /// number of bytes completes it.
        whole: bool,
    },
    /// Sends all of `buffers`, in order, without raising SIGPIPE.
    ///
    /// Completes with the sum of their lengths or fails; after a failure an unknown part was sent.
    Send {
        socket: RawFd,
        /// The bytes to send, in order.
        buffers: Vec<SendBuffer>,
    },
    /// Sends as many bytes as the socket accepts without waiting, without raising SIGPIPE. The ring
    /// sends them in the system call that waits for the next completion, and reports both together.
    ///
    /// Completes with the number of bytes accepted, zero if there is no room. In
    /// [`Backend::Fallback`](crate::Backend::Fallback) it takes a system call of its own, and saves
    /// nothing.
    SendAtOnce {
        socket: RawFd,
        /// The bytes to send, in order.
        buffers: Vec<SendBuffer>,
    },
    /// Makes earlier writes to a file durable. Completes with 0.
    Sync {
        file: RawFd,
        /// Whether to leave out metadata that no later read needs (`fdatasync`).
        data_only: bool,
    },
    /// Writes all of `data` to a file at an offset.
    ///
    /// Completes with `data.len()` or fails; after a failure an unknown prefix was written.
    WriteAt {
        file: RawFd,
        /// First byte in the file.
        offset: u64,
        /// The bytes to write, in one piece.
        data: Bytes,
    },
}

/// One of the buffers of an [`Op::Send`].
#[derive(Debug)]
pub enum SendBuffer {
    /// Shared bytes, such as file data.
    Bytes(Bytes),
    /// An owned vector without its first `start` bytes, which were reserved for a longer header.
    Vec {
        bytes: Vec<u8>,
        /// Offset of the data; the buffer is empty if this is past the end.
        start: usize,
    },
}

impl SendBuffer {
    /// The bytes to send, without reserved ones.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Vec { bytes, start } => bytes.get(*start..).unwrap_or_default(),
        }
    }
}

impl From<Bytes> for SendBuffer {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Vec<u8>> for SendBuffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Vec { bytes, start: 0 }
    }
}

/// The caller's name for an operation. It has no meaning here and need not be unique.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Token(pub u64);

/// An operation that has ended, and its result.
#[derive(Debug)]
pub struct Completion {
    pub token: Token,
    /// The operation as submitted; its buffers have the received or read bytes, also after an
    /// error.
    pub op: Op,
    /// The result described at the variant of [`Op`]; `ECANCELED` if it was cancelled in time.
    pub result: io::Result<usize>,
}

/// A submitted operation that was not accepted.
#[derive(Debug)]
pub struct Refused {
    pub op: Op,
    pub reason: Reason,
}

/// Reason why an operation was not accepted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// `Limits::operations_in_flight_max` operations are in flight already.
    Full,
    /// The buffer has no spare capacity (Receive), or less than `length` (ReadAt). A receive of
    /// zero bytes would complete with 0, the end of the stream.
    NoRoom,
    /// The range does not end below 2^63. The kernel takes some such offsets for the current
    /// position.
    OffsetTooLarge,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason {
            Reason::Full => "too many operations in flight",
            Reason::NoRoom => "the buffer has no room",
            Reason::OffsetTooLarge => "the offset is too large",
        })
    }
}

impl std::error::Error for Refused {}
