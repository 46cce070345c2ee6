//! FileStreamInformation: [MS-FSCC] 2.4.44.

use super::field::Field;
use super::name::put_len;
use crate::reader::Reader;
use crate::utf16;

/// One data stream of a file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StreamEntry {
    /// StreamName in full: `:name:$DATA`, or `::$DATA` for the unnamed stream.
    pub name: String,
    /// StreamSize, in bytes.
    pub size: u64,
    /// StreamAllocationSize, in bytes.
    pub allocation_size: u64,
}

/// Appends one entry with a NextEntryOffset of zero, for
/// [`EntryListWriter::push`](super::EntryListWriter::push).
pub fn encode_stream_entry(entry: &StreamEntry, out: &mut Vec<u8>) {
    0_u32.put(out);
    put_len(utf16::encoded_len(&entry.name), out);
    entry.size.put(out);
    entry.allocation_size.put(out);
    utf16::encode(&entry.name, out);
}

/// The entries of a whole response; `None` if one is malformed.
#[must_use]
pub fn decode_stream_list(bytes: &[u8]) -> Option<Vec<StreamEntry>> {
    let entry = |bytes| {
        let mut reader = Reader::new(bytes);
        let (_next_entry_offset, len) = (reader.u32()?, reader.len32()?);
        let (size, allocation_size) = (reader.u64()?, reader.u64()?);
        Some(StreamEntry { name: utf16::decode(reader.bytes(len)?).ok()?, size, allocation_size })
    };
    super::entry_list::entries(bytes).map(|bytes| entry(bytes.ok()?.1)).collect()
}
