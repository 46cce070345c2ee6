//! ACL: [MS-DTYP] 2.4.5.

use crate::Ace;
use crate::reader::Reader;

/// An access control list, [MS-DTYP] 2.4.5: a DACL or a SACL.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Acl {
    /// AclRevision: 2, or 4 for lists with object types.
    pub revision: u8,
    /// The entries, in the order of their evaluation.
    pub aces: Vec<Ace>,
}

impl Acl {
    /// ACL_REVISION.
    pub const REVISION: u8 = 2;
    /// ACL_REVISION_DS.
    pub const REVISION_DS: u8 = 4;
    /// Bytes before the first entry.
    const HEADER_LEN: usize = 8;
    /// Highest value of AclSize, in bytes, and so the limit of any list.
    pub const SIZE_MAX: usize = 0xFFFC;

    /// A list of revision 2.
    #[must_use]
    pub fn new(aces: Vec<Ace>) -> Self {
        Self { revision: Self::REVISION, aces }
    }

    /// A list of as many entries as fit; those behind them are dropped.
    #[must_use]
    pub fn fitting(revision: u8, mut aces: Vec<Ace>) -> Self {
        let mut len = Self::HEADER_LEN;
        let fits = |ace: &&Ace| {
            len += ace.encoded_len();
            len <= Self::SIZE_MAX
        };
        let count = aces.iter().take_while(fits).count();
        aces.truncate(count);
        Self { revision, aces }
    }

    /// True if the packet form has a place for all entries. Decoded lists fit.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.encoded_len() <= Self::SIZE_MAX
    }

    /// Length of the packet form in bytes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + self.aces.iter().map(Ace::encoded_len).sum::<usize>()
    }

    /// Appends the packet form.
    ///
    /// # Panics
    /// If it is longer than 64 KiB: see [`Self::fits`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        let len = u16::try_from(self.encoded_len()).expect("an ACL has at most 64 KiB");
        let count = u16::try_from(self.aces.len()).expect("each has 4 bytes of 64 KiB");
        out.extend_from_slice(&[self.revision, 0]);
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(&[0, 0]);
        for ace in &self.aces {
            ace.encode(out);
        }
    }

    /// Reads a list from the front of `bytes`, up to AclSize.
    ///
    /// `None` if the list or an entry is incomplete, if entries reach beyond AclSize, or if the
    /// revision is neither 2, 3 nor 4. Space after the last entry is allowed, and dropped.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut header = Reader::new(bytes);
        let (revision, _sbz1) = (header.u8()?, header.u8()?);
        let (size, count, _sbz2) = (usize::from(header.u16()?), header.u16()?, header.u16()?);
        if !matches!(revision, Self::REVISION..=Self::REVISION_DS) {
            return None;
        }
        let mut entries = Reader::new(bytes.get(Self::HEADER_LEN..size)?);
        let mut aces = Vec::with_capacity(usize::from(count).min(size / 4));
        for _ in 0..count {
            aces.push(Ace::read(&mut entries)?);
        }
        Some(Self { revision, aces })
    }
}
