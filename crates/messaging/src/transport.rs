//! How frames get from one process to another.

pub(crate) mod dgram;

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use dtyp::ServerId;

use crate::counters::Counters;

pub use dgram::remove_stale_sockets;

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
    /// The frame is not sent then, nor any part of it.
    fn send(
        &mut self,
        now: Instant,
        to: ServerId,
        frame: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), SendError>;

    /// Sends what waits and can go, and gives up what has waited too long.
    fn poll_send(&mut self, now: Instant);

    /// The next frame that is whole. Stops after a bounded amount of work, so `None` may also
    /// mean "look again"; the wake source stays readable then.
    fn poll_receive(&mut self, now: Instant) -> Option<Frame>;

    /// Becomes readable when `poll_receive` or `poll_send` may have something to do.
    fn wake_source(&self) -> Option<BorrowedFd<'_>>;

    /// When `poll_send` or `poll_receive` has something to do even if nothing arrives.
    fn next_timeout(&self) -> Option<Instant>;

    /// Descriptors that a frame may carry.
    fn descriptors_max(&self) -> usize;

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
    /// The system refused.
    #[error("{}: {source}", .path.display())]
    System {
        /// On what.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// A transport that was built in.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum TransportKind {
    /// A datagram socket per process.
    Dgram,
}

impl TransportKind {
    /// The transports that were built in.
    pub const BUILT: &[Self] = &[Self::Dgram];

    /// The name that `messaging type` of the configuration has for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dgram => "dgram",
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

/// Opens a transport for the process `server_id`, which is this one.
///
/// # Errors
/// Whatever keeps it from opening.
pub fn open(
    kind: TransportKind,
    lock_dir: &Path,
    server_id: ServerId,
) -> Result<Box<dyn Transport>, InitError> {
    match kind {
        TransportKind::Dgram => Ok(Box::new(dgram::Dgram::open(lock_dir, server_id)?)),
    }
}
