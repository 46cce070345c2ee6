//! State of an operation in flight: its next system call, and the effect of each result.
//!
//! Common to both back ends, which differ in how they make the calls.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use libc::iovec;

use crate::op::{Completion, Op, Reason, SendBuffer, Token};

/// An operation with its progress.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) token: Token,
    op: Op,
    /// Bytes sent, written or received by earlier calls.
    progress: usize,
    /// True once the caller has cancelled the operation: it does not continue after a short call.
    pub(crate) cancelled: bool,
}

/// Next system call of an operation. Pointers are into the buffers of the operation.
#[derive(Debug)]
pub(crate) enum Call {
    Accept {
        socket: RawFd,
    },
    Poll {
        fd: RawFd,
        direction: Direction,
    },
    ReadAt {
        file: RawFd,
        offset: u64,
        pointer: *mut u8,
        length: u32,
        in_thread: bool,
    },
    Receive {
        socket: RawFd,
        pointer: *mut u8,
        length: u32,
        poll_first: bool,
        whole: bool,
    },
    /// The bytes are in the vectors given to [`Operation::next_call`].
    Send {
        socket: RawFd,
        at_once: bool,
    },
    Sync {
        file: RawFd,
        data_only: bool,
    },
    WriteAt {
        file: RawFd,
        offset: u64,
        pointer: *const u8,
        length: u32,
    },
}

/// Next step after a system call.
#[derive(Debug)]
pub(crate) enum Step {
    /// Make the next call at once.
    Again,
    Done(io::Result<usize>),
    /// Make the next call when the descriptor is ready.
    WouldBlock,
}

/// Kind of readiness that an operation waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    /// Events for `poll(2)`; epoll has the same numbers.
    pub(crate) fn events(self) -> libc::c_short {
        match self {
            Self::Read => libc::POLLIN,
            Self::Write => libc::POLLOUT,
        }
    }
}

/// Highest number of bytes that the kernel moves in one call (`MAX_RW_COUNT`).
const CALL_BYTES_MAX: usize = 0x7fff_f000;

/// `UIO_MAXIOV`: the kernel refuses a message with more vectors.
const VECTORS_MAX: usize = 1_024;

impl Operation {
    pub(crate) fn new(token: Token, op: Op) -> Self {
        Self { token, op, progress: 0, cancelled: false }
    }

    /// Descriptor and direction to wait for; `None` if the operation is on a file and blocks.
    pub(crate) fn readiness(&self) -> Option<(RawFd, Direction)> {
        match self.op {
            Op::Accept { socket, .. } | Op::Receive { socket, .. } => {
                Some((socket, Direction::Read))
            }
            Op::PollReadable { fd } => Some((fd, Direction::Read)),
            Op::PollWritable { fd } => Some((fd, Direction::Write)),
            Op::Send { socket, .. } | Op::SendAtOnce { socket, .. } => {
                Some((socket, Direction::Write))
            }
            Op::ReadAt { .. } | Op::Sync { .. } | Op::WriteAt { .. } => None,
        }
    }

    /// Direction of an operation that only waits; `None` for others.
    pub(crate) fn polls(&self) -> Option<Direction> {
        match self.op {
            Op::PollReadable { .. } => Some(Direction::Read),
            Op::PollWritable { .. } => Some(Direction::Write),
            _ => None,
        }
    }

    pub(crate) fn is_send(&self) -> bool {
        matches!(self.op, Op::Send { .. } | Op::SendAtOnce { .. })
    }

    /// True for an operation that ends when it is started.
    pub(crate) fn is_at_once(&self) -> bool {
        matches!(self.op, Op::SendAtOnce { .. })
    }

    /// Describes the next call. A send overwrites `vectors`, other operations leave it alone.
    pub(crate) fn next_call(&mut self, vectors: &mut Vec<iovec>) -> Call {
        match &mut self.op {
            Op::Accept { socket, .. } => Call::Accept { socket: *socket },
            Op::PollReadable { fd } => Call::Poll { fd: *fd, direction: Direction::Read },
            Op::PollWritable { fd } => Call::Poll { fd: *fd, direction: Direction::Write },
            Op::ReadAt { file, offset, buffer, length, in_thread } => {
                let spare = buffer.spare_capacity_mut();
                let length = call_length(spare.len().min(*length));
                Call::ReadAt {
                    file: *file,
                    offset: *offset,
                    pointer: spare.as_mut_ptr().cast(),
                    length,
                    in_thread: *in_thread,
                }
            }
            Op::Receive { socket, buffer, limit, poll_first, whole } => {
                let (socket, poll_first, whole) = (*socket, *poll_first, *whole);
                let spare = buffer.spare_capacity_mut();
                let length = call_length(spare.len().min(*limit - self.progress));
                let pointer = spare.as_mut_ptr().cast();
                Call::Receive { socket, pointer, length, poll_first, whole }
            }
            Op::Send { socket, buffers } => {
                gather(buffers, self.progress, vectors);
                Call::Send { socket: *socket, at_once: false }
            }
            Op::SendAtOnce { socket, buffers } => {
                gather(buffers, 0, vectors);
                Call::Send { socket: *socket, at_once: true }
            }
            Op::Sync { file, data_only } => Call::Sync { file: *file, data_only: *data_only },
            Op::WriteAt { file, offset, data } => {
                let rest = &data[self.progress..];
                let (pointer, length) = (rest.as_ptr(), call_length(rest.len()));
                let offset = *offset + self.progress as u64;
                Call::WriteAt { file: *file, offset, pointer, length }
            }
        }
    }

