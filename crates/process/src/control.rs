//! Protocol between the supervisor and its workers.
//!
//! One sequenced-packet socket pair for each worker; an exec'ed worker has its end as standard
//! input, so that no descriptor number must be agreed on. A message is 24 bytes, little-endian:
//!
//! ```text
//! 0  u16   version (2)
//! 2  u16   kind
//! 4  u32   zero
//! 8  u128  value: depends on the kind, else zero
//! ```
//!
//! and, for `Connection` and `Log` alone, exactly one file descriptor. The peer's address is not
//! sent: the socket has it. Both ends come from the same executable (`/proc/self/exe`), so another
//! version is a fault and ends the worker. The kernel's socket buffer is the queue and bounds it;
//! neither end ever blocks on the other.

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use confinement::priority::Priority;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Changes with every change of the form above.
const VERSION: u16 = 2;
const MESSAGE_BYTES: usize = 24;
/// Descriptors there is room for. One more than is ever right, so that two are seen and refused.
const DESCRIPTORS_MAX: usize = 2;

const KIND_CONNECTION: u16 = 1;
const KIND_RELOAD: u16 = 2;
const KIND_SHUTDOWN: u16 = 3;
const KIND_WATCH_AGAIN: u16 = 4;
const KIND_LOGONS_FAILED: u16 = 5;
const KIND_LOG: u16 = 6;
const KIND_PRIORITY: u16 = 7;
const KIND_LOGONS_AGAIN: u16 = 8;
const KIND_PATH_RULES: u16 = 9;
const KIND_READY: u16 = 0x101;
const KIND_FURTHER_USER: u16 = 0x102;
const KIND_VIOLATION: u16 = 0x103;
const KIND_LACKS_PATHS: u16 = 0x104;

/// From the supervisor to a worker.
#[derive(Debug)]
pub enum ToWorker {
    /// Serve this accepted TCP connection; `commandd`: those who connect to this socket.
    Connection(OwnedFd),
    /// Read the configuration in effect again.
    Reload {
        /// Generation of the configuration, counted from 1.
        generation: u64,
    },
    /// Finish what is being done and exit.
    Shutdown,
    /// There is a new `notifyd`: tell it what is watched.
    WatchAgain,
    /// Have this priority from now on. Only the worker itself lowers it: see
    /// [`take_idle_priority`](crate::take_idle_priority).
    Priority(Priority),
    /// `logond` has ended: the tickets that it was checking have failed.
    LogonsFailed,
    /// There is a new `logond`: send it the passwords that have no answer yet.
    LogonsAgain,
    /// Write the log to this file from now on.
    Log(OwnedFd),
    /// Answer to a worker without a rule for a path: [`ToSupervisor::LacksPaths`].
    PathRules {
        /// Workers that are started from now on may reach other paths.
        are_newer: bool,
    },
}

/// From a worker to the supervisor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ToSupervisor {
    /// The worker has started, and owns what the tables hold under this id and its pid.
    Ready {
        /// The worker's unique id, [`dtyp::ServerId::unique_id`].
        unique_id: u64,
    },
    /// A user has logged on over a connection that another worker has passed to this one, or bound
    /// it as a channel, while it had a user already.
    FurtherUser {
        /// Address of the client over that connection.
        address: IpAddr,
    },
    /// A client connects to a share whose directory has no rule in the worker.
    LacksPaths {
        /// Number of the rules that the worker has.
        number: u64,
    },
    /// The process ends, as it has made a system call outside its list.
    Violation {
        /// Number of the forbidden system call.
        call: u32,
    },
}

/// Result of one attempt to receive.
#[derive(Debug)]
pub enum Received<M> {
    /// The other process closed its end, or is dead.
    Closed,
    /// A complete and valid message.
    Message(M),
    /// Nothing has arrived so far.
    Nothing,
}

/// Why a message could not be sent or understood.
#[derive(Debug)]
pub enum ControlError {
    /// The other end reads too slowly; the message was not sent.
    Full,
    /// The socket failed, for one because the other end is gone.
    Io(io::Error),
    /// The message does not have the form that this version knows.
    Malformed(&'static str),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the other process does not read its messages"),
            Self::Io(error) => write!(f, "{error}"),
            Self::Malformed(reason) => write!(f, "control message: {reason}"),
        }
    }
}

impl std::error::Error for ControlError {}

impl From<Errno> for ControlError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::AGAIN | Errno::NOBUFS => Self::Full,
            error => Self::Io(error.into()),
        }
    }
}

/// The supervisor's end of the socket pair.
#[derive(Debug)]
pub struct SupervisorEnd(OwnedFd);

/// The worker's end of the socket pair.
#[derive(Debug)]
pub struct WorkerEnd(OwnedFd);

