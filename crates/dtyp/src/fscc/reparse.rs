//! Reparse points: [MS-FSCC] 2.1.2.

use crate::utf16;

/// Kind of a reparse point: [MS-FSCC] 2.1.2.1.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct ReparseTag(pub u32);

impl ReparseTag {
    /// IO_REPARSE_TAG_RESERVED_ZERO: no reparse point.
    pub const RESERVED_ZERO: Self = Self(0);
    /// IO_REPARSE_TAG_RESERVED_ONE: no reparse point either.
    pub const RESERVED_ONE: Self = Self(1);
    /// IO_REPARSE_TAG_MOUNT_POINT: a junction.
    pub const MOUNT_POINT: Self = Self(0xA000_0003);
    /// IO_REPARSE_TAG_DFS: a link of a DFS namespace.
    pub const DFS: Self = Self(0x8000_000A);
    /// IO_REPARSE_TAG_SYMLINK: a symbolic link.
    pub const SYMLINK: Self = Self(0xA000_000C);
    /// IO_REPARSE_TAG_NFS: a link, pipe, socket or device of a POSIX system.
    pub const NFS: Self = Self(0x8000_0014);

    /// True for a tag of Microsoft's; others come with a GUID.
    #[must_use]
    pub const fn is_microsoft(self) -> bool {
        self.0 & 0x8000_0000 != 0
    }
}

/// REPARSE_DATA_BUFFER: [MS-FSCC] 2.1.2.2.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReparseData<'a> {
    /// Kind of the reparse point.
    pub tag: ReparseTag,
    /// Content of the reparse point, without the GUID of tags that are not Microsoft's.
    pub data: &'a [u8],
}

/// Bytes of tag, length and reserved field.
const HEAD_LEN: usize = 8;

/// Bytes of the GUID of tags that are not Microsoft's: [MS-FSCC] 2.1.2.3.
const GUID_LEN: usize = 16;

impl<'a> ReparseData<'a> {
    /// Highest number of bytes of a reparse point: [MS-FSA] 2.1.5.10.37.
    pub const BYTES_MAX: usize = 16_384;

    /// Reads a whole buffer; `None` if its length field is wrong, or it is longer than
    /// [`Self::BYTES_MAX`]: a local program may have stored it.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() > Self::BYTES_MAX {
            return None;
        }
        let (head, data) = bytes.split_first_chunk::<HEAD_LEN>()?;
        let [a, b, c, d, low, high, _, _] = *head;
        let tag = ReparseTag(u32::from_le_bytes([a, b, c, d]));
        let length = usize::from(u16::from_le_bytes([low, high]));
        let data = if tag.is_microsoft() { data } else { data.get(GUID_LEN..)? };
        (data.len() == length).then_some(Self { tag, data })
    }

    /// Appends the packet form. The GUID of a tag that is not Microsoft's is zero.
    ///
    /// # Panics
    /// If the data has more than 65,535 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let length = u16::try_from(self.data.len()).expect("names of limited length");
        out.extend_from_slice(&self.tag.0.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        if !self.tag.is_microsoft() {
            out.extend_from_slice(&[0; GUID_LEN]);
        }
        out.extend_from_slice(self.data);
    }
}

/// The data of [`ReparseTag::SYMLINK`]: [MS-FSCC] 2.1.2.4.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SymbolicLinkReparse {
    /// Target of the link.
    pub substitute_name: String,
    /// Target in a form for display.
    pub print_name: String,
    /// True if the target begins at the directory of the link, and not at a volume.
    pub is_relative: bool,
}

/// SYMLINK_FLAG_RELATIVE: [MS-FSCC] 2.1.2.4.
const RELATIVE: u32 = 1;

