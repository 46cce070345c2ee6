//! Two connected datagram sockets and `poll`: the limit of the machine with a datagram for each
//! message.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::OwnedFd;

use super::peer::{PeerOptions, Wire, wait_for};

/// One of two sockets that are connected with each other, so that the kernel's limit of datagrams
/// that wait (`net.unix.max_dgram_qlen`) is not theirs.
pub(super) struct BareSocket {
    socket: OwnedFd,
    /// True once the answering side knows the asking one, from its first ping.
    is_connected: bool,
    /// The last datagram found no room.
    is_full: bool,
    buffer: Vec<u8>,
}

/// Bytes of a datagram; no workload has more.
const DATAGRAM_BYTES_MAX: usize = 1 << 17;

impl BareSocket {
    pub(super) fn open(options: &PeerOptions) -> Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        let own = path(&options.directory, options.unique_id);
        rustix::net::bind(&socket, &SocketAddrUnix::new(own)?)?;
        let is_connected = match *options.to.as_slice() {
            [_, other] => {
                let address = SocketAddrUnix::new(path(&options.directory, other))?;
                rustix::net::connect(&socket, &address).context("connecting")?;
                true
            }
            _ => false,
        };
        Ok(Self { socket, is_connected, is_full: false, buffer: vec![0; DATAGRAM_BYTES_MAX] })
    }
}

fn path(directory: &Path, unique_id: u64) -> PathBuf {
    directory.join(format!("bare-{unique_id}"))
}

impl Wire for BareSocket {
    fn send(&mut self, _: Instant, _: bool, data: &[u8]) -> Result<bool> {
        loop {
            match rustix::net::send(&self.socket, data, SendFlags::NOSIGNAL) {
                Ok(_) => self.is_full = false,
                Err(Errno::AGAIN | Errno::NOBUFS) => self.is_full = true,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            return Ok(!self.is_full);
        }
    }

    fn receive(&mut self, _: Instant, data: &mut Vec<u8>) -> Result<bool> {
        let received = match self.is_connected {
            true => rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())
                .map(|(len, _)| (len, None)),
            false => rustix::net::recvfrom(&self.socket, &mut self.buffer[..], RecvFlags::empty())
                .map(|(len, _, from)| (len, from)),
        };
        match received {
            Ok((len, from)) => {
                if let Some(from) = from {
                    rustix::net::connect(&self.socket, &from).context("connecting")?;
                    self.is_connected = true;
                }
                data.clear();
                data.extend_from_slice(&self.buffer[..len]);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn wait(&self, timeout: Duration) -> Result<()> {
        let flags = if self.is_full { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        wait_for(&mut [PollFd::new(&self.socket, flags)], timeout)
    }
}
