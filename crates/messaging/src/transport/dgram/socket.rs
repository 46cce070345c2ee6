//! Sending and receiving datagrams with credentials and descriptors.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

/// Descriptors that a datagram may carry: the kernel's limit, SCM_MAX_FD.
pub(super) const DESCRIPTORS_MAX: usize = 253;

/// A datagram that arrived. The bytes are in the caller's buffer.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) len: usize,
    /// The sender's pid and user, as the kernel saw them; `None` if it did not say.
    pub(super) credentials: Option<Credentials>,
    pub(super) descriptors: Vec<OwnedFd>,
    /// Bytes or descriptors did not fit.
    pub(super) truncated: bool,
}

/// Who sent a datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Credentials {
    pub(super) pid: u32,
    pub(super) uid: u32,
}

/// Sends a datagram over a connected socket; without waiting, and whole or not at all.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    parts: [&[u8]; 2],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let parts = parts.map(IoSlice::new);
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let send = |control: &mut SendAncillaryBuffer<'_, '_, '_>| loop {
        match rustix::net::sendmsg(socket, &parts, control, flags) {
            Err(Errno::INTR) => {}
            sent => return sent.map(|_| ()),
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

/// Receives a datagram into `buffer`; `EAGAIN` if there is none.
pub(super) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<Arrival, Errno> {
    let mut control = Control([0; CONTROL_WORDS]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: an all-zero `msghdr` is a valid one: no address, no parts, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control.0);
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    let len = loop {
        // SAFETY: `message` points to one part and to control data that are ours to write and as
        // long as it says.
        let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
        match usize::try_from(len) {
            Ok(len) => break len,
            Err(_) => match Errno::from_io_error(&std::io::Error::last_os_error()) {
                Some(Errno::INTR) => {}
                error => return Err(error.unwrap_or(Errno::IO)),
            },
        }
    };
    let truncated = message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    let mut arrival = Arrival { len, credentials: None, descriptors: Vec::new(), truncated };
    // SAFETY: the kernel has just filled in `message`, and its control data is still there.
    unsafe { read_control(&message, &mut arrival) };
    Ok(arrival)
}

/// Takes credentials and descriptors out of the control data.
///
/// # Safety
/// `message` is as `recvmsg` left it, its control data is alive, and this is done once: the
/// descriptors in it become ours.
unsafe fn read_control(message: &libc::msghdr, arrival: &mut Arrival) {
    // SAFETY: the caller's promise; so for all steps from header to header.
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
                    // and nobody else knows it.
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

/// Duplicates of `descriptors` that are ours.
pub(super) fn duplicate(descriptors: &[BorrowedFd<'_>]) -> Result<Vec<OwnedFd>, Errno> {
    descriptors.iter().map(|descriptor| rustix::io::fcntl_dupfd_cloexec(descriptor, 0)).collect()
}

/// `descriptors`, borrowed.
pub(super) fn borrow(descriptors: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    descriptors.iter().map(AsFd::as_fd).collect()
}

/// Control data, aligned as its headers must be.
#[repr(align(8))]
struct Control([u64; CONTROL_WORDS]);

/// Room for the credentials and the most descriptors: 32 and 16 + 4 × 253, rounded up.
const CONTROL_WORDS: usize = (32 + 16 + 4 * DESCRIPTORS_MAX).div_ceil(8) + 1;
