//! DOS attributes and creation time in the extended attribute `user.DOSATTRIB`, in Samba's
//! encoding.
//!
//! The value is NDR of Samba's own structure: a string that old versions used (now empty, padded to
//! two bytes), a version, the version again as the discriminant of a union, padding to four bytes,
//! and the union's arm. We write version 5, which says which of its fields hold; we read versions 1
//! to 5 and the text that came before them.

use dtyp::fscc::ReparseTag;
use dtyp::{FileAttributes, FileTime};

/// Name of the extended attribute.
pub(crate) const NAME: &str = "user.DOSATTRIB";

/// Bytes of the largest form that is read: version 2 carries a name after what we look at.
pub(crate) const SIZE_MAX: usize = 512;

/// In `valid_flags`: the attributes hold.
const VALID_ATTRIBUTES: u32 = 0x01;
/// In `valid_flags`: the creation time holds.
const VALID_CREATION_TIME: u32 = 0x10;

/// Attributes of files that have none stored: [MS-FSA] sets ARCHIVE on every file created.
pub(crate) const DEFAULT_FILE: FileAttributes = FileAttributes::ARCHIVE;

/// Decoded value of the extended attribute.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct DosAttributes {
    pub(crate) attributes: Option<FileAttributes>,
    pub(crate) creation_time: Option<FileTime>,
    /// Tag of the object's reparse point. Stored elsewhere: see
    /// [`crate::metadata::reparse_attribute`].
    pub(crate) reparse_tag: Option<ReparseTag>,
    /// The type of POSIX, as in a mode, that the reparse point stands for.
    pub(crate) reparse_type: Option<u32>,
}

impl DosAttributes {
    /// Encodes the value in version 5.
    pub(crate) fn encode(&self) -> [u8; 24] {
        let mut valid = 0;
        valid |= self.attributes.map_or(0, |_| VALID_ATTRIBUTES);
        valid |= self.creation_time.map_or(0, |_| VALID_CREATION_TIME);
        let attributes = self.attributes.unwrap_or_default().bits();
        let mut out = [0; 24];
        out[2..4].copy_from_slice(&5u16.to_le_bytes());
        out[4..6].copy_from_slice(&5u16.to_le_bytes());
        out[8..12].copy_from_slice(&valid.to_le_bytes());
        out[12..16].copy_from_slice(&attributes.to_le_bytes());
        out[16..].copy_from_slice(&self.creation_time.unwrap_or_default().0.to_le_bytes());
        out
    }

    /// Whether it is worth looking for a reparse point.
    pub(crate) fn claims_reparse_point(&self) -> bool {
        self.attributes.unwrap_or_default().contains(FileAttributes::REPARSE_POINT)
    }

    /// `None` if it is none of the forms that Samba has written. Anyone with the right to write the
    /// file may have set the value.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        if value.starts_with(b"0x") || value.starts_with(b"0X") {
            return Self::decode_text(value);
        }
        if value.first() != Some(&0) {
            return None;
        }
        let u32_at = |at: usize| Some(u32::from_le_bytes(*value.get(at..)?.first_chunk()?));
        let time_at = |at: usize| {
            let time = u64::from_le_bytes(*value.get(at..)?.first_chunk()?);
            Some(FileTime(time))
        };
        let version = u16::from_le_bytes(*value.get(2..)?.first_chunk()?);
        let (valid, attributes, creation_time) = match version {
            // attributes, EA size, size, allocation size, creation time
            1 => (u32::MAX, u32_at(8)?, time_at(32)?),
            // flags or valid flags, attributes, EA size, size, allocation size, creation time
            2 => (u32::MAX, u32_at(12)?, time_at(36)?),
            3 => (u32_at(8)?, u32_at(12)?, time_at(36)?),
            // valid flags, attributes, invented time, creation time
            4 => (u32_at(8)?, u32_at(12)?, time_at(24)?),
            5 => (u32_at(8)?, u32_at(12)?, time_at(16)?),
            _ => return None,
        };
        let attributes = FileAttributes::from_bits_retain(attributes);
        Some(Self {
            attributes: (valid & VALID_ATTRIBUTES != 0).then_some(attributes),
            creation_time: (valid & VALID_CREATION_TIME != 0 && creation_time != FileTime::ZERO)
                .then_some(creation_time),
            reparse_tag: None,
            reparse_type: None,
        })
    }

    /// The text form: hexadecimal attributes, with or without a terminator.
    fn decode_text(value: &[u8]) -> Option<Self> {
        let digits = value.get(2..)?.split(|byte| *byte == 0).next()?;
        let bits = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        let attributes = Some(FileAttributes::from_bits_retain(bits));
        Some(Self { attributes, ..Self::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::DosAttributes;
    use dtyp::{FileAttributes, FileTime};

    /// As Samba 4.17 stored it for a file with READONLY, HIDDEN, SYSTEM and ARCHIVE.
    const FROM_SAMBA: [u8; 24] = [
        0x00, 0x00, 0x05, 0x00, 0x05, 0x00, 0x00, 0x00, 0x11, 0x00, 0x00, 0x00, 0x27, 0x00, 0x00,
        0x00, 0x5f, 0xec, 0xb1, 0x6d, 0x2c, 0x79, 0xdd, 0x01,
    ];

    #[test]
    fn the_encoding_is_sambas() {
        let decoded = DosAttributes::decode(&FROM_SAMBA).expect("Samba wrote it");
        let attributes = FileAttributes::READONLY
            | FileAttributes::HIDDEN
            | FileAttributes::SYSTEM
            | FileAttributes::ARCHIVE;
        assert_eq!(decoded.attributes, Some(attributes));
        assert_eq!(decoded.creation_time, Some(FileTime(0x01dd_792c_6db1_ec5f)));
        assert_eq!(decoded.encode(), FROM_SAMBA);
    }

    #[test]
    fn older_versions_are_read() {
        let text = DosAttributes::decode(b"0x22\0").expect("text");
        assert_eq!(text.attributes, Some(FileAttributes::HIDDEN | FileAttributes::ARCHIVE));

        let mut third = vec![0, 0, 3, 0, 3, 0, 0, 0, 0x11, 0, 0, 0, 0x02, 0, 0, 0];
        third.extend_from_slice(&[0; 20]);
        third.extend_from_slice(&7u64.to_le_bytes());
        third.extend_from_slice(&9u64.to_le_bytes());
        let third = DosAttributes::decode(&third).expect("version 3");
        assert_eq!(third.attributes, Some(FileAttributes::HIDDEN));
        assert_eq!(third.creation_time, Some(FileTime(7)));

        let mut fourth = vec![0, 0, 4, 0, 4, 0, 0, 0, 0x11, 0, 0, 0, 0x04, 0, 0, 0];
        fourth.extend_from_slice(&5u64.to_le_bytes());
        fourth.extend_from_slice(&8u64.to_le_bytes());
        let fourth = DosAttributes::decode(&fourth).expect("version 4");
        assert_eq!(fourth.attributes, Some(FileAttributes::SYSTEM));
        assert_eq!(fourth.creation_time, Some(FileTime(8)));
    }

    #[test]
    fn no_value_makes_it_panic() {
        for cut in 0..FROM_SAMBA.len() {
            assert_eq!(DosAttributes::decode(&FROM_SAMBA[..cut]), None);
        }
        for version in 0..=255 {
            let mut value = FROM_SAMBA;
            value[2] = version;
            let decoded = DosAttributes::decode(&value);
            assert_eq!(decoded.is_some(), version == 5, "too short for any other: {version}");
        }
    }
}
