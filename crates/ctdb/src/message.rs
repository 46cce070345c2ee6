//! Messages of ctdbd, and of processes on all nodes. Nobody answers them.

use std::net::IpAddr;

use crate::malformed::Malformed;
use crate::reader::Reader;
use crate::record::Record;

/// Numbers of the messages that ctdbd sends itself.
pub mod service {
    /// A recovery has ended: records may be at other nodes, and the generation has changed.
    pub const RECONFIGURE: u64 = 0xF200_0000_0000_0000;
    /// This node has lost a public address.
    pub const RELEASE_ADDRESS: u64 = 0xF300_0000_0000_0000;
    /// This node has got a public address.
    pub const TAKE_ADDRESS: u64 = 0xF301_0000_0000_0000;
}

/// Generation of messages of a node that is not part of the cluster.
const GENERATION_OUTSIDE: u32 = 1;

/// A message that arrived. ctdbd does not tell its sender: the source in its header is the own
/// node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Message {
    /// Number that this process has registered.
    pub service: u64,
    /// Generation of the cluster, as the own ctdbd has it.
    pub generation: u32,
    /// Content, as the sender wrote it.
    pub data: Vec<u8>,
}

impl Message {
    /// Returns true if this node is not part of the cluster.
    #[must_use]
    pub const fn is_from_outside(&self) -> bool {
        self.generation == GENERATION_OUTSIDE
    }

    /// Returns the address in a message of [`service::RELEASE_ADDRESS`] or
    /// [`service::TAKE_ADDRESS`].
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        Reader::new(&self.data).text(ADDRESS_BYTES_MAX).ok()?.parse().ok()
    }
}

/// Longest text of an address, with a zone.
const ADDRESS_BYTES_MAX: usize = 64;

/// A record in a message of a traverse.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraversedRecord<'a> {
    /// The caller's number of the traverse.
    pub traverse: u32,
    /// Key of the record found.
    pub key: &'a [u8],
    /// The record with its header.
    pub record: Record<'a>,
}

impl<'a> TraversedRecord<'a> {
    /// Reads a message's data; `None` is the end of the traverse.
    ///
    /// # Errors
    /// The bytes are no record.
    pub fn decode(data: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let mut fields = Reader::new(data);
        // The length of all, which the message has as well.
        fields.bytes(4)?;
        let (traverse, key_length, record_length) = (fields.u32()?, fields.u32()?, fields.u32()?);
        if key_length == 0 && record_length == 0 {
            return Ok(None);
        }
        let key = fields.counted(key_length)?;
        let record = Record::decode(fields.counted(record_length)?)?;
        Ok(Some(Self { traverse, key, record }))
    }
}
