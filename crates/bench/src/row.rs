//! Measurements: each is one row of the table.

use std::fmt;

use anyhow::{Result, bail};

use crate::client::Protection;
use crate::load::Load;
use crate::load::channels::Channels;
use crate::load::connects::Connects;
use crate::load::creates::{Creates, Crowd};
use crate::load::fixture::Scale;
use crate::load::listing::Listing;
use crate::load::lost_channel::Loss;
use crate::load::metadata::{Metadata, Question};
use crate::load::small_files::SmallFiles;
use crate::load::stream::{Direction, Stream};
use crate::null_server::DataPath;
use crate::server::Server;

/// A measurement, as one row of the table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Row {
    /// Work that the client does.
    pub work: Work,
    /// Protection of the messages: plain, signed, sealed.
    pub protection: Protection,
    /// Quantity that the row measures.
    pub quantity: Quantity,
}

/// Kinds of work of a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Work {
    /// Reads or writes a large file over several channels at once.
    Channels {
        /// Number of channels of the session.
        channels: u8,
        /// Direction of the data: read or write.
        direction: Direction,
        /// Bytes of each READ or WRITE.
        block_bytes: usize,
        /// Number of requests in flight on each channel.
        depth: usize,
        /// True if the client discards data that it reads, at nearly no cost.
        discards: bool,
    },
    /// Connects, logs on, and logs off.
    Connects,
    /// Creates empty files in a directory.
    Creates {
        /// Number of files already in the directory.
        crowd: Crowd,
    },
    /// Is connected, and does nothing.
    Idle,
    /// Lists a directory of many files.
    Listing {
        /// Bytes of the buffer of each QUERY_DIRECTORY.
        buffer_bytes: usize,
    },
    /// Loses one of two channels.
    LostChannel {
        /// Manner in which the channel is lost.
        loss: Loss,
    },
    /// Queries metadata of a file.
    Metadata {
        /// Kind of query, or ECHO.
        question: Question,
        /// Number of queries in flight.
        depth: usize,
    },
    /// Copies a tree of small files.
    SmallFiles {
        /// Number of files in progress at once.
        depth: usize,
    },
    /// Reads or writes a large file.
    Stream {
        /// Direction of the data: read or write.
        direction: Direction,
        /// Bytes of each READ or WRITE.
        block_bytes: usize,
        /// Number of requests in flight.
        depth: usize,
    },
}

/// Quantities that a row measures.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Quantity {
    /// Bytes for each second of processor time of the server's busiest thread: the server's limit
    /// on a machine with a processor for each of its threads, and a client that is fast enough.
    Capacity,
    /// Elapsed time of the work.
    Latency,
    /// Memory of the server per client.
    Memory,
    /// System calls of the server per operation.
    SystemCalls,
    /// Operations or bytes per second.
    Throughput,
}

/// Units of a row's figures.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize)]
pub enum Unit {
    /// System calls per operation; fewer are better.
    #[serde(rename = "calls/op")]
    CallsPerOperation,
    /// Gibibytes of data per second.
    #[serde(rename = "GiB/s")]
    GibPerSecond,
    /// KiB per client; fewer are better.
    #[serde(rename = "KiB/client")]
    KibPerClient,
    /// Milliseconds; lower values are better.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Mebibytes of data per second.
    #[serde(rename = "MiB/s")]
    MibPerSecond,
    /// Operations that are completed per second.
    #[serde(rename = "op/s")]
    PerSecond,
}

impl Unit {
    /// True if higher values are better.
    #[must_use]
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::GibPerSecond | Self::MibPerSecond | Self::PerSecond)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CallsPerOperation => "calls/op",
            Self::GibPerSecond => "GiB/s",
            Self::KibPerClient => "KiB/client",
            Self::Milliseconds => "ms",
            Self::MibPerSecond => "MiB/s",
            Self::PerSecond => "op/s",
        })
    }
}

