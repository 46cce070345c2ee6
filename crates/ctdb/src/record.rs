//! Records of clustered databases: each begins with a header that says which node has it.

use crate::malformed::Malformed;
use crate::reader::Reader;

/// Bytes of the header of a record, with the padding at its end.
pub const RECORD_HEADER_BYTES: usize = 24;

/// Other nodes have copies for reading: the record must not be changed before they are revoked.
const HAS_DELEGATIONS: u32 = 0x0100_0000;

/// The header that CTDB keeps before the value of each record.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RecordHeader {
    /// Grows with each migration; of several copies a recovery keeps the one with the highest.
    pub sequence: u64,
    /// Number of the node that may change the record.
    pub dmaster: u32,
    /// CTDB's own flags, which a client leaves as they are.
    pub flags: u32,
}

impl RecordHeader {
    pub(crate) fn decode(fields: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (sequence, dmaster) = (fields.u64()?, fields.u32()?);
        fields.bytes(4)?;
        let flags = fields.u32()?;
        fields.bytes(4)?;
        Ok(Self { sequence, dmaster, flags })
    }

    pub(crate) fn encode(self, output: &mut Vec<u8>) {
        output.extend(self.sequence.to_ne_bytes());
        output.extend(self.dmaster.to_ne_bytes());
        output.extend([0; 4]);
        output.extend(self.flags.to_ne_bytes());
        output.extend([0; 4]);
    }

    /// Whether the node of this number may change the record.
    pub(crate) const fn is_at(self, node: u32) -> bool {
        self.dmaster == node && self.flags & HAS_DELEGATIONS == 0
    }
}

/// A record with its header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Record<'a> {
    /// CTDB's part of the record.
    pub header: RecordHeader,
    /// The value; `None` if the record was deleted, or never had one.
    pub value: Option<&'a [u8]>,
}

impl<'a> Record<'a> {
    /// Reads a record as it is in the file, and in the reply to [`crate::Function::Fetch`].
    ///
    /// # Errors
    /// The bytes are shorter than a header.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Reader::new(bytes);
        let header = RecordHeader::decode(&mut fields)?;
        Ok(Self { header, value: Some(fields.rest()).filter(|value| !value.is_empty()) })
    }
}

#[cfg(test)]
mod tests {
    use super::{HAS_DELEGATIONS, Record, RecordHeader};

    #[test]
    fn a_header_alone_is_a_deleted_record() {
        let header = RecordHeader { sequence: 7, dmaster: 2, flags: 0x0001_0000 };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        assert_eq!(bytes.len(), super::RECORD_HEADER_BYTES);
        assert_eq!(Record::decode(&bytes), Ok(Record { header, value: None }));
        bytes.push(b'v');
        assert_eq!(Record::decode(&bytes), Ok(Record { header, value: Some(b"v") }));
        assert!(Record::decode(&bytes[..23]).is_err_and(|it| it == super::Malformed::Short));
    }

    #[test]
    fn a_record_with_delegations_must_be_fetched_although_it_is_here() {
        let mut header = RecordHeader { sequence: 1, dmaster: 2, flags: 0 };
        assert!(header.is_at(2) && !header.is_at(1));
        header.flags = HAS_DELEGATIONS;
        assert!(!header.is_at(2));
    }
}
