//! Sending and receiving over sockets, with credentials and descriptors.

use std::fmt;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

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

/// Receives datagrams or parts of a stream, several per system call.
///
/// The buffers are used again; the kernel has not yet provided memory for parts never written.
pub(super) struct Receiver {
    /// Bytes of a slot in `bytes`.
    slot_bytes: usize,
    bytes: Box<[u8]>,
    controls: Box<[Control]>,
}

impl Receiver {
    /// Creates a receiver of up to `slots` arrivals at once, each of up to `slot_bytes`.
    pub(super) fn new(slots: usize, slot_bytes: usize) -> Self {
        let controls = (0..slots).map(|_| Control([0; CONTROL_WORDS])).collect();
        Self { slot_bytes, bytes: vec![0; slots * slot_bytes].into(), controls }
    }

    /// Receives arrivals, hands each to `take`, and returns their number. `EAGAIN` if there are
    /// none.
    pub(super) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        mut take: impl FnMut(&[u8], Arrival),
    ) -> Result<usize, Errno> {
        let slots = self.bytes.chunks_mut(self.slot_bytes).zip(&mut self.controls);
        let (mut parts, controls): (Vec<libc::iovec>, Vec<&mut Control>) = slots
            .map(|(bytes, control)| {
                let iov_base = bytes.as_mut_ptr().cast();
                (libc::iovec { iov_base, iov_len: bytes.len() }, control)
            })
            .unzip();
        let mut messages: Vec<libc::mmsghdr> = parts
            .iter_mut()
            .zip(controls)
            .map(|(part, control)| {
                // SAFETY: an all-zero `mmsghdr` is a valid one: no address, no parts, no control
                // data.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_iov = part;
                message.msg_hdr.msg_iovlen = 1;
                message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
                message.msg_hdr.msg_controllen = size_of_val(&control.0);
                message
            })
            .collect();
        let count = receive_into(socket, &mut messages)?;
        for (index, message) in messages[..count].iter().enumerate() {
            let header = &message.msg_hdr;
            let truncated = header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
            let mut arrival = Arrival { credentials: None, descriptors: Vec::new(), truncated };
            // SAFETY: the kernel has just filled in `message`, its control data is still there, and
            // no other code reads it.
            unsafe { read_control(header, &mut arrival) };
            let start = index * self.slot_bytes;
            let len = self.slot_bytes.min(message.msg_len as usize);
            take(&self.bytes[start..start + len], arrival);
        }
        Ok(count)
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("slot_bytes", &self.slot_bytes).finish_non_exhaustive()
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
        // that is as long as they say: only `Receiver::receive` calls this, and made them so.
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
