//! How frames get from one process to another.

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
use members::{Census, Members};

#[cfg(not(any(
    feature = "messaging-dgram",
    feature = "messaging-stream",
    feature = "messaging-tdb"
)))]
compile_error!(
    "no transport: choose at least one of the features messaging-dgram, messaging-stream and \
     messaging-tdb"
);

/// Bytes of a frame.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024 + 64;

/// Carries frames between the processes of one server.
///
/// Delivery is in order per pair of processes and at most once; a frame is whole or absent, and so
/// are its descriptors. Never blocks: a receiver that has no room makes frames wait in a queue
/// with a limit, and at the limit the frame stays with the caller. A frame for a process that is
/// gone reaches nobody, least of all a later process with the same pid.
pub trait Transport: fmt::Debug {
    /// Sends a frame, or queues it for a receiver that has no room.
    ///
    /// # Errors
    /// The receiver never gets the frame then, nor any part of it. Parts of a large one may have left
    /// before; its receiver gives them up.
    fn send(
        &mut self,
        now: Instant,
        to: ServerId,
        frame: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), SendError>;

    /// Sends what waits and can go, and gives up what has waited too long. Frames that follow each
    /// other to the same process within a millisecond wait for this, to leave together.
    fn poll_send(&mut self, now: Instant);

    /// The next frame that is whole. Stops after a bounded amount of work, so `None` may also
    /// mean "look again"; the wake source stays readable then.
    fn poll_receive(&mut self, now: Instant) -> Option<Frame>;

    /// Whether frames wait for `poll_send` that would have left otherwise.
    fn wants_flush(&self) -> bool;

    /// Whether `poll_receive` has a frame that has been received already.
    fn has_ready(&self) -> bool;

    /// Becomes readable when `poll_receive` or `poll_send` may have something to do.
    fn wake_source(&self) -> Option<BorrowedFd<'_>>;

    /// When `poll_send` or `poll_receive` has something to do even if nothing arrives.
    fn next_timeout(&self) -> Option<Instant>;

    /// Descriptors that a frame may carry.
    fn descriptors_max(&self) -> usize;

    /// The way for frames with descriptors, where this transport carries none. What comes that way
    /// is received here like everything else.
    fn side_channel(&mut self) -> Option<&mut dyn Transport> {
        None
    }

    /// All processes of the server that live, this one included. Those that are dead are buried.
    ///
    /// # Errors
    /// The directory of the sockets cannot be read.
    fn members(&mut self) -> Result<Vec<ServerId>, InitError>;

    /// A process is dead: what waits for it is dropped, and what it left behind is removed. Whether
    /// it had left something, which one that ends in order does not.
    fn bury(&mut self, dead: ServerId) -> bool;

    /// Takes the processes for which messages were dropped, because they had no room for too long.
    fn take_receivers_of_dropped(&mut self) -> BTreeSet<ServerId>;

    /// What was done so far.
    fn counters(&self) -> Counters;
}

/// A frame that arrived.
#[derive(Debug)]
pub struct Frame {
    /// Who sent it. The transport vouches for the pid as far as it can.
    pub sender: ServerId,
    /// The frame.
    pub bytes: Vec<u8>,
    /// The descriptors that came with it.
    pub descriptors: Vec<OwnedFd>,
}

/// Why a frame was not sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SendError {
    /// The receiver has no room, and as much waits for it as may.
    #[error("the receiver is full")]
    Full,
    /// The transport carries no descriptors.
    #[error("messages cannot carry descriptors over this transport")]
    NoDescriptors,
    /// There is no such process, or it has no socket any more.
    #[error("no such process")]
    NoSuchProcess,
    /// The system refused, with this error number.
    #[error("{}", io::Error::from_raw_os_error(*.0))]
    System(i32),
    /// The frame is larger than a frame may be.
    #[error("a message of {len} bytes is too large: {max} is the limit")]
    TooLarge {
        /// Its bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// More descriptors than this transport carries with a frame.
    #[error("{count} descriptors are too many: {max} is the limit")]
    TooManyDescriptors {
        /// How many.
        count: usize,
        /// The limit.
        max: usize,
    },
}

