//! Packets on ctdbd's socket: a header of 32 bytes, then fields by operation.

use tdb::RECORD_BYTES_MAX;

use crate::malformed::Malformed;
use crate::reader::Reader;

/// Longest packet that is sent or read: the largest record of a table, with its key and header.
pub const PACKET_BYTES_MAX: usize = RECORD_BYTES_MAX + 64 * 1024;

const HEADER_BYTES: usize = 32;
const MAGIC: u32 = 0x4354_4442;
const VERSION: u32 = 1;

pub(crate) mod operation {
    pub(crate) const REQ_CALL: u32 = 0;
    pub(crate) const REPLY_CALL: u32 = 1;
    pub(crate) const REPLY_ERROR: u32 = 4;
    pub(crate) const REQ_MESSAGE: u32 = 5;
    pub(crate) const REQ_CONTROL: u32 = 7;
    pub(crate) const REPLY_CONTROL: u32 = 8;
}

/// Fields that all packets have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// Number of the cluster's present composition; changes with each recovery.
    pub generation: u32,
    /// Number for the kind of packet.
    pub operation: u32,
    /// Number of the node that the packet is for.
    pub destination: u32,
    /// Number of the node that the packet comes from; in messages, the receiver's own.
    pub source: u32,
    /// The client's number of the request; 0 in messages.
    pub request: u32,
}

/// A packet that ctdbd sends to a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Packet<'a> {
    /// Result of an earlier call.
    ReplyCall {
        /// Zero if the call succeeded.
        status: u32,
        /// Result of the function that was called.
        data: &'a [u8],
    },
    /// Result of an earlier control.
    ReplyControl {
        /// Zero for success, negative for failure; in some controls, the result itself.
        status: i32,
        /// Result, with fields by control.
        data: &'a [u8],
        /// Reason of a failure; often empty.
        error: &'a [u8],
    },
    /// The request failed before it had a result.
    ReplyError {
        /// Number of the reported error.
        status: u32,
        /// The reported error in words.
        text: &'a [u8],
    },
    /// A message of another process, or of ctdbd itself.
    Message {
        /// Number that the receiver has registered.
        service: u64,
        /// Content, as the sender wrote it.
        data: &'a [u8],
    },
    /// A packet that is not for clients, or of a newer ctdbd.
    Other,
}

/// Returns the length of the packet that `input` begins with; `None` if its header is incomplete.
///
/// # Errors
/// No packet begins so.
pub fn whole_length(input: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some(mut fields) = input.get(..HEADER_BYTES).map(Reader::new) else { return Ok(None) };
    let (length, magic, version) = (fields.u32()?, fields.u32()?, fields.u32()?);
    if magic != MAGIC {
        return Err(Malformed::Magic(magic));
    }
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    match usize::try_from(length) {
        Ok(bytes) if (HEADER_BYTES..=PACKET_BYTES_MAX).contains(&bytes) => Ok(Some(bytes)),
        _ => Err(Malformed::Length(length)),
    }
}

impl<'a> Packet<'a> {
    /// Reads a whole packet. Bytes after its last field are padding.
    ///
    /// # Errors
    /// The packet ends before its last field.
    pub fn decode(packet: &'a [u8]) -> Result<(Header, Self), Malformed> {
        let length = whole_length(packet)?.ok_or(Malformed::Short)?;
        let mut fields = Reader::new(packet.get(..length).ok_or(Malformed::Short)?);
        // Length, magic and version.
        fields.bytes(12)?;
        let header = Header {
            generation: fields.u32()?,
            operation: fields.u32()?,
            destination: fields.u32()?,
            source: fields.u32()?,
            request: fields.u32()?,
        };
        let packet = match header.operation {
            operation::REPLY_CALL => {
                let (status, length) = (fields.u32()?, fields.u32()?);
                Self::ReplyCall { status, data: fields.counted(length)? }
            }
            operation::REPLY_ERROR => {
                let (status, length) = (fields.u32()?, fields.u32()?);
                Self::ReplyError { status, text: fields.counted(length)? }
            }
            operation::REQ_MESSAGE => {
                let (service, length) = (fields.u64()?, fields.u32()?);
                Self::Message { service, data: fields.counted(length)? }
            }
            operation::REPLY_CONTROL => {
                let status = fields.i32()?;
                let (length, error_length) = (fields.u32()?, fields.u32()?);
                let data = fields.counted(length)?;
                Self::ReplyControl { status, data, error: fields.counted(error_length)? }
            }
            _ => Self::Other,
        };
        Ok((header, packet))
    }
}

/// Adds a packet to `output`. The source stays 0: ctdbd knows its client.
pub(crate) fn encode(
    output: &mut Vec<u8>,
    operation: u32,
    destination: u32,
    request: u32,
    body: &[u8],
) {
    let length = u32::try_from(HEADER_BYTES + body.len()).expect("the caller has checked it");
    // ctdbd ignores the generation of a request; messages carry the one that never is valid.
    let generation = u32::from(operation == operation::REQ_MESSAGE);
    for field in [length, MAGIC, VERSION, generation, operation, destination, 0, request] {
        output.extend(field.to_ne_bytes());
    }
    output.extend(body);
}

/// Whether a packet with such a body is short enough to be sent.
pub(crate) const fn fits(body: &[u8]) -> bool {
    body.len() <= PACKET_BYTES_MAX - HEADER_BYTES
}

/// Bytes that a packet with such a body has.
pub(crate) const fn packet_bytes(body: &[u8]) -> usize {
    HEADER_BYTES + body.len()
}
