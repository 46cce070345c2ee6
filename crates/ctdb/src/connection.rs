//! The socket of a ctdbd. No call of it waits, but [`Connection::wait`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};

use crate::exchange::{Event, Exchange};
use crate::malformed::Malformed;

/// Bytes that are read in one call.
const READ_BYTES: usize = 64 * 1024;

/// Reads of one turn, so that packets without a meaning do not keep the caller for ever.
const READS_PER_TURN: u32 = 64;

/// Reason why a connection has ended. All its requests are lost, and a node without its ctdbd is
/// not part of the cluster: other nodes may give its records to others.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// ctdbd has closed its end, or has died.
    #[error("ctdbd has ended the connection")]
    Closed,
    /// A call on the socket failed.
    #[error("the connection to ctdbd failed")]
    Io(#[from] io::Error),
    /// The other end does not speak the protocol.
    #[error("ctdbd sends {0}")]
    Malformed(#[from] Malformed),
}

/// A connection to the ctdbd of this node. Requests and messages are written by the next call of
/// [`Connection::next_event`], so that those of one turn leave together.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    exchange: Exchange,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects to the socket of a ctdbd. A ctdbd that stands still accepts the connection, too:
    /// the kernel does it.
    ///
    /// # Errors
    /// There is no such socket, nobody listens on it, or too many others are waiting.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self { socket, exchange: Exchange::default(), buffer: vec![0; READ_BYTES] })
    }

    /// Requests and messages to ctdbd.
    pub fn exchange(&mut self) -> &mut Exchange {
        &mut self.exchange
    }

    /// Writes as much as the socket takes, reads as much as one event needs, and returns that
    /// event; `None` if nothing has happened by `now`. A request expires only if its reply is not
    /// in the socket yet, so a caller that comes late finds it.
    ///
    /// # Errors
    /// The connection has ended. Events before that have been returned.
    pub fn next_event(&mut self, now: Instant) -> Result<Option<Event>, Lost> {
        // An end that is noticed here may be behind replies, which are read first.
        let written = self.flush();
        for _ in 0..READS_PER_TURN {
            if let Some(event) = self.exchange.next_event(now)? {
                return Ok(Some(event));
            }
            if !self.fill()? {
                written?;
                break;
            }
        }
        Ok(self.exchange.expire(now))
    }

    /// Waits until [`Connection::next_event`] may have something to do, or until `until`. For
    /// commands, which have nothing else to do; an event loop watches [`Connection::as_fd`].
    ///
    /// # Errors
    /// The kernel cannot wait.
    pub fn wait(&self, until: Instant, now: Instant) -> io::Result<()> {
        let until = self.exchange.next_deadline().map_or(until, |deadline| deadline.min(until));
        let time = until.saturating_duration_since(now).max(SHORTEST_WAIT);
        let timeout = Timespec::try_from(time).map_err(|_| io::ErrorKind::InvalidInput)?;
        let writes = if self.wants_to_write() { PollFlags::OUT } else { PollFlags::empty() };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN | writes)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Time of the next request's deadline, by which [`Connection::next_event`] is to be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.exchange.next_deadline()
    }

    /// Whether something waits until the socket can be written.
    #[must_use]
    pub fn wants_to_write(&self) -> bool {
        !self.exchange.output().is_empty()
    }

    fn flush(&mut self) -> Result<(), Lost> {
        while self.wants_to_write() {
            match send(&self.socket, self.exchange.output(), SendFlags::NOSIGNAL) {
                Ok(count) => self.exchange.written(count),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Lost::Closed),
                Err(errno) => return Err(io::Error::from(errno).into()),
            }
        }
        Ok(())
    }

    /// Reads once; returns false if there is nothing to read.
    fn fill(&mut self) -> Result<bool, Lost> {
        loop {
            match recv(&self.socket, self.buffer.as_mut_slice(), RecvFlags::empty()) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Err(Lost::Closed),
                Ok((count, _)) => {
                    self.exchange.receive(&self.buffer[..count]);
                    return Ok(true);
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(io::Error::from(errno).into()),
            }
        }
    }
}

impl AsFd for Connection {
    /// The socket, to be watched for reading; and for writing, if it
    /// [wants to](Connection::wants_to_write).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A wait of no time at all would turn a caller whose clock stands still into a busy one.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
