//! Transports, which carry frames from process to process.

mod clock;
mod inbox;
mod members;
mod outgoing;
mod owner;
mod packet;
mod reassembly;
#[cfg(feature = "simulation")]
pub mod simulation;
mod socket;

#[cfg(any(feature = "messaging-dgram", feature = "messaging-tdb"))]
mod dgram;
#[cfg(feature = "messaging-stream")]
mod stream;
#[cfg(feature = "messaging-tdb")]
mod tdb;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dtyp::ServerId;

use crate::counters::Counters;
pub use members::directory;
use members::{Census, Members};
pub use outgoing::FrameBytes;

#[cfg(not(any(
    feature = "messaging-dgram",
    feature = "messaging-stream",
    feature = "messaging-tdb"
)))]
compile_error!(
    "no transport: choose at least one of the features messaging-dgram, messaging-stream and \
     messaging-tdb"
);

/// Highest number of bytes of a frame.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024 + 64;

/// Carries frames between the processes of one server.
///
/// Delivery is in order per pair of processes and at most once; a frame arrives whole or not at
/// all, and so do its descriptors. Never blocks: frames for a receiver without room wait in a
/// bounded queue, and beyond its limit the frame stays with the caller. A frame for a dead process
/// reaches nobody, least of all a later process with the same pid.
pub trait Transport: fmt::Debug {
    /// Sends a frame, or queues it for a receiver that has no room.
    ///
    /// # Errors
    /// The receiver never gets the frame then, nor any part of it. Parts of a large one may have
    /// left before; its receiver drops them.
    fn send_frame(
        &mut self,
        now: Instant,
        to: ServerId,
        frame: FrameBytes<'_>,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), SendError>;

    /// Sends a frame of which the caller keeps the buffer.
    ///
    /// # Errors
    /// As of [`Transport::send_frame`].
    fn send(
        &mut self,
        now: Instant,
        to: ServerId,
        frame: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), SendError> {
        self.send_frame(now, to, FrameBytes::Borrowed(frame), descriptors)
    }

    /// Sends queued frames as far as possible, and drops those that have waited too long. Frames
    /// that follow each other to the same process within a millisecond wait for this call, to leave
    /// together.
    fn poll_send(&mut self, now: Instant);

    /// Returns the next complete frame. Stops after a bounded amount of work, so `None` may also
    /// mean "call again"; the wake source stays readable then.
    fn poll_receive(&mut self, now: Instant) -> Option<Frame>;

    /// True if frames wait for `poll_send` that could have left before.
    fn wants_flush(&self) -> bool;

    /// True if `poll_receive` has a frame that was received already.
    fn has_ready(&self) -> bool;

    /// Becomes readable when `poll_receive` or `poll_send` may have work.
    fn wake_source(&self) -> Option<BorrowedFd<'_>>;

    /// Time at which `poll_send` or `poll_receive` has work even if nothing arrives.
    fn next_timeout(&self) -> Option<Instant>;

    /// Highest number of descriptors of a frame.
    fn descriptors_max(&self) -> usize;

    /// Returns the transport for frames with descriptors, where this one carries none. Frames sent
    /// over it are received here like all others.
    fn side_channel(&mut self) -> Option<&mut dyn Transport> {
        None
    }

    /// Returns all living processes of the server, this one included, and removes dead ones.
    ///
    /// # Errors
    /// The directory of the sockets cannot be read.
    fn members(&mut self) -> Result<Vec<ServerId>, InitError>;

    /// Removes a dead process: drops frames queued for it, and deletes its socket and record.
    /// Returns true if it had left some; a process that ends in order does not.
    fn remove_dead(&mut self, dead: ServerId) -> bool;

    /// Takes the receivers of messages that were dropped for want of room.
    fn take_receivers_of_dropped(&mut self) -> BTreeSet<ServerId>;

    /// Returns the counts since the transport was opened.
    fn counters(&self) -> Counters;
}

/// A frame that arrived, with its descriptors.
#[derive(Debug)]
pub struct Frame {
    /// Sending process. The transport vouches for the pid as far as it can.
    pub sender: ServerId,
    /// Bytes of the frame, all of them.
    pub bytes: Vec<u8>,
    /// Descriptors that came with the frame.
    pub descriptors: Vec<OwnedFd>,
}

/// Reason why a frame was not sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SendError {
    /// The receiver has no room, and its queue is at the limit.
    #[error("the receiver is full")]
    Full,
    /// The transport carries no descriptors.
    #[error("messages cannot carry descriptors over this transport")]
    NoDescriptors,
    /// The process does not exist, or has no socket any more.
    #[error("no such process")]
    NoSuchProcess,
    /// Error number of the failed system call.
    #[error("{}", io::Error::from_raw_os_error(*.0))]
    System(i32),
    /// The frame is above the highest size.
    #[error("a message of {len} bytes is too large: {max} is the limit")]
    TooLarge {
        /// Bytes that the frame has.
        len: usize,
        /// Highest number of bytes accepted.
        max: usize,
    },
    /// The frame has more descriptors than this transport carries.
    #[error("{count} descriptors are too many: {max} is the limit")]
    TooManyDescriptors {
        /// Number of the frame's descriptors.
        count: usize,
        /// Highest number for this transport.
        max: usize,
    },
}

