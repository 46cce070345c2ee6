//! What the tables hold.

mod client;
mod session;
mod tree_connect;

pub use client::ClientRecord;
pub use session::SessionRecord;
pub use tree_connect::TreeConnectRecord;

use dtyp::ServerId;

use crate::codec::RecordError;

/// A record of one of the global tables.
pub trait Record: Sized {
    /// The version of the form; it changes whenever a field does.
    const VERSION: u8;

    /// Where the record lies in its table. Follows from fields of the record.
    fn key(&self) -> Key;

    /// The process that owns the record; it goes when that process does.
    fn owner(&self) -> ServerId;

    /// Writes the record into `out`, which is cleared first.
    ///
    /// # Errors
    /// [`RecordError::TextTooLong`].
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), RecordError>;

    /// Reads a record.
    ///
    /// # Errors
    /// Whatever is wrong with the bytes.
    fn decode(bytes: &[u8]) -> Result<Self, RecordError>;
}

/// The key of a record: at most 24 bytes, no allocation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Key {
    bytes: [u8; Self::BYTES_MAX],
    len: usize,
}

impl Key {
    const BYTES_MAX: usize = 24;

    /// Joins `parts`, which together have at most 24 bytes.
    pub(crate) fn new(parts: &[&[u8]]) -> Self {
        let mut key = Self { bytes: [0; Self::BYTES_MAX], len: 0 };
        for part in parts {
            key.bytes[key.len..key.len + part.len()].copy_from_slice(part);
            key.len += part.len();
        }
        key
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests;
