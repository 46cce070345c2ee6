//! What a worker may ask of the kernel, and what comes back.

use std::fmt;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

use bytes::{Bytes, BytesMut};

/// An operation, with the buffers it needs.
///
/// Descriptors are borrowed by number: the caller keeps each open until the completion came. To end
/// a connection with operations in flight, shut the socket down or cancel, and close it afterwards;
/// an operation in flight keeps the file alive in the kernel whatever happens to the number.
///
/// Order holds per socket and direction only for operations that are in flight one at a time.
#[derive(Debug)]
pub enum Op {
    /// Takes one connection from a listening socket.
    ///
    /// Completes with 0. The fallback makes the listening socket non-blocking.
    Accept {
        /// The listening socket.
        socket: RawFd,
        /// Set by the completion: the connection, close-on-exec and blocking. `None` on submission.
        accepted: Option<OwnedFd>,
    },
    /// Waits until a descriptor is readable, at its end, or broken; once.
    ///
    /// Completes with the `poll(2)` events. For descriptors that carry no bytes of ours: signalfd,
    /// eventfd, sockets whose messages carry descriptors.
    PollReadable {
        /// Any descriptor that can be polled.
        fd: RawFd,
    },
    /// Waits until a descriptor takes bytes, or is broken; once.
    ///
    /// Completes with the `poll(2)` events. For bytes that another call moves.
    PollWritable {
        /// A connected stream socket, or another descriptor that can be polled.
        fd: RawFd,
    },
    /// Reads a file at an offset, appending to `buffer`.
    ///
    /// Completes with the bytes read: 0 at or past the end of the file, fewer than `length` when the
    /// file ends within.
    ReadAt {
        /// The file.
        file: RawFd,
        /// Where to start, in bytes.
        offset: u64,
        /// Must have `length` bytes of spare capacity.
        buffer: BytesMut,
        /// Bytes to read.
        length: usize,
        /// Have another thread read, even what is in memory: copying much of it takes longer than
        /// handing it over. Changes no result.
        in_thread: bool,
    },
    /// Receives what a socket has, appending to `buffer`.
    ///
    /// Completes with the bytes received; 0 is the end of the stream.
    Receive {
        /// A connected socket.
        socket: RawFd,
        /// Must have spare capacity; nothing beyond it is received.
        buffer: BytesMut,
        /// Bytes to receive at most.
        limit: usize,
        /// Do not try before the socket is known to be readable: saves a failing attempt where the
        /// next bytes are not expected yet. Changes no result.
        poll_first: bool,
        /// Complete when `limit` bytes are there or the stream is at its end; otherwise with whatever
        /// comes.
        whole: bool,
    },
    /// Sends all of `buffers`, in order, without raising SIGPIPE.
    ///
    /// Completes with the sum of their lengths or fails; after a failure an unknown part was sent.
    Send {
        /// A connected stream socket.
        socket: RawFd,
        /// What to send.
        buffers: Vec<SendBuffer>,
    },
    /// Sends what a socket takes without waiting, without raising SIGPIPE: on the ring with the same
    /// call that waits for what comes next, which reports it together with that.
    ///
    /// Completes with the bytes that were taken, none if there is no room. Where a call of its own
    /// would have to be made ([`Backend::Fallback`](crate::Backend::Fallback)) it saves nothing.
    SendAtOnce {
        /// A connected stream socket.
        socket: RawFd,
        /// What to send.
        buffers: Vec<SendBuffer>,
    },
    /// Makes what was written to a file durable. Completes with 0.
    Sync {
        /// The file.
        file: RawFd,
        /// Leave out metadata that no later read needs (`fdatasync`).
        data_only: bool,
    },
    /// Writes all of `data` to a file at an offset.
    ///
    /// Completes with `data.len()` or fails; after a failure an unknown prefix was written.
    WriteAt {
        /// The file.
        file: RawFd,
        /// Where to start, in bytes.
        offset: u64,
        /// What to write.
        data: Bytes,
    },
}

/// One piece of a [`Op::Send`].
#[derive(Debug)]
pub enum SendBuffer {
    /// Shared bytes, such as file data.
    Bytes(Bytes),
    /// An owned vector whose first `start` bytes are not sent: room for a header that turned out
    /// shorter than reserved.
    Vec {
        /// The storage.
        bytes: Vec<u8>,
        /// Where the data start; nothing is sent if this is past the end.
        start: usize,
    },
}

impl SendBuffer {
    /// The bytes that go out.
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

/// The caller's name for an operation. Means nothing here and need not be unique.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Token(pub u64);

/// An operation that ended.
#[derive(Debug)]
pub struct Completion {
    /// As submitted.
    pub token: Token,
    /// As submitted; buffers hold what was received or read, also beside an error.
    pub op: Op,
    /// What the variant of [`Op`] says; `ECANCELED` if it was cancelled in time.
    pub result: io::Result<usize>,
}

/// An operation that was not started.
#[derive(Debug)]
pub struct Refused {
    /// The operation, untouched.
    pub op: Op,
    /// Why.
    pub reason: Reason,
}

/// Why an operation was not started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// `Limits::operations_in_flight_max` are in flight.
    Full,
    /// The buffer has no spare capacity (Receive), or less than `length` (ReadAt). A receive into
    /// nothing would complete with 0, which means end of stream.
    NoRoom,
    /// The range does not end below 2^63. The kernel reads some such offsets as "current position".
    OffsetTooLarge,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason {
            Reason::Full => "too many operations in flight",
            Reason::NoRoom => "no room in the buffer",
            Reason::OffsetTooLarge => "offset too large",
        })
    }
}

impl std::error::Error for Refused {}
