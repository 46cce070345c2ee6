//! GUID: [MS-DTYP] 2.3.4.

use std::fmt;

/// A GUID, as its 16 bytes on the wire.
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// The GUID of zeros: no GUID, in most specifications.
    pub const ZERO: Self = Self([0; 16]);

    /// Builds a GUID from the fields of its text form, `data1-data2-data3-data4`.
    #[must_use]
    pub const fn from_fields(data1: u32, data2: u16, data3: u16, data4: [u8; 8]) -> Self {
        let (a, b, c, d) = (data1.to_le_bytes(), data2.to_le_bytes(), data3.to_le_bytes(), data4);
        Self([
            a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], d[0], d[1], d[2], d[3], d[4], d[5],
            d[6], d[7],
        ])
    }

    /// True for the GUID of zeros.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = &self.0;
        let data1 = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        let data2 = u16::from_le_bytes([b[4], b[5]]);
        let data3 = u16::from_le_bytes([b[6], b[7]]);
        write!(f, "{data1:08x}-{data2:04x}-{data3:04x}-{:02x}{:02x}-", b[8], b[9])?;
        b[10..].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Guid;

    #[test]
    fn the_first_three_fields_are_little_endian() {
        let guid = Guid::from_fields(
            0x4b32_4fc8,
            0x1670,
            0x01d3,
            [0x12, 0x78, 0x5a, 0x47, 0xbf, 0x6e, 0xe1, 0x88],
        );
        assert_eq!(guid.to_string(), "4b324fc8-1670-01d3-1278-5a47bf6ee188");
        assert_eq!(guid.0[..4], [0xc8, 0x4f, 0x32, 0x4b]);
    }
}