impl Row {
    /// Unit of the row's figures.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        match (self.quantity, self.work) {
            (Quantity::Capacity, _) => Unit::GibPerSecond,
            (Quantity::Latency, _) => Unit::Milliseconds,
            (Quantity::Memory, _) => Unit::KibPerClient,
            (Quantity::SystemCalls, _) => Unit::CallsPerOperation,
            (
                Quantity::Throughput,
                Work::Stream { direction: Direction::Read | Direction::Write, .. }
                | Work::Channels { .. },
            ) => Unit::MibPerSecond,
            (Quantity::Throughput, _) => Unit::PerSecond,
        }
    }

    /// Whether client and server share one processor: where one request waits for the other.
    #[must_use]
    pub const fn is_pinned(&self) -> bool {
        match self.work {
            Work::Channels { .. } => false,
            Work::Connects
            | Work::Creates { .. }
            | Work::Idle
            | Work::Listing { .. }
            | Work::LostChannel { .. } => true,
            Work::Metadata { depth, .. }
            | Work::SmallFiles { depth }
            | Work::Stream { depth, .. } => depth == 1,
        }
    }

    /// The same over one channel; nothing when it is over one already, or over none.
    #[must_use]
    pub const fn over_one_channel(mut self) -> Option<Self> {
        match &mut self.work {
            Work::Channels { channels, .. } if *channels > 1 => *channels = 1,
            _ => return None,
        }
        Some(self)
    }

    /// True if a server that answers from memory can serve it, as the limit of the machine.
    #[must_use]
    pub fn has_limit(&self) -> bool {
        self.protection == Protection::Plain
            && self.quantity == Quantity::Throughput
            && matches!(
                self.work,
                Work::Stream { .. }
                    | Work::SmallFiles { .. }
                    | Work::Metadata { .. }
                    | Work::Creates { .. }
                    | Work::Connects
            )
    }

    /// Whether it moves the bytes of the file for streams.
    #[must_use]
    pub const fn moves_bytes(&self) -> bool {
        matches!(self.work, Work::Stream { .. } | Work::Channels { .. } | Work::LostChannel { .. })
    }

    /// True if a bare server can serve it that moves bytes in this way: signed or sealed data pass
    /// through memory, as small requests do.
    #[must_use]
    pub fn is_served_bare(&self, way: DataPath) -> bool {
        let by_memory = way == DataPath::Pread;
        let is_counted = matches!(self.quantity, Quantity::Throughput | Quantity::SystemCalls);
        is_counted
            && match self.work {
                Work::Stream { .. } => by_memory || self.protection == Protection::Plain,
                Work::Creates { .. }
                | Work::Metadata { question: Question::OpenClose | Question::Stat, .. }
                | Work::SmallFiles { .. } => by_memory,
                _ => false,
            }
    }

    /// Connects the load to `server`.
    ///
    /// # Errors
    ///
    /// When the server refuses, or the row has none.
    pub fn prepare(&self, server: &Server, scale: Scale) -> Result<Box<dyn Load>> {
        let protection = self.protection;
        Ok(match self.work {
            Work::Idle | Work::LostChannel { .. } => bail!("{self} has no load"),
            Work::Channels { channels, direction, block_bytes, depth, discards } => {
                let what = (direction, block_bytes, depth);
                Box::new(Channels::prepare(server, scale, protection, (channels, discards), what)?)
            }
            Work::Connects => Box::new(Connects::prepare(server)),
            Work::Creates { crowd } => {
                Box::new(Creates::prepare(server, scale, protection, crowd)?)
            }
            Work::Listing { buffer_bytes } => {
                Box::new(Listing::prepare(server, scale, protection, buffer_bytes)?)
            }
            Work::Metadata { question, depth } => {
                Box::new(Metadata::prepare(server, scale, protection, (question, depth))?)
            }
            Work::SmallFiles { depth } => {
                Box::new(SmallFiles::prepare(server, scale, protection, depth)?)
            }
            Work::Stream { direction, block_bytes, depth } => {
                let what = (direction, block_bytes, depth);
                Box::new(Stream::prepare(server, scale, protection, what)?)
            }
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.quantity {
            Quantity::SystemCalls => f.write_str("system calls: ")?,
            Quantity::Memory => f.write_str("memory: ")?,
            Quantity::Capacity => f.write_str("capacity, ")?,
            Quantity::Latency | Quantity::Throughput => {}
        }
        match self.work {
            Work::Connects => f.write_str("connect + session setup")?,
            Work::Creates { crowd: Crowd::Nobody } => f.write_str("create, empty directory")?,
            Work::Creates { crowd: Crowd::Many } => f.write_str("create, large directory")?,
            Work::Idle => f.write_str("idle client")?,
            Work::Listing { buffer_bytes } => write!(f, "listing, {} buffer", Size(buffer_bytes))?,
            Work::Metadata { question, depth } => {
                let question = match question {
                    Question::Echo => "echo",
                    Question::OpenClose => "open + close",
                    Question::Stat => "stat",
                };
                write!(f, "{question}, depth {depth}")?;
            }
            Work::LostChannel { loss } => write!(f, "channel lost: {loss}")?,
            Work::SmallFiles { depth } => write!(f, "small-file copy, depth {depth}")?,
            Work::Channels { channels, direction, block_bytes, depth, discards } => {
                let (block, s) = (Size(block_bytes), if channels == 1 { "" } else { "s" });
                let discards = if discards { " and discard" } else { "" };
                write!(f, "{direction}{discards} {block}, {channels} channel{s}, depth {depth}")?;
            }
            Work::Stream { direction, block_bytes, depth } => {
                write!(f, "{direction} {}, depth {depth}", Size(block_bytes))?;
            }
        }
        match self.protection {
            Protection::Plain
                if !matches!(self.work, Work::Stream { .. } | Work::Channels { .. }) =>
            {
                Ok(())
            }
            protection => write!(f, ", {protection}"),
        }
    }
}

/// Bytes as people say them.
struct Size(usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 => write!(f, "{} MiB", bytes >> 20),
            bytes => write!(f, "{} KiB", bytes >> 10),
        }
    }
}