/// A connected pair. The worker's end is meant to become a child's standard input.
///
/// # Errors
/// No descriptors are left.
pub fn pair() -> io::Result<(SupervisorEnd, WorkerEnd)> {
    let (supervisor, worker) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    Ok((SupervisorEnd(supervisor), WorkerEnd(worker)))
}

impl SupervisorEnd {
    /// Sends without blocking. A connection that could not be sent is still the caller's.
    ///
    /// # Errors
    /// [`ControlError::Full`], [`ControlError::Io`].
    pub fn send(&self, message: &ToWorker) -> Result<(), ControlError> {
        match message {
            ToWorker::Connection(socket) => send(&self.0, KIND_CONNECTION, 0, Some(socket.as_fd())),
            ToWorker::Reload { generation } => {
                send(&self.0, KIND_RELOAD, u128::from(*generation), None)
            }
            ToWorker::Shutdown => send(&self.0, KIND_SHUTDOWN, 0, None),
            ToWorker::WatchAgain => send(&self.0, KIND_WATCH_AGAIN, 0, None),
            ToWorker::Priority(Priority::Normal) => send(&self.0, KIND_PRIORITY, 0, None),
            ToWorker::Priority(Priority::Idle) => send(&self.0, KIND_PRIORITY, 1, None),
            ToWorker::LogonsFailed => send(&self.0, KIND_LOGONS_FAILED, 0, None),
            ToWorker::LogonsAgain => send(&self.0, KIND_LOGONS_AGAIN, 0, None),
            ToWorker::PathRules { are_newer } => {
                send(&self.0, KIND_PATH_RULES, u128::from(*are_newer), None)
            }
            ToWorker::Log(file) => send(&self.0, KIND_LOG, 0, Some(file.as_fd())),
        }
    }

    /// Receives without blocking.
    ///
    /// # Errors
    /// [`ControlError::Malformed`], [`ControlError::Io`].
    pub fn receive(&self) -> Result<Received<ToSupervisor>, ControlError> {
        decode(receive(&self.0)?, |kind, value, descriptor| match (kind, descriptor) {
            (KIND_READY, None) => Ok(ToSupervisor::Ready { unique_id: to_u64(value)? }),
            (KIND_FURTHER_USER, None) => {
                let address = Ipv6Addr::from_bits(value).to_canonical();
                Ok(ToSupervisor::FurtherUser { address })
            }
            (KIND_VIOLATION, None) => {
                let call = value.try_into().map_err(|_| "a value that is too large")?;
                Ok(ToSupervisor::Violation { call })
            }
            (KIND_LACKS_PATHS, None) => Ok(ToSupervisor::LacksPaths { number: to_u64(value)? }),
            (KIND_READY | KIND_FURTHER_USER | KIND_VIOLATION | KIND_LACKS_PATHS, Some(_)) => {
                Err("a descriptor of a worker")
            }
            _ => Err("a kind that no worker sends"),
        })
    }
}

impl AsFd for SupervisorEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl WorkerEnd {
    /// The end that this process was started with, on its standard input.
    ///
    /// # Errors
    /// Standard input is not a socket: the process was not started by a supervisor.
    pub(crate) fn inherited() -> io::Result<Self> {
        let descriptor = io::stdin().as_fd().try_clone_to_owned()?;
        if rustix::net::sockopt::socket_type(&descriptor)? != SocketType::SEQPACKET {
            return Err(Errno::PROTOTYPE.into());
        }
        Ok(Self(descriptor))
    }

    /// Another descriptor of the same end.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Converts it to the standard input of a child process.
    pub fn into_stdio(self) -> std::process::Stdio {
        self.0.into()
    }

