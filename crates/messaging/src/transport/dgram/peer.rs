//! A process that messages go to.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use dtyp::ServerId;
use rustix::io::Errno;

use super::datagram::{FRAGMENT_BYTES_MAX, Header};
use super::socket;

/// A process that messages go to, and those that wait for room in its queue.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) socket: OwnedFd,
    pub(super) queue: VecDeque<Queued>,
    pub(super) queue_bytes: usize,
    /// Names it among those that wait for room; not used again for another peer.
    pub(super) token: u64,
    pub(super) last_used: Instant,
}

/// A frame that waits for room, or the rest of one.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) header: Header,
    pub(super) frame: Vec<u8>,
    /// Those that have not left yet: they leave with the first fragment.
    pub(super) descriptors: Vec<OwnedFd>,
    pub(super) deadline: Instant,
}

/// Sends a frame from `header.offset` on, which is moved past what has left.
///
/// # Errors
/// `EAGAIN` if the receiver has no room for the next fragment.
pub(super) fn send_fragments(
    to: BorrowedFd<'_>,
    header: &mut Header,
    frame: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    loop {
        let offset = header.offset as usize;
        let end = frame.len().min(offset + FRAGMENT_BYTES_MAX);
        let descriptors = if offset == 0 { descriptors } else { &[] };
        match socket::send(to, [&header.encode(), &frame[offset..end]], descriptors) {
            // No buffer, or too many descriptors under way: both pass, as a full queue does.
            Err(Errno::NOBUFS | Errno::TOOMANYREFS) => return Err(Errno::AGAIN),
            sent => sent?,
        }
        header.offset = u32::try_from(end).expect("a frame is shorter than FRAME_BYTES_MAX");
        if end == frame.len() {
            return Ok(());
        }
    }
}

impl Peer {
    pub(super) fn push(&mut self, queued: Queued) {
        self.queue_bytes += queued.frame.len();
        self.queue.push_back(queued);
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let queued = self.queue.pop_front()?;
        self.queue_bytes -= queued.frame.len();
        Some(queued)
    }

    /// Sends the frame at the head of the queue, which is not empty.
    pub(super) fn send_head(&mut self) -> Result<(), Errno> {
        let Some(head) = self.queue.front_mut() else { return Ok(()) };
        let descriptors = socket::borrow(&head.descriptors);
        let sent = send_fragments(self.socket.as_fd(), &mut head.header, &head.frame, &descriptors);
        if head.header.offset > 0 {
            head.descriptors.clear();
        }
        sent
    }
}

/// What tells one message from another on the way: everything but what was sent of it.
pub(super) fn header(
    sender: ServerId,
    receiver: ServerId,
    message_id: u64,
    sizes: (u32, u16),
) -> Header {
    let (total, descriptors) = sizes;
    Header { descriptors, total, offset: 0, sender, receiver, message_id }
}
