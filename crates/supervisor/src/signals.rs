//! Signals as descriptors to poll.
//!
//! Each signal writes a byte into a socket of its own kind; the event loop drains them. The byte
//! carries no number, so each signal with its own meaning has a socket. Signals are blocked only
//! while a worker is forked.

use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

/// Signals that mean something to the supervisor alone.
pub(super) const HANDLED: [i32; 4] = [SIGCHLD, SIGHUP, SIGINT, SIGTERM];

/// Request of a signal to the supervisor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Signal {
    /// SIGCHLD: a worker has ended.
    Child,
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGTERM or SIGINT: stop the server.
    Stop,
}

/// The signals of this process, from now on.
#[derive(Debug)]
pub(super) struct Signals {
    sources: [(Signal, UnixStream); 3],
    child_ended: Arc<AtomicBool>,
}

impl Signals {
    /// Registers the handlers of all signals.
    pub(super) fn register() -> io::Result<Self> {
        let child_ended = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGCHLD, Arc::clone(&child_ended))?;
        Ok(Self {
            child_ended,
            sources: [
                (Signal::Child, register(&[SIGCHLD])?),
                (Signal::Reload, register(&[SIGHUP])?),
                (Signal::Stop, register(&[SIGTERM, SIGINT])?),
            ],
        })
    }

    /// Flag that the handler of [`Signal::Child`] sets at once, before the poll reports the signal.
    pub(super) fn child_ended(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.child_ended)
    }

    /// Returns the descriptors to poll for readability.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sources.iter().map(|(_, source)| source.as_fd())
    }

    /// The kinds of signals that came since the last call, each once however often it came.
    pub(super) fn take(&mut self) -> Vec<Signal> {
        let drained = |source: &mut UnixStream| {
            let mut came = false;
            let mut bytes = [0; 64];
            loop {
                match source.read(&mut bytes) {
                    Ok(0) => return came,
                    Ok(_) => came = true,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return came,
                }
            }
        };
        self.sources
            .iter_mut()
            .filter_map(|(signal, source)| drained(source).then_some(*signal))
            .collect()
    }
}

fn register(signals: &[i32]) -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    for &signal in signals {
        // The handler writes without blocking; a full socket already says what there is to say.
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(read)
}
