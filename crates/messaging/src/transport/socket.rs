//! Sending and receiving over sockets, with credentials and descriptors.

#[cfg(any(feature = "messaging-dgram", feature = "messaging-tdb"))]
use std::fmt;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

#[cfg(any(feature = "messaging-dgram", feature = "messaging-tdb"))]
use super::packet::HEAD_BYTES;

/// Highest number of descriptors of a packet: the kernel's limit, SCM_MAX_FD.
pub(super) const DESCRIPTORS_MAX: usize = 253;

/// Control data of a datagram or a part of a stream.
#[derive(Debug)]
pub(super) struct Arrival {
    /// Sender's pid and user from the kernel; `None` if it gave none.
    pub(super) credentials: Option<Credentials>,
    pub(super) descriptors: Vec<OwnedFd>,
    /// True if bytes or descriptors did not fit.
    pub(super) truncated: bool,
}

/// Credentials of the process at the other end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Credentials {
    pub(super) pid: u32,
    pub(super) uid: u32,
}

/// Sends as much as a connected socket accepts without blocking, and returns the number of bytes.
/// The descriptors go with the first of them.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    parts: &[IoSlice<'_>],
    descriptors: &[BorrowedFd<'_>],
) -> Result<usize, Errno> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let send = |control: &mut SendAncillaryBuffer<'_, '_, '_>| loop {
        match rustix::net::sendmsg(socket, parts, control, flags) {
            Err(Errno::INTR) => {}
            // No memory, or too many descriptors in transit: both pass, as a full queue does.
            Err(Errno::NOBUFS | Errno::NOMEM | Errno::TOOMANYREFS) => return Err(Errno::AGAIN),
            sent => return sent,
        }
    };
    if descriptors.is_empty() {
        return send(&mut SendAncillaryBuffer::default());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    match control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        true => send(&mut control),
        false => Err(Errno::INVAL),
    }
}

/// Receives datagrams, several per system call.
///
/// The buffers are used again; the kernel has not yet provided memory for parts never written.
#[cfg(any(feature = "messaging-dgram", feature = "messaging-tdb"))]
pub(super) struct Receiver {
    /// As many as were needed at once so far: each takes 1 KiB, most of it for descriptors.
    slots: Vec<Slot>,
    slots_max: usize,
    /// Slots of the next system call: more after one that has filled all, since each takes a page
    /// or two even if it stays empty, and most workers get few messages. Large datagrams come one
    /// by one, so that their buffers are used and freed in turn: several at once make the allocator
    /// return memory to the kernel and ask for it again.
    at_once: usize,
}

/// Buffers for one datagram and its control data.
#[cfg(any(feature = "messaging-dgram", feature = "messaging-tdb"))]
struct Slot {
    head: [u8; HEAD_BYTES],
    /// Rest of the datagram; empty after its receipt.
    body: Vec<u8>,
    control: Control,
}

#[cfg(any(feature = "messaging-dgram", feature = "messaging-tdb"))]
impl Slot {
    fn new() -> Self {
        Self { head: [0; HEAD_BYTES], body: Vec::new(), control: Control::default() }
    }
}

#[cfg(any(feature = "messaging-dgram", feature = "messaging-tdb"))]
impl Receiver {
    /// Creates a receiver of up to `slots` datagrams at once.
    pub(super) fn new(slots_max: usize) -> Self {
        // With a single one, each datagram would take a second call, which finds none.
        Self { slots: Vec::new(), slots_max, at_once: slots_max.min(2) }
    }

