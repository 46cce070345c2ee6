//! Calls: requests about one record of a volatile database.

/// Function that ctdbd carries out where the record is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Function {
    /// Moves the record to this node. The reply says only that it is time to look again: the
    /// record may have moved on already.
    Migrate,
    /// Returns the record with its header, so that one round trip suffices to read it. It moves to
    /// this node as well: ctdbd answers no call without that.
    Fetch,
}

/// A request about one record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Call<'a> {
    /// Number of the database, from attaching it. ctdbd never answers a call for one that it does
    /// not have.
    pub database: u32,
    /// What to do with the record.
    pub function: Function,
    /// Key of the record in question.
    pub key: &'a [u8],
}

const IMMEDIATE_MIGRATION: u32 = 1;
const NULL_FUNCTION: u32 = 0xFF00_0001;
const FETCH_WITH_HEADER_FUNCTION: u32 = 0xFF00_0003;

impl Call<'_> {
    /// Returns the fields behind the header of the packet.
    pub(crate) fn encode(self) -> Vec<u8> {
        let (flags, function) = match self.function {
            Function::Migrate => (IMMEDIATE_MIGRATION, NULL_FUNCTION),
            Function::Fetch => (0, FETCH_WITH_HEADER_FUNCTION),
        };
        // A longer key makes a packet that is too long, which is refused.
        let key_length = u32::try_from(self.key.len()).unwrap_or(u32::MAX);
        let mut body = Vec::with_capacity(24 + self.key.len());
        // Between function and key: hops, and bytes of arguments.
        for field in [flags, self.database, function, 0, key_length, 0] {
            body.extend(field.to_ne_bytes());
        }
        body.extend(self.key);
        body
    }
}