/// Why a transport could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The directory of the sockets is not ours alone, so what arrives could be anyone's.
    #[error("{}: owner {uid}, mode {mode:o}: must belong to this user alone", .path.display())]
    DirectoryNotOurs {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Its mode.
        mode: u32,
    },
    /// The transport was not built in.
    #[error(transparent)]
    NotBuilt(UnknownTransport),
    /// The processes of the server that runs talk in another way.
    #[error("the running server has messaging type {running}; {asked} can be had by a restart")]
    OtherTransport {
        /// How they talk.
        running: String,
        /// How this process was told to.
        asked: &'static str,
    },
    /// The system refused.
    #[error("{}: {source}", .path.display())]
    System {
        /// On what.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// A transport, whether or not it was built in.
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
    /// The transports that were built in.
    pub const BUILT: &[Self] = &[
        #[cfg(feature = "messaging-dgram")]
        Self::Dgram,
        #[cfg(feature = "messaging-stream")]
        Self::Stream,
        #[cfg(feature = "messaging-tdb")]
        Self::Tdb,
    ];

    /// The one to take if nobody asks for another: the fastest that was built in.
    pub const DEFAULT: Self = Self::BUILT[0];

    /// The name that `messaging type` of the configuration has for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dgram => "dgram",
            Self::Stream => "stream",
            Self::Tdb => "tdb",
        }
    }

    /// The transport that `messaging type` names.
    ///
    /// # Errors
    /// It was not built in; the error names those that were.
    pub fn from_name(name: &str) -> Result<Self, UnknownTransport> {
        let found = Self::BUILT.iter().find(|kind| kind.name().eq_ignore_ascii_case(name));
        found.copied().ok_or_else(|| UnknownTransport(name.to_owned()))
    }
}

/// A `messaging type` that was not built in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnknownTransport(pub String);

impl fmt::Display for UnknownTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let built: Vec<&str> = TransportKind::BUILT.iter().map(|kind| kind.name()).collect();
        write!(f, "messaging type {:?} was not built in; built: {}", self.0, built.join(", "))
    }
}

impl std::error::Error for UnknownTransport {}

/// How a transport is to work. What does not concern a transport it does not look at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// Which.
    pub kind: TransportKind,
    /// Connections that [`TransportKind::Stream`] keeps although nothing is sent over them.
    pub stream_connections: usize,
    /// How long it keeps them.
    pub stream_idle: Duration,
    /// Whether [`TransportKind::Tdb`] maps its file into memory. All processes of a server must
    /// agree.
    pub use_mmap: bool,
}

impl Settings {
    /// As they are unless something else is wanted.
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
/// Whatever keeps it from opening.
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
        #[allow(unreachable_patterns, reason = "where all are built in")]
        kind => Err(InitError::NotBuilt(UnknownTransport(kind.name().to_owned()))),
    }
}

/// How the server on `lock_dir` talks, or talked when it last ran; `None` if it never did.
///
/// # Errors
/// It is a way that was not built in here, or the directory cannot be read.
pub fn in_use(lock_dir: &Path) -> Result<Option<TransportKind>, InitError> {
    let Some(name) = existing(lock_dir)?.map(|it| it.transport()).transpose()?.flatten() else {
        return Ok(None);
    };
    TransportKind::from_name(&name).map(Some).map_err(InitError::NotBuilt)
}

/// The processes of the server on `lock_dir` that live and take messages.
///
/// # Errors
/// The directory cannot be read.
pub fn members(lock_dir: &Path) -> Result<Vec<ServerId>, InitError> {
    let Some(members) = existing(lock_dir)? else { return Ok(Vec::new()) };
    Ok(members.list().map_err(|error| of_members(&members, error))?.living)
}

/// How many datagrams the kernel keeps for a socket that does not read them, beyond the one that is
/// being sent: `net.unix.max_dgram_qlen`. `None` where the system does not say.
#[must_use]
pub fn datagram_queue_len() -> Option<u32> {
    std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").ok()?.trim().parse().ok()
}

/// Removes the sockets that dead processes left in `lock_dir`, and what another transport than `kind`
/// keeps there: for the supervisor when it has joined, so that nobody talks in another way. Returns
/// how many sockets there were.
///
/// # Errors
/// What the file system says.
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

/// What [`TransportKind::Tdb`] keeps its records in; another build may have left it.
const TDB_FILE: &str = "messages.tdb";

fn existing(lock_dir: &Path) -> Result<Option<Members>, InitError> {
    match Members::open_existing(lock_dir) {
        Err(InitError::System { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        members => members.map(Some),
    }
}

/// All that live, and those whose sockets were removed because they are dead.
fn take_census(members: &Members) -> Result<(Vec<ServerId>, Vec<ServerId>), InitError> {
    let count = || {
        let Census { living, others } = members.list()?;
        let dead = if others.is_empty() { Vec::new() } else { members.remove_dead()? };
        Ok((living, dead))
    };
    count().map_err(|error| of_members(members, error))
}

/// Removes the socket of a process that is dead; whether it had left it. One that stays is harmless:
/// nobody can connect to it.
fn remove_socket(members: &Members, dead: ServerId) -> bool {
    !members.is_alive(dead) && members.remove(dead).unwrap_or(false)
}

fn of_members(members: &Members, error: rustix::io::Errno) -> InitError {
    InitError::System { path: members.path().to_owned(), source: error.into() }
}
