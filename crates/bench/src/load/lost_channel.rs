//! A client with two channels that loses the first: how long until it is served again.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dtyp::{NtStatus, utf16};
use wire::create::{CreateRequest, CreateResponse};
use wire::oplock_break::OplockBreak;
use wire::oplock_level::OplockLevel;
use wire::write::WriteRequest;
use wire::{Command, Decode};

use super::fixture::{self, STREAM, Scale};
use crate::client::requests::{Purpose, close, created, open, push_create, push_write};
use crate::client::{Client, Protection, Slot};
use crate::network::Silence;
use crate::server::Server;

/// Manners in which a channel is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Loss {
    /// A reset while the response to a WRITE is pending. Ends with the response to the repeated
    /// WRITE on the other channel.
    Reset,
    /// A silent loss of all packets from the server. Ends with the break of an oplock on the other
    /// channel.
    Silent,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reset => "reset, until a WRITE is answered",
            Self::Silent => "silent, until a break arrives",
        })
    }
}

/// Resets of one measurement, of which the mean counts: one takes some hundred microseconds.
const RESETS: u32 = 10;

/// Number of bytes of the WRITE.
const WRITE_BYTES: usize = 64 << 10;

/// Source address of the lost channel. The other channel has the usual one.
const LOST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

impl Loss {
    /// Measures the time from loss to recovery, once.
    ///
    /// # Errors
    ///
    /// The server refuses a request, or this process may not drop packets: see [`Silence`].
    pub fn measure(self, server: &Server, scale: Scale, own_network: bool) -> Result<Duration> {
        fixture::stream(server.share_path(), scale)?;
        match self {
            Self::Reset => {
                let sum = (0..RESETS).map(|_| reset(server)).sum::<Result<Duration>>()?;
                Ok(sum / RESETS)
            }
            Self::Silent => {
                ensure!(own_network, "packets are dropped in a network of its own only");
                silent(server)
            }
        }
    }
}

fn reset(server: &Server) -> Result<Duration> {
    let mut lost = server.connect(Protection::Plain)?;
    let mut left = server.bind(&lost, Protection::Plain, 1).context("binding a channel")?;
    let file_id = open(&mut lost, Purpose::Open, STREAM)?;
    let data = [0x5A; WRITE_BYTES];
    push_write(&mut lost, file_id, 0, &data);
    lost.flush(Slot(0))?;
    let start = Instant::now();
    lost.reset()?;
    left.set_channel_sequence(1);
    loop {
        let request = WriteRequest::new(file_id, 0, &data);
        left.push_replay(Command::WRITE, WRITE_BYTES, &request);
        left.flush(Slot(0))?;
        let reply = left.receive()?;
        // The first request is still in progress, or its channel not known to be lost: [MS-SMB2]
        // 3.3.5.2.10.
        if reply.header.status != NtStatus::FILE_NOT_AVAILABLE {
            reply.succeeded()?;
            break;
        }
    }
    let waited = start.elapsed();
    close(&mut left, file_id)?;
    left.logoff()?;
    Ok(waited)
}

fn silent(server: &Server) -> Result<Duration> {
    let mut lost = server.connect_from(LOST, Protection::Plain)?;
    let mut left = server.bind(&lost, Protection::Plain, 1).context("binding a channel")?;
    let kept = open_with_oplock(&mut lost)?;
    let mut other = server.connect(Protection::Plain)?;
    let silence = Silence::of(LOST)?;
    let start = Instant::now();
    push_create(&mut other, Purpose::Open, &utf16::to_bytes(STREAM));
    other.flush(Slot(0))?;
    let notice = left.receive_break()?;
    let waited = start.elapsed();
    ensure!(notice.file_id == kept, "the break of another open came");
    let answer = OplockBreak { oplock_level: OplockLevel::II, ..notice };
    left.call(Command::OPLOCK_BREAK, 0, &answer)?.succeeded()?;
    let reply = other.receive()?;
    let opened = created(&other, &reply)?;
    drop(silence);
    close(&mut other, opened)?;
    close(&mut left, kept)?;
    other.logoff()?;
    left.logoff()?;
    Ok(waited)
}

/// Opens the file with an oplock, which must be broken before another client opens the file.
fn open_with_oplock(client: &mut Client) -> Result<wire::FileId> {
    let name = utf16::to_bytes(STREAM);
    let request = CreateRequest {
        requested_oplock_level: OplockLevel::BATCH,
        ..Purpose::Open.request(&name)
    };
    let reply = client.call(Command::CREATE, 0, &request)?.succeeded()?;
    let response = CreateResponse::decode(client.message(&reply))?;
    ensure!(response.oplock_level == OplockLevel::BATCH, "no oplock was granted");
    Ok(response.file_id)
}