/// Reason why a transport could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The directory of the sockets gives rights to others, so messages could come from anyone.
    #[error("{}: owner {uid}, mode {mode:o}: must belong to this user alone", .path.display())]
    DirectoryNotOurs {
        /// Path of the directory of sockets.
        path: PathBuf,
        /// User id of its owner.
        uid: u32,
        /// Permission bits of the directory.
        mode: u32,
    },
    /// This build lacks the transport.
    #[error(transparent)]
    NotBuilt(UnknownTransport),
    /// The processes of the running server use another transport.
    #[error("the running server has messaging type {running}; restart it to use {asked}")]
    OtherTransport {
        /// Transport of the running server.
        running: String,
        /// Transport requested for this process.
        asked: &'static str,
    },
    /// A system call has failed.
    #[error("{}: {source}", .path.display())]
    System {
        /// Path that it was called with.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
}

/// A kind of transport, built in or not.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum TransportKind {
    /// A datagram socket per process.
    Dgram,
    /// A listening stream socket per process.
    Stream,
    /// Records in a file of libtdb, and signals.
    Tdb,
}

impl TransportKind {
    /// Kinds of transports in this build.
    pub const BUILT: &[Self] = &[
        #[cfg(feature = "messaging-dgram")]
        Self::Dgram,
        #[cfg(feature = "messaging-stream")]
        Self::Stream,
        #[cfg(feature = "messaging-tdb")]
        Self::Tdb,
    ];

    /// Default kind: the fastest in this build.
    pub const DEFAULT: Self = Self::BUILT[0];

    /// Name of the kind in the parameter `messaging type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dgram => "dgram",
            Self::Stream => "stream",
            Self::Tdb => "tdb",
        }
    }

    /// Returns the kind that `messaging type` names.
    ///
    /// # Errors
    /// This build lacks it; the error names those that it has.
    pub fn from_name(name: &str) -> Result<Self, UnknownTransport> {
        let found = Self::BUILT.iter().find(|kind| kind.name().eq_ignore_ascii_case(name));
        found.copied().ok_or_else(|| UnknownTransport(name.to_owned()))
    }
}

/// A `messaging type` that this build lacks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnknownTransport(pub String);

impl fmt::Display for UnknownTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let built: Vec<&str> = TransportKind::BUILT.iter().map(|kind| kind.name()).collect();
        write!(f, "messaging type {:?} was not built in; built: {}", self.0, built.join(", "))
    }
}

impl std::error::Error for UnknownTransport {}

/// Settings of transports. Each transport uses those that concern it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// Kind of the transport to open.
    pub kind: TransportKind,
    /// Idle connections that [`TransportKind::Stream`] keeps.
    pub stream_connections: usize,
    /// Time for which it keeps them.
    pub stream_idle: Duration,
    /// True if [`TransportKind::Tdb`] maps its file into memory. All processes of a server must
    /// agree.
    pub use_mmap: bool,
}

impl Settings {
    /// Returns the default settings of a kind.
    #[must_use]
    pub fn new(kind: TransportKind) -> Self {
        Self { kind, stream_connections: 10, stream_idle: Duration::from_secs(1), use_mmap: true }
    }
}

