//! Reading and writing one file: in order, or anywhere.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Result, ensure};
use wire::FileId;
use wire::read::READ_DATA_OFFSET;

use super::fixture::{self, STREAM, Scale};
use super::{Done, Limit, Load};
use crate::client::pipeline::{self, Job, Progress};
use crate::client::requests::{Purpose, open, push_read, verify_read};
use crate::client::write_frame::WriteFrame;
use crate::client::{Client, Protection, Reply, Slot};
use crate::server::Server;

/// Directions in which the data move.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// READ at one offset after the other.
    Read,
    /// READ at offsets without order.
    ReadRandom,
    /// WRITE at one offset after the other.
    Write,
    /// WRITE at offsets without order.
    WriteRandom,
}

impl Direction {
    const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteRandom)
    }

    const fn is_random(self) -> bool {
        matches!(self, Self::ReadRandom | Self::WriteRandom)
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::ReadRandom => "random read",
            Self::Write => "write",
            Self::WriteRandom => "random write",
        })
    }
}

/// Blocks of a file, over and over.
#[derive(Debug)]
pub struct Stream {
    client: Client,
    file_id: FileId,
    /// Frame of the WRITE requests, if it writes.
    frame: Option<WriteFrame>,
    block_bytes: usize,
    depth: usize,
    offsets: Offsets,
}

impl Stream {
    /// Opens the file and gathers credits for `depth` requests.
    ///
    /// # Errors
    ///
    /// When the server refuses, or takes no blocks of this size.
    pub fn prepare(
        server: &Server,
        scale: Scale,
        protection: Protection,
        what: (Direction, usize, usize),
    ) -> Result<Self> {
        Self::prepare_file(server, STREAM, scale, protection, what)
    }

    /// As [`Self::prepare`], by another name of the file.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn prepare_file(
        server: &Server,
        name: &str,
        scale: Scale,
        protection: Protection,
        what: (Direction, usize, usize),
    ) -> Result<Self> {
        fixture::stream(server.share_path(), scale)?;
        Self::by(server.connect(protection)?, name, scale, what)
    }

    /// By a client that is connected already, from a file that is there.
    ///
    /// # Errors
    ///
    /// As [`Self::prepare`].
    pub fn by(
        mut client: Client,
        name: &str,
        scale: Scale,
        what: (Direction, usize, usize),
    ) -> Result<Self> {
        let file_id = open(&mut client, Purpose::Open, name)?;
        Self::over(client, file_id, scale, what)
    }

    /// Over a channel on which the file is open already.
    pub(super) fn over(
        mut client: Client,
        file_id: FileId,
        scale: Scale,
        (direction, block_bytes, depth): (Direction, usize, usize),
    ) -> Result<Self> {
        ensure!(client.payload_bytes_max() >= block_bytes, "the server takes no such blocks");
        client.gather_credits(depth, block_bytes)?;
        let frame =
            direction.is_write().then(|| WriteFrame::new(&client, file_id, block_bytes, 0x5A));
        let blocks = scale.stream_bytes / u64::try_from(block_bytes)?;
        let offsets = Offsets::new(direction.is_random(), blocks, block_bytes);
        let mut stream = Self { client, file_id, frame, block_bytes, depth, offsets };
        stream.run(Limit::Operations(u64::try_from(depth)? * 2))?;
        Ok(stream)
    }
}

impl Stream {
    /// Reads without a pause until `is_over`, and adds the bytes to `had` as they arrive, so that
    /// another thread can compute a rate.
    ///
    /// # Errors
    ///
    /// As [`Load::run`].
    pub fn read_until(&mut self, is_over: &AtomicBool, had: &AtomicU64) -> Result<()> {
        let Self { client, file_id, block_bytes, depth, offsets, .. } = self;
        let bytes = u64::try_from(*block_bytes)?;
        let mut begun = 0;
        pipeline::run(client, *depth, || {
            // After the first ones, each begins when another has come.
            if begun >= *depth {
                had.fetch_add(bytes, Ordering::Relaxed);
            }
            begun += 1;
            let (file_id, length) = (*file_id, *block_bytes);
            let continues = !is_over.load(Ordering::Relaxed);
            continues.then(|| Read { file_id, offset: offsets.next(), length })
        })?;
        Ok(())
    }

