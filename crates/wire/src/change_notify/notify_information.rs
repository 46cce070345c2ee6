//! FILE_NOTIFY_INFORMATION: [MS-FSCC] 2.7.1.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codes::codes;
use crate::error::DecodeError;
use crate::message;

codes! {
    /// Kind of a change: [MS-FSCC] 2.7.1.
    NotifyAction(u32) {
        ADDED = 0x0000_0001,
        REMOVED = 0x0000_0002,
        MODIFIED = 0x0000_0003,
        RENAMED_OLD_NAME = 0x0000_0004,
        RENAMED_NEW_NAME = 0x0000_0005,
        ADDED_STREAM = 0x0000_0006,
        REMOVED_STREAM = 0x0000_0007,
        MODIFIED_STREAM = 0x0000_0008,
        REMOVED_BY_DELETE = 0x0000_0009,
        ID_NOT_TUNNELLED = 0x0000_000A,
        TUNNELLED_ID_COLLISION = 0x0000_000B,
    }
}

/// One change of a name in the directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotifyInformation<'a> {
    /// Kind of the change.
    pub action: NotifyAction,
    /// The changed name, relative to the directory, in UTF-16LE.
    pub file_name: &'a [u8],
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    next_entry_offset: U32,
    action: U32,
    file_name_length: U32,
}

impl<'a> NotifyInformation<'a> {
    /// Bytes of the fixed part of an entry.
    pub const FIXED_SIZE: usize = size_of::<Layout>();

    /// The changes in the buffer of a response. An unreadable entry is an error value, which ends
    /// the iteration.
    pub fn iter(bytes: &'a [u8]) -> impl Iterator<Item = Result<Self, DecodeError>> + use<'a> {
        let mut rest = bytes;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (entry, behind) = match split(rest) {
                Ok((entry, behind)) => (Ok(entry), behind),
                Err(error) => (Err(error), &[][..]),
            };
            rest = behind;
            Some(entry)
        })
    }
}

/// Splits the first entry off a chain that is not empty, and returns the rest of the chain too.
fn split(chain: &[u8]) -> Result<(NotifyInformation<'_>, &[u8]), DecodeError> {
    let (layout, rest) = message::prefix::<Layout>(chain)?;
    let length = usize::try_from(layout.file_name_length.get()).unwrap_or(usize::MAX);
    let file_name = message::slice(rest, 0, length)?;
    let next = layout.next_entry_offset.get();
    let behind = match usize::try_from(next).unwrap_or(usize::MAX) {
        0 => &[][..],
        offset if offset < NotifyInformation::FIXED_SIZE + length => {
            return Err(DecodeError::BadValue { field: "NextEntryOffset", value: next.into() });
        }
        offset => message::slice(chain, offset, chain.len().saturating_sub(offset))?,
    };
    Ok((NotifyInformation { action: NotifyAction(layout.action.get()), file_name }, behind))
}

/// Changes to send, already encoded.
#[derive(Clone, Debug, Default)]
pub struct NotifyInformationList {
    bytes: Vec<u8>,
    /// Offset of the last entry, whose NextEntryOffset is still zero.
    last: usize,
}

impl NotifyInformationList {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), last: 0 }
    }

    /// Adds a change if the list stays within `length_max` bytes. Returns whether it did.
    #[must_use]
    pub fn push(&mut self, change: &NotifyInformation<'_>, length_max: usize) -> bool {
        let start = self.bytes.len().next_multiple_of(4);
        let end = start + size_of::<Layout>() + change.file_name.len();
        if end > length_max {
            return false;
        }
        if !self.bytes.is_empty() {
            self.bytes.resize(start, 0);
            let next = message::len32(&self.bytes[self.last..]);
            self.bytes[self.last..self.last + 4].copy_from_slice(&next.to_le_bytes());
        }
        self.last = start;
        let layout = Layout {
            next_entry_offset: U32::ZERO,
            action: change.action.0.into(),
            file_name_length: message::len32(change.file_name).into(),
        };
        message::put(&mut self.bytes, &layout);
        self.bytes.extend_from_slice(change.file_name);
        true
    }

    /// True without changes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The encoded entries, for a response.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}