    /// Applies the outcome of the call that [`next_call`](Self::next_call) described.
    ///
    /// # Safety
    ///
    /// `outcome` is the kernel's result of exactly that call, and the call is over: its bytes are
    /// in the buffer, and its descriptor has no other owner.
    pub(crate) unsafe fn advance(&mut self, outcome: io::Result<usize>) -> Step {
        let count = match outcome {
            Ok(count) => count,
            Err(error) => return self.advance_after_error(error),
        };
        match &mut self.op {
            Op::Accept { accepted, .. } => {
                let fd = RawFd::try_from(count).expect("the kernel returns a descriptor");
                // SAFETY: the call returned a new descriptor, and by this function's contract no
                // other code owns it.
                *accepted = Some(unsafe { OwnedFd::from_raw_fd(fd) });
                Step::Done(Ok(0))
            }
            Op::ReadAt { buffer, length, .. } => {
                // SAFETY: the kernel wrote the first `count` bytes of the spare capacity.
                unsafe { fill(buffer, *length, count) };
                Step::Done(Ok(count))
            }
            Op::Receive { buffer, limit, whole, .. } => {
                // SAFETY: as above.
                let room = unsafe { fill(buffer, *limit - self.progress, count) };
                self.progress += count;
                if *whole && count > 0 && room > 0 && !self.cancelled {
                    // The rest was not available, or the stream is at its end, which also ends the
                    // wait.
                    return Step::WouldBlock;
                }
                Step::Done(Ok(self.progress))
            }
            Op::PollReadable { .. } | Op::PollWritable { .. } | Op::SendAtOnce { .. } => {
                Step::Done(Ok(count))
            }
            Op::Send { buffers, .. } => {
                let total = buffers.iter().map(|buffer| buffer.as_slice().len()).sum();
                self.advance_by(count, total)
            }
            Op::Sync { .. } => Step::Done(Ok(0)),
            Op::WriteAt { data, .. } => {
                let total = data.len();
                self.advance_by(count, total)
            }
        }
    }

    fn advance_by(&mut self, count: usize, total: usize) -> Step {
        self.progress += count;
        assert!(self.progress <= total, "the kernel takes no more than it was given");
        if self.progress == total {
            Step::Done(Ok(total))
        } else if count == 0 {
            // Neither progress nor an error: another attempt could repeat for ever.
            Step::Done(Err(io::ErrorKind::WriteZero.into()))
        } else if self.cancelled {
            Step::Done(Err(cancelled()))
        } else {
            Step::Again
        }
    }

    fn advance_after_error(&self, error: io::Error) -> Step {
        match error.raw_os_error() {
            // A cancelled operation in an io-wq worker reports the signal that stopped it; other
            // interruptions are hidden from the caller.
            Some(libc::EINTR) if self.cancelled => Step::Done(Err(cancelled())),
            Some(libc::EINTR) => Step::Again,
            Some(libc::EAGAIN) if self.is_at_once() => Step::Done(Ok(0)),
            // The socket is non-blocking (or the call was): wait for readiness instead of failing.
            Some(libc::EAGAIN) if self.readiness().is_some() => {
                if self.cancelled {
                    Step::Done(Err(cancelled()))
                } else {
                    Step::WouldBlock
                }
            }
            _ => Step::Done(Err(error)),
        }
    }

    pub(crate) fn complete(self, result: io::Result<usize>) -> Completion {
        Completion { token: self.token, op: self.op, result }
    }

    pub(crate) fn into_op(self) -> Op {
        self.op
    }
}

impl Op {
    /// Refuses operations that no call can express, before they are in flight.
    pub(crate) fn verify(&self) -> Result<(), Reason> {
        let spare = |buffer: &bytes::BytesMut| buffer.capacity() - buffer.len();
        let (offset, length) = match self {
            Self::ReadAt { buffer, length, .. } if spare(buffer) < *length => {
                return Err(Reason::NoRoom);
            }
            Self::Receive { buffer, limit, .. } if spare(buffer).min(*limit) == 0 => {
                return Err(Reason::NoRoom);
            }
            Self::ReadAt { offset, length, .. } => (*offset, *length),
            Self::WriteAt { offset, data, .. } => (*offset, data.len()),
            _ => return Ok(()),
        };
        match offset.checked_add(length as u64) {
            Some(end) if i64::try_from(end).is_ok() => Ok(()),
            _ => Err(Reason::OffsetTooLarge),
        }
    }
}

/// Adds `count` filled bytes to a buffer, of at most `limit`. Returns the number of unfilled ones.
///
/// # Safety
///
/// The first `count` bytes of its spare capacity are initialized.
unsafe fn fill(buffer: &mut bytes::BytesMut, limit: usize, count: usize) -> usize {
    let room = buffer.spare_capacity_mut().len().min(limit);
    assert!(count <= room, "the kernel fills no more than it was given");
    // SAFETY: the caller's promise, and the capacity is at least that.
    unsafe { buffer.set_len(buffer.len() + count) };
    room - count
}

/// Error of a cancelled operation: `ECANCELED`.
pub(crate) fn cancelled() -> io::Error {
    io::Error::from_raw_os_error(libc::ECANCELED)
}

fn call_length(length: usize) -> u32 {
    u32::try_from(length.min(CALL_BYTES_MAX)).expect("CALL_BYTES_MAX fits")
}

/// Lists the rest of `buffers` after `skip` bytes, up to the limit of one call.
fn gather(buffers: &[SendBuffer], mut skip: usize, vectors: &mut Vec<iovec>) {
    vectors.clear();
    for buffer in buffers {
        let bytes = buffer.as_slice();
        if skip >= bytes.len() {
            skip -= bytes.len();
            continue;
        }
        let rest = &bytes[skip..];
        skip = 0;
        vectors.push(iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() });
        if vectors.len() == VECTORS_MAX {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