    /// Receives datagrams of up to `bytes` each. Passes head and rest of each to `take`, which may
    /// keep the rest with its buffer. Returns true if there may be more; `EAGAIN` if there are
    /// none.
    pub(super) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        bytes: usize,
        mut take: impl FnMut(&[u8], &mut Vec<u8>, Arrival),
    ) -> Result<bool, Errno> {
        let body_bytes = bytes - HEAD_BYTES;
        let at_once = self.at_once;
        if self.slots.len() < at_once {
            self.slots.resize_with(at_once, Slot::new);
        }
        let slots = &mut self.slots[..at_once];
        let mut parts: Vec<[libc::iovec; 2]> = Vec::with_capacity(at_once);
        let mut messages: Vec<libc::mmsghdr> = Vec::with_capacity(at_once);
        for slot in &mut *slots {
            slot.body.reserve_exact(body_bytes);
            let body = &mut slot.body.spare_capacity_mut()[..body_bytes];
            parts.push([
                part(slot.head.as_mut_ptr(), HEAD_BYTES),
                part(body.as_mut_ptr(), body_bytes),
            ]);
        }
        for (slot, parts) in slots.iter_mut().zip(&mut parts) {
            messages.push(message(parts, &mut slot.control));
        }
        let count = receive_into(socket, &mut messages)?;
        let wanted = if count == at_once { 2 * at_once } else { at_once.max(2) };
        self.at_once = wanted.min(self.slots_max);
        for (slot, message) in slots.iter_mut().zip(&messages[..count]) {
            let len = (message.msg_len as usize).min(bytes);
            if len >= LARGE {
                self.at_once = 1;
            }
            let head_bytes = len.min(HEAD_BYTES);
            // SAFETY: the kernel has written `len` bytes, those behind the head to the start of the
            // empty `body`, whose capacity is `body_bytes` or more.
            unsafe { slot.body.set_len(len - head_bytes) };
            // SAFETY: the kernel has just filled in `message`, its control data is still there, and
            // no other code reads it.
            let arrival = unsafe { arrival_of(&message.msg_hdr) };
            take(&slot.head[..head_bytes], &mut slot.body, arrival);
            slot.body.clear();
        }
        Ok(count == at_once)
    }
}

/// Receives a part of a stream of at most `bytes`, behind those in `received`. Returns its length,
/// 0 at the end of the stream.
#[cfg(feature = "messaging-stream")]
pub(super) fn receive_part(
    socket: BorrowedFd<'_>,
    bytes: usize,
    received: &mut Vec<u8>,
) -> Result<(usize, Arrival), Errno> {
    received.reserve(bytes);
    let spare = &mut received.spare_capacity_mut()[..bytes];
    let mut parts = [part(spare.as_mut_ptr(), bytes)];
    let mut control = Control::default();
    let mut messages = [message(&mut parts, &mut control)];
    receive_into(socket, &mut messages)?;
    let len = (messages[0].msg_len as usize).min(bytes);
    // SAFETY: the kernel has written so many bytes behind the present ones, and `bytes` were
    // reserved there.
    unsafe { received.set_len(received.len() + len) };
    // SAFETY: the kernel has just filled in the message, its control data is still there, and no
    // other code reads it.
    let arrival = unsafe { arrival_of(&messages[0].msg_hdr) };
    Ok((len, arrival))
}

/// Describes memory for the kernel.
fn part<T>(start: *mut T, len: usize) -> libc::iovec {
    libc::iovec { iov_base: start.cast(), iov_len: len }
}

/// Describes room for an arrival.
fn message(parts: &mut [libc::iovec], control: &mut Control) -> libc::mmsghdr {
    // SAFETY: an all-zero `mmsghdr` is a valid one: no address, no parts, no control data.
    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
    message.msg_hdr.msg_iov = parts.as_mut_ptr();
    message.msg_hdr.msg_iovlen = parts.len();
    message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
    message.msg_hdr.msg_controllen = size_of_val(&control.0);
    message
}

/// Returns the control data of an arrival.
///
/// # Safety
/// `header` is as the kernel left it, its control data is alive, and this is called once: the
/// descriptors in it become ours.
unsafe fn arrival_of(header: &libc::msghdr) -> Arrival {
    let truncated = header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    let mut arrival = Arrival { credentials: None, descriptors: Vec::new(), truncated };
    // SAFETY: the caller's promise.
    unsafe { read_control(header, &mut arrival) };
    arrival
}

#[cfg(any(feature = "messaging-dgram", feature = "messaging-tdb"))]
impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("slots", &self.slots.len()).finish()
    }
}

/// True if something can be received.
#[cfg(any(feature = "messaging-dgram", feature = "messaging-tdb"))]
pub(super) fn has_something(socket: BorrowedFd<'_>) -> bool {
    use rustix::net::RecvFlags;
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    !matches!(rustix::net::recv(socket, &mut [0], flags), Err(Errno::AGAIN))
}

/// Receives into as many of `messages` as there are arrivals; each message points to parts and
/// control data that are alive and used by no other code.
fn receive_into(socket: BorrowedFd<'_>, messages: &mut [libc::mmsghdr]) -> Result<usize, Errno> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    let len = libc::c_uint::try_from(messages.len()).expect("a few");
    loop {
        // SAFETY: there are `len` messages, and their pointers lead to memory that we may write and
        // that is as long as they say: `message` made them so for the only callers, which keep the
        // memory borrowed.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                len,
                flags,
                std::ptr::null_mut(),
            )
        };
        match usize::try_from(count) {
            Ok(count) => return Ok(count),
            Err(_) => match Errno::from_io_error(&std::io::Error::last_os_error()) {
                Some(Errno::INTR) => {}
                error => return Err(error.unwrap_or(Errno::IO)),
            },
        }
    }
}