    /// Sends without blocking.
    ///
    /// # Errors
    /// [`ControlError::Full`], [`ControlError::Io`].
    pub fn send(&self, message: ToSupervisor) -> Result<(), ControlError> {
        match message {
            ToSupervisor::Ready { unique_id } => send(&self.0, KIND_READY, unique_id.into(), None),
            ToSupervisor::FurtherUser { address } => {
                let address = match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped(),
                    IpAddr::V6(address) => address,
                };
                send(&self.0, KIND_FURTHER_USER, address.to_bits(), None)
            }
            ToSupervisor::LacksPaths { number } => {
                send(&self.0, KIND_LACKS_PATHS, number.into(), None)
            }
            // As in a signal handler: without memory for a descriptor.
            ToSupervisor::Violation { call } => {
                let packet = packet(KIND_VIOLATION, call.into());
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                rustix::net::send(&self.0, &packet, flags)?;
                Ok(())
            }
        }
    }

    /// Receives without blocking.
    ///
    /// # Errors
    /// [`ControlError::Malformed`], [`ControlError::Io`].
    pub fn receive(&self) -> Result<Received<ToWorker>, ControlError> {
        decode(receive(&self.0)?, |kind, value, descriptor| match (kind, descriptor) {
            (KIND_CONNECTION, Some(socket)) => Ok(ToWorker::Connection(socket)),
            (KIND_CONNECTION, None) => Err("a connection without its socket"),
            (KIND_RELOAD, None) => Ok(ToWorker::Reload { generation: to_u64(value)? }),
            (KIND_SHUTDOWN, None) => Ok(ToWorker::Shutdown),
            (KIND_WATCH_AGAIN, None) => Ok(ToWorker::WatchAgain),
            (KIND_PRIORITY, None) => match value {
                0 => Ok(ToWorker::Priority(Priority::Normal)),
                1 => Ok(ToWorker::Priority(Priority::Idle)),
                _ => Err("an unknown priority"),
            },
            (KIND_LOGONS_FAILED, None) => Ok(ToWorker::LogonsFailed),
            (KIND_LOGONS_AGAIN, None) => Ok(ToWorker::LogonsAgain),
            (KIND_PATH_RULES, None) => match value {
                0 => Ok(ToWorker::PathRules { are_newer: false }),
                1 => Ok(ToWorker::PathRules { are_newer: true }),
                _ => Err("an unknown answer about paths"),
            },
            (KIND_LOG, Some(file)) => Ok(ToWorker::Log(file)),
            (KIND_LOG, None) => Err("a log without its file"),
            (
                KIND_RELOAD | KIND_SHUTDOWN | KIND_WATCH_AGAIN | KIND_PRIORITY | KIND_LOGONS_FAILED
                | KIND_LOGONS_AGAIN | KIND_PATH_RULES,
                Some(_),
            ) => Err("a descriptor that nobody asked for"),
            _ => Err("a kind that no supervisor sends"),
        })
    }
}

impl AsFd for WorkerEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A received packet: its bytes and the descriptors that came with it.
struct Packet {
    bytes: [u8; MESSAGE_BYTES + 1],
    bytes_len: usize,
    descriptors: Vec<OwnedFd>,
}

fn send(
    socket: &OwnedFd,
    kind: u16,
    value: u128,
    descriptor: Option<BorrowedFd<'_>>,
) -> Result<(), ControlError> {
    let bytes = packet(kind, value);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        assert!(fits, "the space is made for one descriptor");
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, flags)?;
    Ok(())
}

fn packet(kind: u16, value: u128) -> [u8; MESSAGE_BYTES] {
    let mut bytes = [0; MESSAGE_BYTES];
    bytes[..2].copy_from_slice(&VERSION.to_le_bytes());
    bytes[2..4].copy_from_slice(&kind.to_le_bytes());
    bytes[8..].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn receive(socket: &OwnedFd) -> Result<Received<Packet>, ControlError> {
    // One byte more than a message has, so that a longer one is noticed and not cut.
    let mut bytes = [0; MESSAGE_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let message = loop {
        match rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            flags,
        ) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Received::Nothing),
            Err(Errno::CONNRESET) => return Ok(Received::Closed),
            Err(error) => return Err(ControlError::Io(error.into())),
            Ok(message) => break message,
        }
    };
    let mut descriptors = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            descriptors.extend(received);
        }
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(ControlError::Malformed("more descriptors than there is room for"));
    }
    if message.bytes == 0 {
        return Ok(Received::Closed);
    }
    Ok(Received::Message(Packet { bytes, bytes_len: message.bytes, descriptors }))
}

fn to_u64(value: u128) -> Result<u64, &'static str> {
    value.try_into().map_err(|_| "a value that is too large")
}

fn decode<M>(
    received: Received<Packet>,
    interpret: impl FnOnce(u16, u128, Option<OwnedFd>) -> Result<M, &'static str>,
) -> Result<Received<M>, ControlError> {
    let packet = match received {
        Received::Closed => return Ok(Received::Closed),
        Received::Nothing => return Ok(Received::Nothing),
        Received::Message(packet) => packet,
    };
    if packet.bytes_len != MESSAGE_BYTES {
        return Err(ControlError::Malformed("it does not have 24 bytes"));
    }
    let [v0, v1, k0, k1, z0, z1, z2, z3, ref value @ .., _] = packet.bytes;
    if u16::from_le_bytes([v0, v1]) != VERSION {
        return Err(ControlError::Malformed("its version is not ours"));
    }
    if [z0, z1, z2, z3] != [0; 4] {
        return Err(ControlError::Malformed("reserved bytes are set"));
    }
    let mut descriptors = packet.descriptors.into_iter();
    let descriptor = descriptors.next();
    if descriptors.next().is_some() {
        return Err(ControlError::Malformed("more than one descriptor"));
    }
    let kind = u16::from_le_bytes([k0, k1]);
    interpret(kind, u128::from_le_bytes(*value), descriptor)
        .map(Received::Message)
        .map_err(ControlError::Malformed)
}