impl From<TransportKind> for Settings {
    fn from(kind: TransportKind) -> Self {
        Self::new(kind)
    }
}

/// Opens a transport for the process `server_id`, which is this one.
///
/// # Errors
/// The directory or socket cannot be created or used, or the server uses another transport.
pub fn open(
    settings: impl Into<Settings>,
    lock_dir: &Path,
    server_id: ServerId,
) -> Result<Box<dyn Transport>, InitError> {
    let settings = settings.into();
    match settings.kind {
        #[cfg(feature = "messaging-dgram")]
        TransportKind::Dgram => {
            Ok(Box::new(dgram::Dgram::open(lock_dir, server_id, settings.kind.name())?))
        }
        #[cfg(feature = "messaging-stream")]
        TransportKind::Stream => Ok(Box::new(stream::Stream::open(lock_dir, server_id, settings)?)),
        #[cfg(feature = "messaging-tdb")]
        TransportKind::Tdb => Ok(Box::new(tdb::TdbMessages::open(lock_dir, server_id, settings)?)),
        #[allow(unreachable_patterns, reason = "unreachable if all are built in")]
        kind => Err(InitError::NotBuilt(UnknownTransport(kind.name().to_owned()))),
    }
}

/// Returns the transport of the server on `lock_dir`, running or ended; `None` if it never ran.
///
/// # Errors
/// This build lacks the transport, or the directory cannot be read.
pub fn in_use(lock_dir: &Path) -> Result<Option<TransportKind>, InitError> {
    let Some(name) = existing(lock_dir)?.map(|it| it.transport()).transpose()?.flatten() else {
        return Ok(None);
    };
    TransportKind::from_name(&name).map(Some).map_err(InitError::NotBuilt)
}

/// Lists living processes of the server on `lock_dir` that receive messages.
///
/// # Errors
/// The directory cannot be read.
pub fn members(lock_dir: &Path) -> Result<Vec<ServerId>, InitError> {
    let Some(members) = existing(lock_dir)? else { return Ok(Vec::new()) };
    Ok(members.list().map_err(|error| of_members(&members, error))?.living)
}

/// Number of datagrams that the kernel queues for a socket, besides one that is being sent:
/// `net.unix.max_dgram_qlen`. `None` if the system does not tell.
#[must_use]
pub fn datagram_queue_len() -> Option<u32> {
    std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").ok()?.trim().parse().ok()
}

/// Removes sockets of dead processes in `lock_dir`, and files of other transports than `kind`: for
/// the supervisor once it has joined, so that no process uses another transport. Returns the number
/// of sockets.
///
/// # Errors
/// A file or the directory cannot be read or removed.
pub fn remove_stale(lock_dir: &Path, kind: TransportKind) -> Result<usize, InitError> {
    if kind != TransportKind::Tdb {
        let path = lock_dir.join(TDB_FILE);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(InitError::System { path, source });
            }
            _ => {}
        }
    }
    let members = Members::open(lock_dir)?;
    let removed = members.remove_dead().map_err(|error| of_members(&members, error))?;
    Ok(removed.len())
}

/// File with the records of [`TransportKind::Tdb`]; another build may have left it.
const TDB_FILE: &str = "messages.tdb";

fn existing(lock_dir: &Path) -> Result<Option<Members>, InitError> {
    match Members::open_existing(lock_dir) {
        Err(InitError::System { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        members => members.map(Some),
    }
}

/// Returns all living processes, and dead ones whose sockets were removed.
fn take_census(members: &Members) -> Result<(Vec<ServerId>, Vec<ServerId>), InitError> {
    let count = || {
        let Census { living, others } = members.list()?;
        let dead = if others.is_empty() { Vec::new() } else { members.remove_dead()? };
        Ok((living, dead))
    };
    count().map_err(|error| of_members(members, error))
}

/// Removes the socket of a dead process. Returns true if there was one. A socket that stays is
/// harmless: it accepts no connections.
fn remove_socket(members: &Members, dead: ServerId) -> bool {
    // Mostly it has removed its socket itself.
    members.has_socket(dead) && !members.is_alive(dead) && members.remove(dead).unwrap_or(false)
}

fn of_members(members: &Members, error: rustix::io::Errno) -> InitError {
    InitError::System { path: members.path().to_owned(), source: error.into() }
}
