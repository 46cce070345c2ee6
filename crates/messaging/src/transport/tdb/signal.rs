//! The signal that wakes a thread, as a descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

/// Signals of the thread that created this; only that thread may poll and read it.
#[derive(Debug)]
pub(super) struct Signal {
    descriptor: OwnedFd,
    thread: i32,
}

impl Signal {
    /// Blocks the signal in this thread, for good, and opens a descriptor for it.
    pub(super) fn open() -> io::Result<Self> {
        let signals = signals();
        // SAFETY: `signals` is a set, and the previous set is not requested.
        let error = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut())
        };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
        // SAFETY: `signals` is a set, and -1 asks for a new descriptor.
        let descriptor = unsafe { libc::signalfd(-1, &raw const signals, flags) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was opened just now, and no other code knows it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        Ok(Self { descriptor, thread })
    }

    /// Thread id that the signal goes to.
    pub(super) fn thread(&self) -> i32 {
        self.thread
    }

    /// Takes pending signals. Returns true if there were any.
    pub(super) fn take(&self) -> bool {
        let mut any = false;
        let mut buffer = [0; SIGNAL_BYTES * SIGNALS_AT_ONCE];
        while let Ok(len) = rustix::io::read(&self.descriptor, &mut buffer) {
            any |= len > 0;
            if len < buffer.len() {
                break;
            }
        }
        any
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Wakes a thread that has a [`Signal`].
///
/// # Errors
/// `EAGAIN` if the kernel keeps no more signals for its user; `ESRCH` if there is no such thread.
pub(super) fn wake(pid: u32, thread: i32) -> Result<(), Errno> {
    // SAFETY: takes three numbers. The receiver blocks the signal: its record says so.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, pid, thread, number()) };
    match result {
        0 => Ok(()),
        _ => {
            let error = io::Error::last_os_error();
            Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
        }
    }
}

/// True if the process of a pidfd has not ended.
pub(super) fn is_alive(life: &OwnedFd) -> bool {
    let mut poll = libc::pollfd { fd: life.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which is ours to write.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 0 }
}

/// Number of the signal. A real-time signal: those are queued, and libraries do not use them
/// unasked.
fn number() -> i32 {
    libc::SIGRTMIN() + 1
}

fn signals() -> libc::sigset_t {
    // SAFETY: an all-zero set is valid memory for one; `sigemptyset` then makes it an empty set.
    let mut signals: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours to write, and the number is a signal's.
    unsafe {
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, number());
    }
    signals
}

/// Bytes that the kernel returns for a signal.
const SIGNAL_BYTES: usize = size_of::<libc::signalfd_siginfo>();

/// Signals taken by one system call. One is sent each time that the record was empty.
const SIGNALS_AT_ONCE: usize = 4;
