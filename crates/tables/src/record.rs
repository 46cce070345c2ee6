//! Records of the global tables.

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
    /// Version of the form; it changes with every field.
    const VERSION: u8;

    /// Key of the record in its table, derived from the fields.
    fn key(&self) -> Key;

    /// Process that owns the record, which is removed when that process ends.
    fn owner(&self) -> ServerId;

    /// Clears `out` and encodes the record into it.
    ///
    /// # Errors
    /// [`RecordError::TextTooLong`].
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), RecordError>;

    /// Decodes a record.
    ///
    /// # Errors
    /// Any [`RecordError`] other than a wrong key.
    fn decode(bytes: &[u8]) -> Result<Self, RecordError>;
}

/// Key of a record: at most 24 bytes, without allocation.
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
