//! News of interfaces that come and go, and of their addresses.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::netlink;

/// Messages to take at once. The rest wakes the caller again.
const MESSAGES_MAX: usize = 64;

/// A socket that becomes readable when an interface or an address changes.
#[derive(Debug)]
pub struct Changes(OwnedFd);

impl Changes {
    /// Hears of changes from now on. No privilege is needed.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn listen() -> io::Result<Self> {
        netlink::listen().map(Self)
    }

    /// Takes what has come. Returns true if something may have changed.
    pub fn take(&self) -> bool {
        let mut bytes = [0; 4_096];
        for count in 0..MESSAGES_MAX {
            match rustix::net::recv(&self.0, &mut bytes, RecvFlags::empty()) {
                // So many changes that the kernel had no room for them.
                Ok(_) | Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(_) => return count > 0,
            }
        }
        true
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