/// Takes credentials and descriptors out of the control data.
///
/// # Safety
/// `message` is as `recvmsg` left it, its control data is alive, and this is called once: the
/// descriptors in it become ours.
unsafe fn read_control(message: &libc::msghdr, arrival: &mut Arrival) {
    // SAFETY: the caller's promise; the same for each step from header to header.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: `CMSG_FIRSTHDR` and `CMSG_NXTHDR` give headers that lie inside the control data.
        let control = unsafe { &*header };
        // SAFETY: as above; computes an address, and the kernel wrote the data that follows.
        let (data, overhead) = unsafe { (libc::CMSG_DATA(header), libc::CMSG_LEN(0) as usize) };
        let len = control.cmsg_len.saturating_sub(overhead);
        match (control.cmsg_level, control.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if len >= size_of::<libc::ucred>() => {
                // SAFETY: the data is at least as long as a `ucred`, any bytes of which are valid.
                let found = unsafe { data.cast::<libc::ucred>().read_unaligned() };
                let pid = u32::try_from(found.pid).unwrap_or(0);
                arrival.credentials = Some(Credentials { pid, uid: found.uid });
            }
            (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                let descriptors = data.cast::<RawFd>();
                for index in 0..len / size_of::<RawFd>() {
                    // SAFETY: inside the data; the kernel opened this descriptor for us just now,
                    // and no other code knows it.
                    let descriptor =
                        unsafe { OwnedFd::from_raw_fd(descriptors.add(index).read_unaligned()) };
                    arrival.descriptors.push(descriptor);
                }
            }
            _ => {}
        }
        // SAFETY: as for `CMSG_FIRSTHDR`.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
}

/// Duplicates `descriptors`; the caller owns the copies.
pub(super) fn duplicate(descriptors: &[BorrowedFd<'_>]) -> Result<Vec<OwnedFd>, Errno> {
    descriptors.iter().map(|descriptor| rustix::io::fcntl_dupfd_cloexec(descriptor, 0)).collect()
}

/// Borrows each of the `descriptors`.
pub(super) fn borrow(descriptors: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    descriptors.iter().map(AsFd::as_fd).collect()
}

/// Control data, aligned as its headers must be.
#[repr(align(8))]
struct Control([u64; CONTROL_WORDS]);

/// Bytes of a datagram from which on the next one is received alone.
#[cfg(any(feature = "messaging-dgram", feature = "messaging-tdb"))]
const LARGE: usize = 32 * 1024;

impl Default for Control {
    fn default() -> Self {
        Self([0; CONTROL_WORDS])
    }
}

/// Words of control data: the credentials and the most descriptors, 32 and 16 + 4 × 253 bytes.
const CONTROL_WORDS: usize = (32 + 16 + 4 * DESCRIPTORS_MAX).div_ceil(8) + 1;

/// Credentials of the process at the other end of a connection.
#[cfg(feature = "messaging-stream")]
pub(super) fn peer_credentials(socket: BorrowedFd<'_>) -> Result<Credentials, Errno> {
    let found = rustix::net::sockopt::socket_peercred(socket)?;
    let pid = u32::try_from(found.pid.as_raw_nonzero().get()).unwrap_or(0);
    Ok(Credentials { pid, uid: found.uid.as_raw() })
}

/// True if a process of user `uid` may send to one of `own_uid`.
pub(super) fn is_of_server(uid: u32, own_uid: u32) -> bool {
    uid == 0 || uid == own_uid
}

#[cfg(all(test, any(feature = "messaging-dgram", feature = "messaging-tdb")))]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    use super::{HEAD_BYTES, Receiver};

    #[test]
    fn a_receiver_has_as_many_buffers_as_came_datagrams_at_once() {
        let (ours, theirs) = UnixDatagram::pair().expect("sockets");
        let mut receiver = Receiver::new(4);
        let mut receive = |datagrams: usize| {
            for _ in 0..datagrams {
                theirs.send(&[0; HEAD_BYTES]).expect("room");
            }
            while receiver.receive(ours.as_fd(), 2 * HEAD_BYTES, |_, _, _| {}) == Ok(true) {}
            receiver.slots.len()
        };
        assert_eq!([0, 1, 2, 9, 1].map(&mut receive), [2, 2, 4, 4, 4]);
    }
}
