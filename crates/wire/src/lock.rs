//! SMB2 LOCK locks and unlocks ranges of bytes: [MS-SMB2] 2.2.26, 2.2.27.

use std::fmt;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::file_id::{FileId, FileIdLayout};
use crate::message::{self, Decode, Encode, empty_bodies};

bitflags::bitflags! {
    /// Flags of a [`LockElement`]: [MS-SMB2] 2.2.26.1.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct LockFlags: u32 {
        /// Others may read the range, and lock it shared.
        const SHARED_LOCK = 0x0000_0001;
        /// No other open may read, write or lock the range.
        const EXCLUSIVE_LOCK = 0x0000_0002;
        /// Releases the range.
        const UNLOCK = 0x0000_0004;
        /// Fail instead of waiting.
        const FAIL_IMMEDIATELY = 0x0000_0010;

        const _ = !0;
    }
}

/// One range: [MS-SMB2] 2.2.26.1.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LockElement {
    /// First byte of the range.
    pub offset: u64,
    /// Length of the range in bytes.
    pub length: u64,
    /// Operation on the range.
    pub flags: LockFlags,
}

#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct ElementLayout {
    offset: U64,
    length: U64,
    flags: U32,
    reserved: U32,
}

impl From<ElementLayout> for LockElement {
    fn from(layout: ElementLayout) -> Self {
        Self {
            offset: layout.offset.get(),
            length: layout.length.get(),
            flags: LockFlags::from_bits_retain(layout.flags.get()),
        }
    }
}

impl From<LockElement> for ElementLayout {
    fn from(element: LockElement) -> Self {
        Self {
            offset: element.offset.into(),
            length: element.length.into(),
            flags: element.flags.bits().into(),
            reserved: U32::ZERO,
        }
    }
}

/// The ranges of a request: a view of received bytes, or of values to send.
#[derive(Clone, Copy)]
pub struct Locks<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    Received(&'a [ElementLayout]),
    Values(&'a [LockElement]),
}

impl<'a> Locks<'a> {
    /// A list of `elements`, to be sent.
    #[must_use]
    pub const fn new(elements: &'a [LockElement]) -> Self {
        Self(Source::Values(elements))
    }

    /// Number of ranges; [MS-SMB2] 3.3.5.14 refuses zero.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.0 {
            Source::Received(elements) => elements.len(),
            Source::Values(elements) => elements.len(),
        }
    }

    /// True without ranges.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ranges in the order of the sender.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = LockElement> + use<'a> {
        let source = self.0;
        (0..self.len()).map(move |index| match source {
            Source::Received(elements) => elements[index].into(),
            Source::Values(elements) => elements[index],
        })
    }
}

impl Default for Locks<'_> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl PartialEq for Locks<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Locks<'_> {}

impl fmt::Debug for Locks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The request: [MS-SMB2] 2.2.26.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LockRequest<'a> {
    /// LockSequenceNumber (low 4 bits) and LockSequenceIndex (high 28 bits); reserved in 2.0.2.
    pub lock_sequence: u32,
    /// The open that locks or unlocks.
    pub file_id: FileId,
    /// The ranges to lock or unlock.
    pub locks: Locks<'a>,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    structure_size: U16,
    lock_count: U16,
    lock_sequence: U32,
    file_id: FileIdLayout,
}

/// Includes one range, although LockCount may be zero.
const REQUEST_SIZE: u16 = 48;

impl LockRequest<'_> {
    /// LockSequenceNumber, which tells a replay from a new request.
    #[must_use]
    pub const fn lock_sequence_number(&self) -> u32 {
        self.lock_sequence & 0x0000_000F
    }

    /// LockSequenceIndex, the index into Open.LockSequenceArray; 1 to 64 if in use.
    #[must_use]
    pub const fn lock_sequence_index(&self) -> u32 {
        self.lock_sequence >> 4
    }
}

impl<'a> Decode<'a> for LockRequest<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &RequestLayout = message::body(message, REQUEST_SIZE)?;
        let length = usize::from(layout.lock_count.get()) * size_of::<ElementLayout>();
        let offset = message::offset_behind::<RequestLayout>();
        let bytes = message::buffer(message, offset, length)?;
        let elements =
            <[ElementLayout]>::ref_from_bytes(bytes).expect("a whole number of unaligned elements");
        Ok(Self {
            lock_sequence: layout.lock_sequence.get(),
            file_id: layout.file_id.into(),
            locks: Locks(Source::Received(elements)),
        })
    }

    fn file_id(&self) -> Option<FileId> {
        Some(self.file_id)
    }
}

impl Encode for LockRequest<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let lock_count = u16::try_from(self.locks.len()).expect("fewer than 65536 ranges");
        let layout = RequestLayout {
            structure_size: REQUEST_SIZE.into(),
            lock_count: lock_count.into(),
            lock_sequence: self.lock_sequence.into(),
            file_id: self.file_id.into(),
        };
        message::put(out, &layout);
        self.locks.iter().for_each(|element| message::put(out, &ElementLayout::from(element)));
    }
}

empty_bodies! {
    /// The response: [MS-SMB2] 2.2.27.
    LockResponse;
}

#[cfg(test)]
mod tests;
