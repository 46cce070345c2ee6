//! The signals by which the kernel reports breaks of leases.

use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Signal of the kernel for the break of a lease.
const SIGNAL: i32 = signal_hook::consts::SIGIO;

/// Reports of the kernel; none before a share with `kernel oplocks` is connected.
#[derive(Debug, Default)]
pub(crate) struct KernelLeases {
    /// Becomes readable with a signal.
    signals: Option<UnixStream>,
}

impl KernelLeases {
    /// Handles the signal from now on: by itself it would end the process. Returns the descriptor
    /// to watch, the first time.
    pub(super) fn begin(&mut self) -> io::Result<Option<i32>> {
        if self.signals.is_some() {
            return Ok(None);
        }
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        // The handler writes without blocking; a full socket already says that there was a signal.
        signal_hook::low_level::pipe::register(SIGNAL, write)?;
        Ok(Some(self.signals.insert(read).as_raw_fd()))
    }

    /// Forgets the signals until now. Returns the descriptor to watch.
    pub(super) fn drain(&mut self) -> Option<i32> {
        let signals = self.signals.as_mut()?;
        let mut bytes = [0; 64];
        loop {
            match signals.read(&mut bytes) {
                Ok(1..) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return Some(signals.as_raw_fd()),
            }
        }
    }
}