const KIB_4: usize = 4 << 10;
const KIB_64: usize = 64 << 10;
const MIB: usize = 1 << 20;

/// All rows, in the order of the table.
#[must_use]
pub fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    for direction in [Direction::Read, Direction::Write] {
        for (block_bytes, depth) in [(KIB_64, 1), (KIB_64, 16), (MIB, 1), (MIB, 16)] {
            for protection in [Protection::Plain, Protection::Signed, Protection::Sealed] {
                let work = Work::Stream { direction, block_bytes, depth };
                rows.push(Row { work, protection, quantity: Quantity::Throughput });
            }
        }
    }
    for (direction, block_bytes, numbers, discards) in [
        (Direction::Read, MIB, &[2, 4][..], false),
        (Direction::Write, MIB, &[2, 4], false),
        (Direction::Read, KIB_64, &[1, 2, 4], true),
        (Direction::Read, MIB, &[1, 2, 4], true),
    ] {
        for &channels in numbers {
            for protection in [Protection::Plain, Protection::Signed, Protection::Sealed] {
                let depth = 16;
                let work = Work::Channels { channels, direction, block_bytes, depth, discards };
                rows.push(Row { work, protection, quantity: Quantity::Throughput });
            }
        }
    }
    for (direction, discards) in [(Direction::Read, true), (Direction::Write, false)] {
        for block_bytes in [KIB_64, MIB] {
            for protection in [Protection::Signed, Protection::Sealed] {
                let (channels, depth) = (2, 16);
                let work = Work::Channels { channels, direction, block_bytes, depth, discards };
                rows.push(Row { work, protection, quantity: Quantity::Capacity });
            }
        }
    }
    let stream = |direction, block_bytes, depth| Work::Stream { direction, block_bytes, depth };
    let metadata = |question, depth| Work::Metadata { question, depth };
    let mut push =
        |work, quantity| rows.push(Row { work, protection: Protection::Plain, quantity });
    for work in [
        stream(Direction::ReadRandom, KIB_4, 16),
        stream(Direction::WriteRandom, KIB_4, 16),
        Work::SmallFiles { depth: 1 },
        Work::SmallFiles { depth: 4 },
        metadata(Question::Stat, 1),
        metadata(Question::OpenClose, 1),
        metadata(Question::OpenClose, 16),
        metadata(Question::Echo, 1),
        Work::Creates { crowd: Crowd::Nobody },
        Work::Creates { crowd: Crowd::Many },
        Work::Listing { buffer_bytes: KIB_64 },
        Work::Listing { buffer_bytes: MIB },
        Work::Connects,
    ] {
        push(work, Quantity::Throughput);
    }
    for loss in [Loss::Reset, Loss::Silent] {
        push(Work::LostChannel { loss }, Quantity::Latency);
    }
    push(Work::Idle, Quantity::Memory);
    for work in [
        stream(Direction::Read, KIB_64, 1),
        stream(Direction::Write, KIB_64, 1),
        stream(Direction::Read, MIB, 16),
        Work::SmallFiles { depth: 1 },
        metadata(Question::Stat, 1),
        metadata(Question::OpenClose, 1),
        Work::Listing { buffer_bytes: KIB_64 },
    ] {
        push(work, Quantity::SystemCalls);
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Unit, all};

    #[test]
    fn rows_have_names_of_their_own() {
        let names: BTreeSet<String> = all().iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), all().len());
        assert!(names.contains("read 64 KiB, depth 1, signed"));
        assert!(names.contains("system calls: stat, depth 1"));
    }

    #[test]
    fn only_rows_of_one_pending_request_are_pinned() {
        for row in all() {
            let name = row.to_string();
            let waits = !["depth 16", "depth 4"].iter().any(|deep| name.contains(deep));
            assert_eq!(row.is_pinned(), waits, "{name}");
        }
    }

    #[test]
    fn less_is_better_for_the_costs_of_a_client() {
        for row in all() {
            let costs = row.to_string().contains(": ");
            assert_eq!(row.unit().more_is_better(), !costs, "{row}");
        }
        assert!(Unit::PerSecond.more_is_better());
    }
}