impl SymbolicLinkReparse {
    /// Reads the data; `None` if a name leaves it or is not UTF-16.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        let (head, names) = data.split_first_chunk::<12>()?;
        let half = |at: usize| usize::from(u16::from_le_bytes([head[at], head[at + 1]]));
        let name = |at: usize| {
            let bytes = names.get(half(at)..)?.get(..half(at + 2))?;
            utf16::decode(bytes).ok()
        };
        let flags = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        Some(Self {
            substitute_name: name(0)?,
            print_name: name(4)?,
            is_relative: flags & RELATIVE != 0,
        })
    }

    /// Appends the packet form to `out`.
    ///
    /// # Panics
    /// If a name has more than 32,767 UTF-16 units.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let substitute = utf16::to_bytes(&self.substitute_name);
        let print = utf16::to_bytes(&self.print_name);
        let length = |name: &[u8]| u16::try_from(name.len()).expect("paths have a limit");
        for half in [0, length(&substitute), length(&substitute), length(&print)] {
            out.extend_from_slice(&half.to_le_bytes());
        }
        let flags = if self.is_relative { RELATIVE } else { 0 };
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&substitute);
        out.extend_from_slice(&print);
    }
}

#[cfg(test)]
mod tests {
    use super::{ReparseData, ReparseTag, SymbolicLinkReparse};

    /// The link that `mklink l a\b` creates.
    const LINK: [u8; 32] = [
        0x0C, 0, 0, 0xA0, 24, 0, 0, 0, 0, 0, 6, 0, 6, 0, 6, 0, 1, 0, 0, 0, b'a', 0, b'\\', 0, b'b',
        0, b'a', 0, b'\\', 0, b'b', 0,
    ];

    #[test]
    fn a_symbolic_link_has_the_bytes_of_the_document() {
        let buffer = ReparseData::decode(&LINK).expect("it is whole");
        assert_eq!(buffer.tag, ReparseTag::SYMLINK);
        let link = SymbolicLinkReparse::decode(buffer.data).expect("it is a link");
        let want = SymbolicLinkReparse {
            substitute_name: "a\\b".to_owned(),
            print_name: "a\\b".to_owned(),
            is_relative: true,
        };
        assert_eq!(link, want);
        let (mut data, mut bytes) = (Vec::new(), Vec::new());
        link.encode(&mut data);
        ReparseData { tag: ReparseTag::SYMLINK, data: &data }.encode(&mut bytes);
        assert_eq!(bytes, LINK);
    }

    #[test]
    fn a_buffer_that_is_cut_or_too_long_decodes_to_none() {
        for cut in 0..LINK.len() {
            assert_eq!(ReparseData::decode(&LINK[..cut]), None, "{cut}");
        }
        assert_eq!(ReparseData::decode(&[&LINK[..], &[0]].concat()), None);
        for cut in 0..LINK.len() - 8 {
            assert_eq!(SymbolicLinkReparse::decode(&LINK[8..8 + cut]), None, "{cut}");
        }
        let mut odd = LINK;
        odd[10] = 5;
        assert_eq!(SymbolicLinkReparse::decode(&odd[8..]), None);
    }

    /// Both names of a link may be the same bytes, and fit a response all the same.
    #[test]
    fn no_buffer_is_longer_than_one_that_can_be_set() {
        for (length, is_read) in [(ReparseData::BYTES_MAX, true), (60_000, false)] {
            let (tag, data) = (ReparseTag::NFS, vec![0; length - 8]);
            let mut bytes = Vec::new();
            ReparseData { tag, data: &data }.encode(&mut bytes);
            assert_eq!(ReparseData::decode(&bytes).is_some(), is_read, "{length}");
        }
    }

    #[test]
    fn tags_of_others_come_with_a_guid() {
        let foreign = ReparseData { tag: ReparseTag(7), data: b"xy" };
        let mut bytes = Vec::new();
        foreign.encode(&mut bytes);
        assert_eq!(bytes.len(), 8 + 16 + 2);
        assert_eq!(ReparseData::decode(&bytes), Some(foreign));
    }
}