    /// Reads as [`Load::run`] does, and lets the kernel discard the data: see [`Client::discard`].
    ///
    /// # Errors
    ///
    /// The connection breaks, or a read fails.
    pub fn discard(&mut self, mut limit: Limit) -> Result<Done> {
        let Self { client, file_id, block_bytes, depth, offsets, .. } = self;
        let message_bytes = usize::from(READ_DATA_OFFSET) + *block_bytes;
        let frame_bytes = client.frame_bytes(message_bytes);
        let mut operations = 0;
        loop {
            while client.in_flight() < *depth && limit.take() {
                push_read(client, *file_id, offsets.next(), *block_bytes);
                client.flush(Slot(0))?;
            }
            if client.in_flight() == 0 {
                break;
            }
            client.discard(frame_bytes, *block_bytes)?;
            operations += 1;
        }
        Ok(Done { operations, bytes: operations * u64::try_from(self.block_bytes)? })
    }
}

impl Load for Stream {
    fn run(&mut self, mut limit: Limit) -> Result<Done> {
        let Self { client, file_id, frame, block_bytes, depth, offsets, .. } = self;
        let operations = match frame {
            Some(frame) => {
                // One frame serves all slots: it is no longer needed once sent.
                let frame = std::cell::RefCell::new(frame);
                pipeline::run(client, *depth, || {
                    limit.take().then(|| Write { frame: &frame, offset: offsets.next() })
                })?
            }
            None => pipeline::run(client, *depth, || {
                let (file_id, length) = (*file_id, *block_bytes);
                limit.take().then(|| Read { file_id, offset: offsets.next(), length })
            })?,
        };
        Ok(Done { operations, bytes: operations * u64::try_from(self.block_bytes)? })
    }

    fn client(&self) -> Option<&Client> {
        Some(&self.client)
    }
}

struct Read {
    file_id: FileId,
    offset: u64,
    length: usize,
}

impl Job for Read {
    fn start(&mut self, client: &mut Client, slot: Slot) -> Result<()> {
        push_read(client, self.file_id, self.offset, self.length);
        client.flush(slot)
    }

    fn advance(&mut self, client: &mut Client, _: Slot, reply: &Reply) -> Result<Progress> {
        verify_read(client, reply, self.length)?;
        Ok(Progress::Done)
    }
}

struct Write<'a> {
    frame: &'a std::cell::RefCell<&'a mut WriteFrame>,
    offset: u64,
}

impl Job for Write<'_> {
    fn start(&mut self, client: &mut Client, slot: Slot) -> Result<()> {
        self.frame.borrow_mut().send(client, self.offset, slot)
    }

    fn advance(&mut self, _: &mut Client, _: Slot, reply: &Reply) -> Result<Progress> {
        reply.clone().succeeded()?;
        Ok(Progress::Done)
    }
}

/// Sequence of the blocks' offsets.
#[derive(Debug)]
struct Offsets {
    random: bool,
    /// The number of the last block, or the state of the generator.
    state: u64,
    blocks: u64,
    block_bytes: u64,
}

impl Offsets {
    fn new(random: bool, blocks: u64, block_bytes: usize) -> Self {
        let block_bytes = u64::try_from(block_bytes).expect("64 bits are enough");
        Self { random, state: 0x2545_F491_4F6C_DD1D, blocks, block_bytes }
    }

    /// The next offset. Random ones are those of a xorshift generator: the same in every run.
    fn next(&mut self) -> u64 {
        if self.random {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
        } else {
            self.state = self.state.wrapping_add(1);
        }
        self.state % self.blocks * self.block_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::Offsets;

    #[test]
    fn offsets_stay_in_the_file_and_reach_all_of_it() {
        for random in [false, true] {
            let mut offsets = Offsets::new(random, 16, 4096);
            let seen: std::collections::BTreeSet<u64> =
                (0..1_000).map(|_| offsets.next()).collect();
            assert_eq!(seen, (0..16).map(|block| block * 4096).collect(), "random: {random}");
        }
    }

    #[test]
    fn offsets_in_order_follow_each_other() {
        let mut offsets = Offsets::new(false, 4, 10);
        let first = offsets.next();
        assert_eq!(offsets.next(), (first + 10) % 40);
    }
}
